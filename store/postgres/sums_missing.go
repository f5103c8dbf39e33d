package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// sumsSchema is the schema that added checksums. Its migration fills them in.
const sumsSchema = 8

// sumBatch bounds how many rows the sums of an older store are computed for at
// once.
const sumBatch = 500

// addMissingSums fills in the sums of a store that had none.
func addMissingSums(ctx context.Context, tx pgx.Tx) error {
	for _, step := range []func(context.Context, pgx.Tx) error{sumChanges, sumSeals, sumSnapshots, sumRows, sumValues} {
		if err := step(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// inBatches reads the rows after a position, which are keyed by two numbers, and
// updates them in one statement, until there are none. Each row returns the
// values of the update's columns after the key.
func inBatches[R any](ctx context.Context, tx pgx.Tx, query, update string, key func(R) (a, b int64), values func([]R) ([]any, error)) error {
	var a, b int64
	for {
		found, err := tx.Query(ctx, query, a, b, sumBatch)
		if err != nil {
			return err
		}
		rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[R])
		if err != nil || len(rows) == 0 {
			return err
		}
		as, bs := make([]int64, len(rows)), make([]int64, len(rows))
		for i, row := range rows {
			as[i], bs[i] = key(row)
		}
		a, b = as[len(rows)-1], bs[len(rows)-1]
		columns, err := values(rows)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, update, append([]any{as, bs}, columns...)...); err != nil {
			return err
		}
	}
}

type unsummedChange struct {
	Log, Seq, Version int64
	Kind              string
	Body              []byte
	FirstSeq          *int64
	CommitID          []byte
	Action, Actor     []byte
	SealedAt          *time.Time
}

// sumChanges follows each log, those of parents before those of their forks,
// because a log has a higher number than the one it was forked from.
func sumChanges(ctx context.Context, tx pgx.Tx) error {
	var log int64
	var last store.Sum
	return inBatches(ctx, tx, `SELECT log, seq, version, kind, body, first_seq, commit_id, action, actor, sealed_at FROM changes
			WHERE (log, seq) > ($1, $2) ORDER BY log, seq LIMIT $3`,
		`UPDATE changes c SET body = g.body, commit_id = g.commit_id
			FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bytea[]) AS g (log, seq, body, commit_id) WHERE c.log = g.log AND c.seq = g.seq`,
		func(c unsummedChange) (int64, int64) { return c.Log, c.Seq },
		func(rows []unsummedChange) ([]any, error) {
			bodies, ids := make([][]byte, len(rows)), make([][]byte, len(rows))
			for i, c := range rows {
				if c.Log != log {
					var err error
					if last, err = sumBefore(ctx, tx, c.Log, bodies[:i], rows[:i]); err != nil {
						return nil, err
					}
					log = c.Log
				}
				last = last.Next(store.Logged{Seq: c.Seq, Version: c.Version, Kind: c.Kind, Body: c.Body})
				bodies[i] = append(appendSum(nil, int64(last)), c.Body...)
				if c.SealedAt != nil && c.FirstSeq != nil {
					info := store.CommitInfo{
						Version: c.Version, FirstSeq: *c.FirstSeq, LastSeq: c.Seq,
						Action: string(c.Action), Actor: string(c.Actor), At: session.Instant(*c.SealedAt),
					}
					ids[i] = withSum(c.CommitID, commitSum(last, info)...)
				}
			}
			return []any{bodies, ids}, nil
		})
}

// sumBefore is the sum that the first record of a log follows. The parent's
// record may be among those that were summed just now and are not written yet.
func sumBefore(ctx context.Context, tx pgx.Tx, log int64, bodies [][]byte, summed []unsummedChange) (store.Sum, error) {
	var parent, seq int64
	var body []byte
	err := tx.QueryRow(ctx, `SELECT l.log, l.upto_seq, c.body FROM lineage l LEFT JOIN changes c ON c.log = l.log AND c.seq = l.upto_seq
		WHERE l.sid = $1 AND l.log <> l.sid ORDER BY l.upto_seq DESC LIMIT 1`, log).Scan(&parent, &seq, &body)
	if err == pgx.ErrNoRows { //nolint:errorlint // it is returned as it is
		// An ancestor's log that outlived its session: its own lineage is gone, and that of a fork has it.
		err = tx.QueryRow(ctx, `SELECT b.log, b.upto_seq, c.body FROM lineage l JOIN lineage b ON b.sid = l.sid AND b.upto_seq = l.after_seq
			LEFT JOIN changes c ON c.log = b.log AND c.seq = b.upto_seq WHERE l.log = $1 AND l.sid <> l.log LIMIT 1`, log).Scan(&parent, &seq, &body)
	}
	if err == pgx.ErrNoRows { //nolint:errorlint // it is returned as it is
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for i, c := range summed {
		if c.Log == parent && c.Seq == seq {
			body = bodies[i]
		}
	}
	sum, _, err := cutSum(body)
	if err != nil {
		return 0, fmt.Errorf("log %d follows record %d of log %d: %w", log, seq, parent, err)
	}
	return store.Sum(sum), nil
}

type unsummedSeal struct {
	Log, Version, FirstSeq, LastSeq int64
	ID, Action, Actor               []byte
	At                              time.Time
	Last                            []byte
}

func sumSeals(ctx context.Context, tx pgx.Tx) error {
	return inBatches(ctx, tx, `SELECT log, version, first_seq, last_seq, id, action, actor, at, coalesce(`+sumOfCommit+`, '') FROM seals k
			WHERE (log, version) > ($1, $2) ORDER BY log, version LIMIT $3`,
		`UPDATE seals k SET id = g.id FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS g (log, version, id) WHERE k.log = g.log AND k.version = g.version`,
		func(k unsummedSeal) (int64, int64) { return k.Log, k.Version },
		func(rows []unsummedSeal) ([]any, error) {
			ids := make([][]byte, len(rows))
			for i, k := range rows {
				last, _, _ := cutSum(k.Last) // a commit without its record is found when it is read
				info := store.CommitInfo{
					Version: k.Version, FirstSeq: k.FirstSeq, LastSeq: k.LastSeq, Action: string(k.Action), Actor: string(k.Actor), At: session.Instant(k.At),
				}
				ids[i] = withSum(k.ID, commitSum(store.Sum(last), info)...)
			}
			return []any{ids}, nil
		})
}

type unsummedHead struct {
	SID, Version int64
	Head         []byte
	Last         []byte
}

func sumSnapshots(ctx context.Context, tx pgx.Tx) error {
	return inBatches(ctx, tx, `SELECT n.sid, n.version, n.head, coalesce((SELECT `+sumOfBody+` FROM changes c WHERE c.log = n.sid AND c.seq = n.seq), '') FROM snapshots n
			WHERE (n.sid, n.version) > ($1, $2) ORDER BY n.sid, n.version LIMIT $3`,
		`UPDATE snapshots n SET head = g.head FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS g (sid, version, head) WHERE n.sid = g.sid AND n.version = g.version`,
		func(h unsummedHead) (int64, int64) { return h.SID, h.Version },
		func(rows []unsummedHead) ([]any, error) {
			heads := make([][]byte, len(rows))
			for i, h := range rows {
				last, _, _ := cutSum(h.Last)
				heads[i] = withLogSum(h.Head, store.Sum(last))
			}
			return []any{heads}, nil
		})
}

type unsummedRow struct {
	SID       int64
	Tenant    string
	ID        string
	Version   int64
	Seq       int64
	Messages  *int64
	UpdatedAt time.Time
	Header    []byte
	TailRows  []byte
	Last      []byte
}

// sumRows fills in the sums of sessions, and counts the sums before heads and
// bodies where a row counts their bytes.
func sumRows(ctx context.Context, tx pgx.Tx) error {
	err := inBatches(ctx, tx, `SELECT s.sid, s.tenant, s.id, s.version, s.seq, s.messages, s.updated_at, s.header, s.tail_rows,
				coalesce((SELECT `+sumOfBody+` FROM changes c WHERE c.log = s.sid AND c.seq = s.last_seq), '') FROM sessions s
			WHERE (s.sid, 0) > ($1, $2) ORDER BY s.sid LIMIT $3`,
		`UPDATE sessions s SET row_sum = g.row_sum, last_sum = g.last_sum, messages = g.messages, tail_rows = g.tail_rows
			FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[]) AS g (sid, none, row_sum, last_sum, messages, tail_rows) WHERE s.sid = g.sid`,
		func(r unsummedRow) (int64, int64) { return r.SID, 0 },
		func(rows []unsummedRow) ([]any, error) {
			sums, lasts, counts, tails := make([]int64, len(rows)), make([]int64, len(rows)), make([]*int64, len(rows)), make([][]byte, len(rows))
			for i, r := range rows {
				if info, err := session.DecodeHeader(r.Header); err == nil && r.Messages == nil {
					count := int64(info.MessageCount)
					r.Messages = &count
				}
				counts[i] = r.Messages
				lasts[i], _, _ = cutSum(r.Last)
				sums[i] = rowSum(r.Tenant, r.ID, r.Version, r.Seq, r.Messages, r.UpdatedAt)
				if r.TailRows != nil {
					tails[i] = withSum(r.TailRows, r.ID)
				}
			}
			return []any{sums, lasts, counts, tails}, nil
		})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE sessions s SET head_bytes = (SELECT octet_length(n.head) FROM snapshots n WHERE n.sid = s.sid AND n.version = s.snap_version),
		unfolded = (SELECT coalesce(sum(octet_length(c.body)), 0) FROM changes c
			WHERE c.log = s.sid AND c.seq > (SELECT n.seq FROM snapshots n WHERE n.sid = s.sid AND n.version = s.snap_version))
		WHERE EXISTS (SELECT 1 FROM snapshots n WHERE n.sid = s.sid AND n.version = s.snap_version)`)
	return err
}

type unsummedValue struct {
	A, B  int64
	Name  string
	Value []byte
}

// sumValues fills in the sums of inboxes and memories.
func sumValues(ctx context.Context, tx pgx.Tx) error {
	key := func(v unsummedValue) (int64, int64) { return v.A, v.B }
	values := func(rows []unsummedValue) ([]any, error) {
		values := make([][]byte, len(rows))
		for i, v := range rows {
			values[i] = withSum(v.Value, v.Name)
		}
		return []any{values}, nil
	}
	if err := inBatches(ctx, tx, `SELECT sid, arrival, item_id, body FROM inbox WHERE (sid, arrival) > ($1, $2) ORDER BY sid, arrival LIMIT $3`,
		`UPDATE inbox i SET body = g.body FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS g (sid, arrival, body) WHERE i.sid = g.sid AND i.arrival = g.arrival`,
		key, values); err != nil {
		return err
	}
	return inBatches(ctx, tx, `SELECT v.mid, v.version, m.key, v.value FROM memory_versions v JOIN memories m USING (mid)
			WHERE (v.mid, v.version) > ($1, $2) ORDER BY v.mid, v.version LIMIT $3`,
		`UPDATE memory_versions v SET value = g.value FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS g (mid, version, value)
			WHERE v.mid = g.mid AND v.version = g.version`, key, values)
}
