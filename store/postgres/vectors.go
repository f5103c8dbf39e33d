package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

var _ store.Vectors = (*Store)(nil)

// A passage waits for a vector while it has none. Each log has a mark for each
// embedder, before which nothing waits, so that a scan need not read whole logs.
// Unembedded reads the logs whose mark is not at their end, and moves each mark
// to the first passage that waits.

// embedderID is the number of an embedder, 0 for one that made nothing yet.
func embedderID(ctx context.Context, tx pgx.Tx, name string) (eid int64, err error) {
	err = tx.QueryRow(ctx, `SELECT eid FROM embedders WHERE name = $1`, name).Scan(&eid)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return eid, err
}

// Tokens name passages. A place in a log is never used twice, nor is a version
// of a key.

func messageToken(log, seq int64) string { return fmt.Sprintf("m%d.%d", log, seq) }

func entryToken(mid, version int64) string { return fmt.Sprintf("e%d.%d", mid, version) }

// parseToken returns what a token names: a message by its log and number, or an
// entry by its key and version.
func parseToken(token string) (a, b int64, entry bool, err error) {
	if _, err := fmt.Sscanf(token, "m%d.%d", &a, &b); err == nil && messageToken(a, b) == token {
		return a, b, false, nil
	}
	if _, err := fmt.Sscanf(token, "e%d.%d", &a, &b); err == nil && entryToken(a, b) == token {
		return a, b, true, nil
	}
	return 0, 0, false, &session.InvalidError{Field: "token", Reason: fmt.Sprintf("%q names no passage", token)}
}

// Embedded keeps vectors.
func (s *Store) Embedded(ctx context.Context, name string, vectors []store.Embedding) error {
	if err := s.usable(ctx, store.CheckEmbedder(name)); err != nil {
		return err
	}
	messages, entries, err := columnsOf(vectors)
	if err != nil || len(vectors) == 0 {
		return err
	}
	return s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		s.config.OnWrite("before embedded")
		// Each statement must see what was committed before the locks were taken.
		err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO embedders (name) VALUES ($1) ON CONFLICT DO NOTHING`, name); err != nil {
				return err
			}
			eid, err := embedderID(ctx, tx, name)
			if err != nil {
				return err
			}
			if err := messages.insertMessages(ctx, tx, eid); err != nil {
				return err
			}
			if err := s.indexVectors(ctx, tx, eid, messages); err != nil {
				return err
			}
			return entries.insertEntries(ctx, tx, eid)
		})
		s.config.OnWrite("after embedded")
		return err
	})
}

// vectorRows are vectors as columns: of messages by log and number, of entries
// by key and version.
type vectorRows struct {
	a, b    []int64
	vectors [][]byte
}

// columnsOf splits vectors into those of messages and of entries. Of several
// for one passage the last one counts.
func columnsOf(vectors []store.Embedding) (messages, entries vectorRows, err error) {
	last := map[string]store.Packed{}
	for _, v := range vectors {
		if err := v.Check(); err != nil {
			return messages, entries, err
		}
		last[v.Token] = v.Pack()
	}
	for _, token := range slices.Sorted(maps.Keys(last)) {
		a, b, entry, err := parseToken(token)
		if err != nil {
			return messages, entries, err
		}
		rows := &messages
		if entry {
			rows = &entries
		}
		rows.a, rows.b, rows.vectors = append(rows.a, a), append(rows.b, b), append(rows.vectors, last[token])
	}
	return messages, entries, nil
}

// insertMessages stores the vectors of messages that still exist. Deleting a
// session takes the same locks, so no vector is added to a deleted log.
func (r vectorRows) insertMessages(ctx context.Context, tx pgx.Tx, eid int64) error {
	if len(r.a) == 0 {
		return nil
	}
	for _, log := range slices.Compact(slices.Sorted(slices.Values(r.a))) {
		if err := lockLog(ctx, tx, log); err != nil {
			return err
		}
	}
	rows, err := tx.Query(ctx, `SELECT g.place, c.body FROM unnest(@logs::bigint[], @seqs::bigint[]) WITH ORDINALITY AS g (log, seq, place)
			JOIN changes c ON c.log = g.log AND c.seq = g.seq
		WHERE c.kind = '`+messageAdded+`' AND `+searchable, pgx.NamedArgs{"logs": r.a, "seqs": r.b})
	if err != nil {
		return err
	}
	var there vectorRows
	var ats []time.Time
	var traces []bool
	var place int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&place, &body}, func() error {
		if m, ok := messageOf(body); ok {
			i := place - 1
			there.a, there.b, there.vectors = append(there.a, r.a[i]), append(there.b, r.b[i]), append(there.vectors, r.vectors[i])
			ats, traces = append(ats, m.CreatedAt), append(traces, m.Trace)
		}
		return nil
	})
	if err != nil || len(there.a) == 0 {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO message_vectors (log, seq, eid, at, trace, vector)
		SELECT log, seq, $1, at, trace, vector FROM unnest($2::bigint[], $3::bigint[], $4::timestamptz[], $5::boolean[], $6::bytea[]) AS g (log, seq, at, trace, vector)
		ON CONFLICT (log, seq, eid) DO UPDATE SET vector = excluded.vector`, eid, there.a, there.b, ats, traces, there.vectors)
	return err
}

// insertEntries stores the vectors of newest versions. It locks their rows: an
// entry that is being forgotten is left out.
func (r vectorRows) insertEntries(ctx context.Context, tx pgx.Tx, eid int64) error {
	if len(r.a) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `INSERT INTO entry_vectors AS e (mid, eid, version, vector)
		SELECT v.mid, $1, v.version, g.vector FROM unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS g (mid, version, vector)
			JOIN memories m ON m.mid = g.mid AND m.version = g.version AND m.present
			JOIN memory_versions v ON v.mid = m.mid AND v.version = m.version
		ORDER BY v.mid FOR KEY SHARE OF v
		ON CONFLICT (mid, eid) DO UPDATE SET version = excluded.version, vector = excluded.vector WHERE e.version <= excluded.version`,
		eid, r.a, r.b, r.vectors)
	return err
}
