package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// The sums of what is stored beside the log. The row of a session is the mark up
// to which its log goes: last_seq and last_sum say with which record it ends.

func (ch change) logged(version int64) store.Logged {
	return store.Logged{Seq: ch.seq, Version: version, Kind: ch.kind, Body: ch.data, Bare: true, At: micros(ch.at)}
}

// addSums gives changes their sums, which follow that of the record before
// them, and returns the last.
func addSums(changes []change, before store.Sum, version int64) store.Sum {
	for i := range changes {
		before = before.Next(changes[i].logged(version))
		changes[i].sum = before
	}
	return before
}

func commitSum(last store.Sum, i store.CommitInfo) int64 {
	return store.SumOf(last, i.Version, i.FirstSeq, i.LastSeq, i.ID, i.Action, i.Actor, micros(i.At))
}

func (h head) checksum() int64 { return store.SumOf(h.version, h.seq, h.logSum, h.data) }

func headerSum(r store.Ref, header []byte) int64 { return store.SumOf(r.Tenant, r.ID, header) }

func (w row) checksum(r store.Ref) int64 {
	return store.SumOf(r.Tenant, r.ID, w.agentID, w.version, w.seq, w.last, w.forkedAt, w.lastSum, w.headerSum)
}

// damage returns why a row cannot be used.
func (w row) damage(r store.Ref) error {
	if w.checksum(r) != w.sum {
		return &session.CorruptError{ID: r.ID, Path: "row", Reason: "where its log ends does not match its checksum"}
	}
	return nil
}

func itemSum(log int64, id string, data []byte) int64 { return store.SumOf(log, id, data) }

// entrySum covers an entry and its labels as they are stored. One without labels
// has the sum that entries had before there were any.
func entrySum(e store.Entry, labels []byte) int64 {
	parts := []any{e.Key, e.Version, micros(e.CreatedAt), micros(e.UpdatedAt), e.SessionID, []byte(e.Value)}
	if len(labels) > 0 {
		parts = append(parts, labels)
	}
	return store.SumOf(parts...)
}

// sumBatch bounds how many rows the sums of an older database are computed for
// at once.
const sumBatch = 500

// addMissingSums fills in the sums of a database that had none.
func (c *conn) addMissingSums(ctx context.Context) error {
	for _, step := range []func(context.Context) error{c.sumChanges, c.sumSeals, c.sumHeads, c.sumRows, c.sumInbox, c.sumEntries} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// batches calls next with a position after which it handles sumBatch rows,
// until it has handled none.
func batches(next func(limit int) (handled int, err error)) error {
	for {
		if n, err := next(sumBatch); err != nil || n == 0 {
			return err
		}
	}
}

// sumChanges follows each log, those of parents before those of their forks,
// because a log has a higher number than the one it was forked from.
func (c *conn) sumChanges(ctx context.Context) error {
	var at struct{ log, seq int64 }
	var chain store.Sum
	return batches(func(limit int) (int, error) {
		type found struct {
			n, log int64
			row    logRow
			commit bool
			info   store.CommitInfo
		}
		var batch []found
		err := c.each(ctx, `SELECT n, log, seq, version, kind, at, discarded, data, first_seq, commit_id, commit_uuid, action, actor, sealed_at
FROM changes WHERE (log, seq) > (?, ?) ORDER BY log, seq LIMIT ?`, []any{at.log, at.seq, limit}, func(r *rows) error {
			var f found
			var first, sealed sql.NullInt64
			var id, action, actor sql.NullString
			var packed []byte
			if err := r.Scan(&f.n, &f.log, &f.row.seq, &f.row.version, &f.row.kind, &f.row.at, &f.row.mark, &f.row.data,
				&first, &id, &packed, &action, &actor, &sealed); err != nil {
				return err
			}
			if f.commit = first.Valid; f.commit {
				f.info = store.CommitInfo{
					Version: f.row.version, FirstSeq: first.Int64, LastSeq: f.row.seq,
					Action: action.String, Actor: actor.String, At: instant(sealed.Int64),
				}
				f.info.ID, _ = joinID(id, packed) // what cannot be read is found when it is
			}
			batch = append(batch, f)
			return nil
		})
		if err != nil {
			return 0, err
		}
		for _, f := range batch {
			if f.log != at.log {
				if chain, err = c.sumBefore(ctx, f.log); err != nil {
					return 0, err
				}
			}
			at.log, at.seq = f.log, f.row.seq
			chain = chain.Next(f.row.logged())
			var ofCommit any
			if f.commit {
				ofCommit = commitSum(chain, f.info)
			}
			if _, err := c.exec(ctx, "UPDATE changes SET sum = ?1, discarded = CASE WHEN discarded = 0 THEN 0 ELSE ~?1 END, commit_sum = ?2 WHERE n = ?3",
				int64(chain), ofCommit, f.n); err != nil {
				return 0, err
			}
		}
		return len(batch), nil
	})
}

// sumBefore is the sum that the first record of a log follows. If its session
// was deleted, the forks that need the log say what comes before it.
func (c *conn) sumBefore(ctx context.Context, log int64) (before store.Sum, err error) {
	for _, query := range []string{
		`SELECT c.sum FROM lineage l JOIN changes c ON c.log = l.ancestor AND c.seq = l.upto_seq WHERE l.log = ? ORDER BY l.upto_seq DESC LIMIT 1`,
		`SELECT c.sum FROM lineage l JOIN lineage b ON b.log = l.log AND b.upto_seq = l.after_seq
JOIN changes c ON c.log = b.ancestor AND c.seq = b.upto_seq WHERE l.ancestor = ? LIMIT 1`,
	} {
		found, err := c.one(ctx, query, []any{log}, (*int64)(&before))
		if err != nil || found {
			return before, err
		}
	}
	return 0, nil
}

// sumSeals fills in the sums of the commits that no change carries.
func (c *conn) sumSeals(ctx context.Context) error {
	var log, version int64
	return batches(func(limit int) (int, error) {
		var sums []int64
		var keys [][2]int64
		err := c.each(ctx, `SELECT k.log, k.version, k.id, k.first_seq, k.last_seq, k.action, k.actor, k.at, coalesce(c.sum, 0) FROM commits k
LEFT JOIN changes c ON c.log = k.log AND c.seq = k.last_seq WHERE (k.log, k.version) > (?, ?) ORDER BY k.log, k.version LIMIT ?`,
			[]any{log, version, limit}, func(r *rows) error {
				var i store.CommitInfo
				var at, last int64
				err := r.Scan(&log, &version, &i.ID, &i.FirstSeq, &i.LastSeq, &i.Action, &i.Actor, &at, &last)
				i.Version, i.At = version, instant(at)
				sums, keys = append(sums, commitSum(store.Sum(last), i)), append(keys, [2]int64{log, version})
				return err
			})
		for i, key := range keys {
			if err == nil {
				_, err = c.exec(ctx, "UPDATE commits SET sum = ? WHERE log = ? AND version = ?", sums[i], key[0], key[1])
			}
		}
		return len(keys), err
	})
}

// sumByKey fills in the sums of a table, row by row in the order of a number.
func (c *conn) sumByKey(ctx context.Context, query, update string, sum func(*rows) (key int64, args []any, err error)) error {
	after := int64(math.MinInt64)
	return batches(func(limit int) (int, error) {
		var updates [][]any
		err := c.each(ctx, query, []any{after, limit}, func(r *rows) error {
			key, args, err := sum(r)
			after, updates = key, append(updates, append(args, key))
			return err
		})
		for _, args := range updates {
			if err == nil {
				_, err = c.exec(ctx, update, args...)
			}
		}
		return len(updates), err
	})
}

func (c *conn) sumHeads(ctx context.Context) error {
	return c.sumByKey(ctx, `SELECT h.n, h.version, h.seq, h.data, coalesce(c.sum, 0) FROM heads h
LEFT JOIN changes c ON c.log = h.log AND c.seq = h.seq WHERE h.n > ? ORDER BY h.n LIMIT ?`,
		"UPDATE heads SET log_sum = ?, sum = ? WHERE n = ?", func(r *rows) (int64, []any, error) {
			var n int64
			var h head
			err := r.Scan(&n, &h.version, &h.seq, &h.data, &h.logSum)
			return n, []any{int64(h.logSum), h.checksum()}, err
		})
}

func (c *conn) sumRows(ctx context.Context) error {
	return c.sumByKey(ctx, `SELECT s.log, s.tenant, s.id, s.agent_id, s.version, s.seq, s.last_seq, s.forked_at, s.header, coalesce(c.sum, 0) FROM sessions s
LEFT JOIN changes c ON c.log = s.log AND c.seq = s.last_seq WHERE s.log > ? ORDER BY s.log LIMIT ?`,
		"UPDATE sessions SET last_sum = ?, header_sum = ?, row_sum = ? WHERE log = ?", func(r *rows) (int64, []any, error) {
			var ref store.Ref
			var w row
			err := r.Scan(&w.log, &ref.Tenant, &ref.ID, &w.agentID, &w.version, &w.seq, &w.last, &w.forkedAt, &w.header, &w.lastSum)
			w.headerSum = headerSum(ref, []byte(w.header))
			return w.log, []any{int64(w.lastSum), w.headerSum, w.checksum(ref)}, err
		})
}

func (c *conn) sumInbox(ctx context.Context) error {
	return c.sumByKey(ctx, "SELECT n, log, id, data FROM inbox WHERE n > ? ORDER BY n LIMIT ?",
		"UPDATE inbox SET sum = ? WHERE n = ?", func(r *rows) (int64, []any, error) {
			var n, log int64
			var id string
			var data []byte
			err := r.Scan(&n, &log, &id, &data)
			return n, []any{itemSum(log, id, data)}, err
		})
}

func (c *conn) sumEntries(ctx context.Context) error {
	return c.sumByKey(ctx, `SELECT e.n, k.name, e.version, e.created_at, e.updated_at, e.session_id, e.value
FROM memory_entries e JOIN memory_keys k ON k.id = e.key WHERE e.n > ? ORDER BY e.n LIMIT ?`,
		"UPDATE memory_entries SET sum = ? WHERE n = ?", func(r *rows) (int64, []any, error) {
			var n int64
			e, err := scanEntry(r, &n)
			return n, []any{entrySum(e, nil)}, err
		})
}

// scanError makes a CorruptError of a column whose type is not what the schema
// says: SQLite checks that only when it writes.
func scanError(id, path string, err error) error {
	if err == nil {
		return nil
	}
	return &session.CorruptError{ID: id, Path: path, Reason: fmt.Sprintf("a column cannot be read: %v", err)}
}
