package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// unembedded is a passage that waits, and when it was written.
type unembedded struct {
	store.Unembedded
	at time.Time
}

// Unembedded lists passages without a vector.
func (s *Store) Unembedded(ctx context.Context, name string, limit int) ([]store.Unembedded, error) {
	if err := s.usable(ctx, store.CheckEmbedder(name)); err != nil {
		return nil, err
	}
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	var g *backlogScan
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		g = &backlogScan{tx: tx, limit: limit}
		return g.run(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	if err := s.moveMarks(ctx, g.eid, g.moved); err != nil && ctx.Err() == nil {
		s.config.Logger.Warn("marks of embedded messages could not be moved, the messages will be read again", "err", err)
	}
	return g.oldest(), nil
}

// UnembeddedOf lists messages of a session without a vector.
func (s *Store) UnembeddedOf(ctx context.Context, r store.Ref, name string, limit int) ([]store.Unembedded, error) {
	if err := s.usable(ctx, r.Check(), store.CheckEmbedder(name)); err != nil {
		return nil, err
	}
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	var g *backlogScan
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		g = &backlogScan{tx: tx, limit: limit}
		if g.eid, err = embedderID(ctx, tx, name); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT n.log, n.after_seq, n.upto_seq FROM sessions s JOIN lineage n ON n.sid = s.sid WHERE s.tenant = $1 AND s.id = $2 ORDER BY n.after_seq`, r.Tenant, r.ID)
		if err != nil {
			return err
		}
		logs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b behind, err error) {
			err = row.Scan(&b.log, &b.upto, &b.last)
			return b, err
		})
		if err != nil {
			return err
		}
		return g.readAll(ctx, logs)
	})
	if err != nil {
		return nil, err
	}
	return g.oldest(), nil
}

// oldest are the passages that were written first.
func (g *backlogScan) oldest() []store.Unembedded {
	slices.SortStableFunc(g.waiting, func(a, b unembedded) int { return a.at.Compare(b.at) })
	list := make([]store.Unembedded, min(g.limit, len(g.waiting)))
	for i := range list {
		list[i] = g.waiting[i].Unembedded
	}
	return list
}

// moveMarks moves marks that are still where they were when the logs were read.
// It skips logs that are locked.
func (s *Store) moveMarks(ctx context.Context, eid int64, moved []behind) error {
	if eid == 0 || len(moved) == 0 {
		return nil
	}
	marks := map[int64]behind{}
	for _, b := range moved {
		marks[b.log] = b
	}
	return s.once(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			logs, err := claim(ctx, tx, slices.Sorted(maps.Keys(marks)))
			if err != nil || len(logs) == 0 {
				return err
			}
			var from, to []int64
			for _, log := range logs {
				from, to = append(from, marks[log].from), append(to, marks[log].upto)
			}
			_, err = tx.Exec(ctx, `INSERT INTO embedded AS e (eid, log, upto)
				SELECT $1, g.log, g.upto FROM unnest($2::bigint[], $4::bigint[]) AS g (log, upto) WHERE EXISTS (SELECT 1 FROM lineage l WHERE l.log = g.log)
				ON CONFLICT (eid, log) DO UPDATE SET upto = excluded.upto
				WHERE e.upto = (SELECT f.upto FROM unnest($2::bigint[], $3::bigint[]) AS f (log, upto) WHERE f.log = e.log)`, eid, logs, from, to)
			return err
		})
	})
}

// backlogScan looks for passages that wait for a vector.
type backlogScan struct {
	tx      pgx.Tx
	eid     int64
	limit   int
	waiting []unembedded
	moved   []behind
}

// behind is a log that has changes behind a mark.
type behind struct {
	log, from  int64 // where the mark was
	upto, last int64 // how far nothing waits, and where the log ends
}

const (
	behindLogs = 256 // are looked for at once
	listedLogs = 32  // are read at once
	listedRows = 64  // of a log are read at once, at least
)

func (g *backlogScan) run(ctx context.Context, name string) (err error) {
	if g.eid, err = embedderID(ctx, g.tx, name); err != nil {
		return err
	}
	for after := int64(0); len(g.waiting) < g.limit; {
		logs, err := g.findBehind(ctx, after)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(logs, listedLogs) {
			if err := g.readAll(ctx, some); err != nil {
				return err
			}
			if len(g.waiting) >= g.limit {
				break
			}
		}
		if len(logs) < behindLogs {
			break
		}
		after = logs[len(logs)-1].log
	}
	return g.findEntries(ctx)
}

// findBehind finds logs whose marks are not at their end, in order. That of a
// purged session ends where its forks begin.
func (g *backlogScan) findBehind(ctx context.Context, after int64) ([]behind, error) {
	rows, err := g.tx.Query(ctx, `SELECT g.log, coalesce(e.upto, 0), g.last FROM (
			SELECT s.sid AS log, s.last_seq AS last FROM sessions s WHERE s.sid > @after
			UNION ALL SELECT l.log, max(l.upto_seq) FROM lineage l WHERE l.log <> l.sid AND l.log > @after
				AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.sid = l.log) GROUP BY l.log) g
		LEFT JOIN embedded e ON e.eid = @eid AND e.log = g.log
		WHERE g.last > coalesce(e.upto, 0) ORDER BY g.log LIMIT @limit`,
		pgx.NamedArgs{"eid": g.eid, "after": after, "limit": behindLogs})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (behind, error) {
		var b behind
		err := row.Scan(&b.log, &b.from, &b.last)
		b.upto = b.from
		return b, err
	})
}

// readAll reads some logs until each has something that waits, or nothing to
// its end.
func (g *backlogScan) readAll(ctx context.Context, logs []behind) error {
	for rest := logs; len(rest) > 0; {
		more, err := g.read(ctx, rest)
		if err != nil {
			return err
		}
		rest = more
	}
	return nil
}

// read reads the next messages of logs and returns those logs that have had
// nothing with a text so far, and may have more.
func (g *backlogScan) read(ctx context.Context, logs []behind) (more []behind, err error) {
	args := pgx.NamedArgs{"eid": g.eid, "limit": max(g.limit, listedRows)}
	ids, from, to := make([]int64, len(logs)), make([]int64, len(logs)), make([]int64, len(logs))
	for i, b := range logs {
		ids[i], from[i], to[i] = b.log, b.upto, b.last
	}
	args["logs"], args["from"], args["to"] = ids, from, to
	rows, err := g.tx.Query(ctx, waitingMessages, args)
	if err != nil {
		return nil, err
	}
	read, last, first := map[int64]int{}, map[int64]int64{}, map[int64]int64{}
	var log, seq int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&log, &seq, &body}, func() error {
		read[log]++
		last[log] = max(last[log], seq)
		m, ok := messageOf(body)
		if !ok {
			return nil
		}
		if text := store.MessageText(m); text != "" {
			if first[log] == 0 {
				first[log] = seq
			}
			g.waiting = append(g.waiting, unembedded{store.Unembedded{Token: messageToken(log, seq), Text: text}, m.CreatedAt})
		}
		return nil
	})
	for _, b := range logs {
		switch {
		case first[b.log] > 0:
			b.upto = first[b.log] - 1
		case read[b.log] < max(g.limit, listedRows):
			b.upto = b.last
		default:
			b.upto = last[b.log]
			more = append(more, b)
			continue
		}
		if b.upto > b.from {
			g.moved = append(g.moved, b)
		}
	}
	return more, err
}

// waitingMessages are the first messages of logs, after one change and up to
// another, that have no vector.
const waitingMessages = `SELECT g.log, c.seq, c.body FROM unnest(@logs::bigint[], @from::bigint[], @to::bigint[]) AS g (log, after, upto)
	CROSS JOIN LATERAL (SELECT c.seq, c.body FROM changes c WHERE c.log = g.log AND c.seq > g.after AND c.seq <= g.upto AND c.kind = '` + messageAdded + `' AND ` + searchable + `
		AND NOT EXISTS (SELECT 1 FROM message_vectors v WHERE v.log = c.log AND v.seq = c.seq AND v.eid = @eid) ORDER BY c.seq LIMIT @limit) c
	ORDER BY g.log, c.seq`

// findEntries finds newest entries that have no vector.
func (g *backlogScan) findEntries(ctx context.Context) error {
	rows, err := g.tx.Query(ctx, `SELECT m.mid, m.version, m.key, v.value, v.updated_at FROM (
			SELECT m.mid, m.version, m.key FROM memories m WHERE m.present
				AND NOT EXISTS (SELECT 1 FROM entry_vectors e WHERE e.mid = m.mid AND e.eid = $1 AND e.version = m.version) ORDER BY m.mid LIMIT $2) m
		JOIN memory_versions v ON v.mid = m.mid AND v.version = m.version ORDER BY m.mid`, g.eid, g.limit)
	if err != nil {
		return err
	}
	var mid, version int64
	var key string
	var value []byte
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&mid, &version, &key, &value, &at}, func() error {
		if text, err := checked(value, key); err == nil { // a damaged one is not embedded
			g.waiting = append(g.waiting, unembedded{store.Unembedded{Token: entryToken(mid, version), Text: store.EntryWords(key, text)}, at})
		}
		return nil
	})
	return err
}
