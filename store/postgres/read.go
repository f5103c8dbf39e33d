package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// stretches are the messages in parts of a log, wherever in the lineage it
// lies. What is read is bounded on both sides by the key of the log.
const stretches = `CROSS JOIN LATERAL unnest(s.shown_from, s.shown_to) AS r (lo, hi)
	JOIN lineage l ON l.sid = s.sid AND l.after_seq < r.hi AND l.upto_seq >= r.lo
	CROSS JOIN LATERAL (SELECT c.seq, c.kind, c.body FROM changes c WHERE c.log = l.log AND c.seq > greatest(l.after_seq, r.lo - 1)
		AND c.seq <= least(l.upto_seq, r.hi, s.seq) AND c.kind = '` + messageAdded + `' ORDER BY c.seq OFFSET 0) c`

// loadSession is a head, then the window's messages and, where it is asked
// for, the tail: one statement, so that all are of the same moment.
const loadSession = `WITH s AS MATERIALIZED (SELECT * FROM sessions WHERE tenant = @tenant AND id = @id)
	SELECT 0::bigint AS seq, s.head AS body FROM s
	UNION ALL SELECT c.seq, c.body FROM s ` + stretches + `
	UNION ALL SELECT t.seq, t.body FROM s CROSS JOIN LATERAL
		(SELECT c.seq, c.body FROM changes c WHERE c.log = s.sid AND c.seq > s.seq ORDER BY c.seq OFFSET 0) t WHERE @tail::boolean
	ORDER BY seq`

// stored is a row of a log as it is kept.
type stored struct {
	Seq  int64
	Body []byte
}

// Load reads the last version, with the open tail where asked.
func (s *Store) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	if err := s.open(ctx, r); err != nil {
		return session.Session{}, err
	}
	args := pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID, "tail": tail}
	var rows []stored
	err := s.again(ctx, func(conn *pgx.Conn) (err error) {
		rows, err = collect(ctx, conn, loadSession, args)
		return err
	})
	if err != nil {
		return session.Session{}, err
	}
	if len(rows) == 0 {
		return session.Session{}, session.NotFound(r.ID)
	}
	head, err := decodeHead(r.ID, rows[0].Body)
	if err != nil {
		return session.Session{}, err
	}
	rows = rows[1:]
	sealed := len(rows)
	for sealed > 0 && rows[sealed-1].Seq > head.Seq() {
		sealed--
	}
	last, err := filled(head, rows[:sealed])
	if err != nil || !tail {
		return last, err
	}
	records, err := decodeRecords(r.ID, rows[sealed:])
	if err != nil {
		return session.Session{}, err
	}
	whole, err := last.WithTail(records)
	if err != nil {
		return session.Session{}, unreadable(r.ID, "tail", err)
	}
	return whole, nil
}

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func collect(ctx context.Context, q querier, sql string, args pgx.NamedArgs) ([]stored, error) {
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
}

// filled gives a head its messages.
func filled(head session.Session, rows []stored) (session.Session, error) {
	records, err := decodeRecords(head.ID(), rows)
	if err != nil {
		return session.Session{}, err
	}
	messages := make([]session.Message, len(records))
	for i, r := range records {
		added, ok := r.Change.(session.MessageAdded)
		if !ok {
			return session.Session{}, &session.CorruptError{ID: head.ID(), Path: "log", Reason: "a message is not where it belongs"}
		}
		messages[i] = added.Message
	}
	full, err := head.Holding(messages)
	if err != nil {
		return session.Session{}, unreadable(head.ID(), "log", err)
	}
	return full, nil
}

func decodeRecords(id string, rows []stored) ([]session.Record, error) {
	records := make([]session.Record, len(rows))
	for i, row := range rows {
		if err := records[i].UnmarshalJSON(row.Body); err != nil {
			return nil, unreadable(id, "log", err)
		}
	}
	return records, nil
}

// Info reads the header.
func (s *Store) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	if err := s.open(ctx, r); err != nil {
		return session.Info{}, err
	}
	var raw []byte
	if err := s.row(ctx, r, `SELECT header FROM sessions`, &raw); err != nil {
		return session.Info{}, err
	}
	return decodeHeader(r.ID, raw)
}
