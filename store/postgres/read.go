package postgres

import (
	"context"
	"sort"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// stretches reads the messages in parts of a log up to a change, in the
// session's own log or an ancestor's. Both ends of each part are bounds of the
// log's key, so nothing else is read.
const stretches = `CROSS JOIN LATERAL unnest(s.shown_from, s.shown_to) AS r (lo, hi)
	JOIN lineage l ON l.sid = s.sid AND l.after_seq < r.hi AND l.upto_seq >= r.lo
	CROSS JOIN LATERAL (SELECT c.seq, c.body FROM changes c WHERE c.log = l.log AND c.seq > greatest(l.after_seq, r.lo - 1)
		AND c.seq <= least(l.upto_seq, r.hi, s.upto) AND c.kind = '` + messageAdded + `' ORDER BY c.seq OFFSET 0) c`

// loadSession reads a snapshot, then the window's messages that are older, and
// all changes that are newer (with the tail if wanted), in one statement, so
// that all belong to the same state.
var loadSession = named(`WITH s AS MATERIALIZED (
		SELECT s.sid, s.version, s.seq, s.updated_at, s.shown_from, s.shown_to, n.version AS snap_version, n.seq AS upto, n.head
		FROM sessions s LEFT JOIN snapshots n ON n.sid = s.sid AND n.version = s.snap_version WHERE s.tenant = @tenant AND s.id = @id)
	SELECT 0::bigint AS seq, s.head AS body, s.version, s.seq AS sealed, s.updated_at, s.snap_version FROM s
	UNION ALL SELECT c.seq, c.body, NULL, NULL, NULL, NULL FROM s ` + stretches + `
	UNION ALL SELECT t.seq, t.body, NULL, NULL, NULL, NULL FROM s CROSS JOIN LATERAL
		(SELECT c.seq, c.body FROM changes c WHERE c.log = s.sid AND c.seq > s.upto
			AND c.seq <= CASE WHEN @tail::boolean THEN @forever::bigint ELSE s.seq END ORDER BY c.seq OFFSET 0) t
	ORDER BY seq`)

// stored is a row of a log.
type stored struct {
	Seq  int64
	Body []byte
}

// loaded is what is stored of a session's last version.
type loaded struct {
	version, sealed int64
	updatedAt       time.Time
	snapVersion     *int64 // nil: there is no such snapshot
	head            []byte
	rows            []stored
}

// Load reads the last version, with the open tail where asked.
func (s *Store) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return session.Session{}, err
	}
	args := loadSession.values(pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID, "tail": tail, "forever": int64(forever)})
	var l loaded
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, loadSession.sql, args...)
		if err != nil {
			return err
		}
		l, err = collectLoaded(r, rows)
		return err
	})
	if err != nil {
		return session.Session{}, err
	}
	if l.snapVersion == nil {
		return session.Session{}, &session.CorruptError{ID: r.ID, Path: "head", Reason: "it is missing"}
	}
	last, open, left, err := l.decode(r.ID)
	if err != nil {
		return session.Session{}, err
	}
	if left.due(l.version) {
		s.snapshotsDue.set(r, true)
	}
	if !tail {
		return last, nil
	}
	whole, err := session.ApplyTail(last, open)
	if err != nil {
		return session.Session{}, store.Unreadable(r.ID, "tail", err)
	}
	return whole, nil
}

func collectLoaded(r store.Ref, rows pgx.Rows) (loaded, error) {
	defer rows.Close()
	var l loaded
	for first := true; rows.Next(); first = false {
		var row stored
		var err error
		if first {
			err = rows.Scan(nil, &l.head, &l.version, &l.sealed, &l.updatedAt, &l.snapVersion)
		} else {
			err = rows.Scan(&row.Seq, &row.Body, nil, nil, nil, nil)
			l.rows = append(l.rows, row)
		}
		if err != nil {
			return loaded{}, err
		}
	}
	if err := rows.Err(); err != nil {
		return loaded{}, err
	}
	if l.version == 0 {
		return loaded{}, session.NotFound(r.ID)
	}
	return l, nil
}

// decode folds the last version from its snapshot. It returns the changes of
// the open tail, and how much there was to fold.
func (l loaded) decode(id string) (last session.Session, open []session.Record, left fold, err error) {
	snapshot, err := decodeHead(id, l.head)
	if err != nil {
		return last, nil, left, err
	}
	records, err := decodeRecords(id, l.rows)
	if err != nil {
		return last, nil, left, err
	}
	later := sort.Search(len(records), func(i int) bool { return records[i].Seq > snapshot.Seq() })
	sealed := sort.Search(len(records), func(i int) bool { return records[i].Seq > l.sealed })
	if sealed < later {
		return last, nil, left, &session.CorruptError{ID: id, Path: "head", Reason: "it is later than its session"}
	}
	left = fold{snapVersion: *l.snapVersion, snapBytes: int64(len(l.head))}
	for _, row := range l.rows[later:] {
		left.unfolded += int64(len(row.Body))
	}
	if last, err = folded(snapshot, records[later:sealed], l.version, l.updatedAt); err == nil {
		last, err = showing(last, records[:sealed])
	}
	return last, records[sealed:], left, err
}

// folded returns a later version, without its messages, folded from an earlier
// one and the changes since.
func folded(from session.Session, records []session.Record, version int64, updatedAt time.Time) (session.Session, error) {
	at := from
	if len(records) > 0 {
		var err error
		if at, err = session.FoldFrom(from, records); err != nil {
			return session.Session{}, store.Unreadable(from.ID(), "log", err)
		}
	}
	// The log does not hold versions and their times. Each is later than the one
	// before, so those in between get the earliest time.
	for at.Version() < version-1 {
		at = session.Seal(at, time.Time{})
	}
	if at.Version() < version {
		at = session.Seal(at, updatedAt)
	}
	return at, nil
}

// showing returns a head with the messages among records that its window shows.
func showing(head session.Session, records []session.Record) (session.Session, error) {
	spans := session.Spans(head)
	var messages []session.Message
	for _, r := range records {
		if added, ok := r.Change.(session.MessageAdded); ok && head.Shown(r.Seq) && session.Holds(spans, r.Seq) {
			messages = append(messages, added.Message)
		}
	}
	return holding(head, messages)
}

// holding returns a head with its messages.
func holding(head session.Session, messages []session.Message) (session.Session, error) {
	full, err := session.AttachMessages(head, messages)
	if err != nil {
		return session.Session{}, store.Unreadable(head.ID(), "log", err)
	}
	return full, nil
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

// filled returns a head with the messages in rows.
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
	return holding(head, messages)
}

func decodeRecords(id string, rows []stored) ([]session.Record, error) {
	records := make([]session.Record, len(rows))
	for i, row := range rows {
		var err error
		if records[i], err = decodeBody(row.Body); err != nil {
			return nil, store.Unreadable(id, "log", err)
		}
	}
	return records, nil
}

// Info reads the header.
func (s *Store) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return session.Info{}, err
	}
	var row headerRow
	if err := s.row(ctx, r, `SELECT `+headerColumns+` FROM sessions s`, row.columns()...); err != nil {
		return session.Info{}, err
	}
	return row.info()
}
