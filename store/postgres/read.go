package postgres

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/warm"
)

// sumOfBody is the sum of a log row c.
var sumOfBody = `substring(c.body FROM 1 FOR ` + strconv.Itoa(sumLength) + `)`

// stretches reads the messages in parts of a log up to a change, in the
// session's own log or an ancestor's. Both ends of each part are bounds of the
// log's key, so nothing else is read. Of the changes between messages, and of
// the one before each part, only the sums are read.
var stretches = `CROSS JOIN LATERAL unnest(s.shown_from, s.shown_to) AS r (lo, hi)
	JOIN lineage l ON l.sid = s.sid AND l.after_seq < r.hi AND l.upto_seq >= r.lo - 1
	CROSS JOIN LATERAL (SELECT c.seq, c.version, c.kind, CASE WHEN c.kind = '` + messageAdded + `' THEN c.body ELSE ` + sumOfBody + ` END AS body
		FROM changes c WHERE c.log = l.log AND c.seq > greatest(l.after_seq, r.lo - 2) AND c.seq <= least(l.upto_seq, r.hi, s.upto) ORDER BY c.seq OFFSET 0) c`

// loadSession reads a snapshot, then the window's messages that are older, and
// all changes that are newer (with the tail if wanted), in one statement, so
// that all belong to the same state.
var loadSession = named(`WITH s AS MATERIALIZED (
		SELECT s.sid, s.version, s.seq, s.last_seq, s.last_sum, s.row_sum, s.messages, s.updated_at, s.shown_from, s.shown_to,
			n.version AS snap_version, n.seq AS upto, n.head
		FROM sessions s LEFT JOIN snapshots n ON n.sid = s.sid AND n.version = s.snap_version WHERE s.tenant = @tenant AND s.id = @id)
	SELECT 0::bigint AS seq, s.version, NULL AS kind, s.head AS body, s.seq AS sealed, s.last_seq, s.last_sum, s.row_sum, s.messages, s.updated_at,
		s.shown_from, s.shown_to, s.upto, s.snap_version FROM s
	UNION ALL SELECT c.seq, c.version, c.kind, c.body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM s ` + stretches + `
	UNION ALL SELECT t.seq, t.version, t.kind, t.body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM s CROSS JOIN LATERAL
		(SELECT c.seq, c.version, c.kind, c.body FROM changes c WHERE c.log = s.sid AND c.seq > s.upto
			AND c.seq <= CASE WHEN @tail::boolean OR s.last_seq = s.seq THEN @forever::bigint ELSE s.seq END ORDER BY c.seq OFFSET 0) t
	ORDER BY seq`)

// loaded is what is stored of a session's last version.
type loaded struct {
	version, sealed    int64
	last               int64
	lastSum            store.Sum
	sum                int64 // of the row
	messages           *int64
	updatedAt          time.Time
	shownFrom, shownTo []int64
	upTo               *int64 // the last change of the snapshot
	snapVersion        *int64 // nil: there is no such snapshot
	head               []byte
	rows               []logRow
}

var readMark = named(`SELECT version, seq, last_seq, last_sum, row_sum, messages, updated_at FROM sessions WHERE tenant = @tenant AND id = @id`)

// loadWarm returns a session that is held in memory as it is stored now.
func (s *Store) loadWarm(ctx context.Context, r store.Ref, tail bool) (_ session.Session, found bool, err error) {
	var l loaded
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, readMark.sql, readMark.values(pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID})...).
			Scan(&l.version, &l.sealed, &l.last, &l.lastSum, &l.sum, &l.messages, &l.updatedAt)
		if errors.Is(err, pgx.ErrNoRows) {
			s.warm.Drop(r)
			return session.NotFound(r.ID)
		}
		return err
	})
	switch {
	case err != nil:
		return session.Session{}, false, err
	case rowSum(r.Tenant, r.ID, l.version, l.sealed, l.messages, l.updatedAt) != l.sum:
		return session.Session{}, false, rowDamage(r.ID)
	case l.last > l.sealed && !tail:
		return session.Session{}, false, nil
	}
	held, found := s.warm.Get(r, warm.Mark{Version: l.version, Last: l.last, Sum: l.lastSum, UpdatedAt: l.updatedAt})
	return held, found, nil
}

// Load reads the last version, with the open tail where asked. Of a session that
// is warm only the mark is read.
func (s *Store) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return session.Session{}, err
	}
	if s.warm.Has(r) {
		if held, found, err := s.loadWarm(ctx, r, tail); found || err != nil {
			return held, err
		}
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
	last, open, left, err := l.decode(r, tail)
	if err != nil {
		return session.Session{}, err
	}
	if left.due(l.version) {
		s.snapshotsDue.set(r, true)
	}
	if tail {
		if last, err = session.ApplyTail(last, open); err != nil {
			return session.Session{}, store.Unreadable(r.ID, "tail", err)
		}
	}
	if session.Base(last) == l.last {
		last = s.warm.Keep(last, l.lastSum)
	}
	return last, nil
}

func collectLoaded(r store.Ref, rows pgx.Rows) (loaded, error) {
	defer rows.Close()
	var l loaded
	for first := true; rows.Next(); first = false {
		var row logRow
		var err error
		if first {
			err = rows.Scan(nil, &l.version, nil, &l.head, &l.sealed, &l.last, &l.lastSum, &l.sum, &l.messages, &l.updatedAt,
				&l.shownFrom, &l.shownTo, &l.upTo, &l.snapVersion)
		} else {
			err = rows.Scan(&row.Seq, &row.Version, &row.Kind, &row.Body, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil)
			if n := len(l.rows); n == 0 || l.rows[n-1].Seq != row.Seq { // two parts of the window may share one
				l.rows = append(l.rows, row)
			}
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
func (l loaded) decode(r store.Ref, tail bool) (last session.Session, open []session.Record, left fold, err error) {
	corrupt := func(path, reason string) error { return &session.CorruptError{ID: r.ID, Path: path, Reason: reason} }
	snapshot, sum, err := decodeHead(r.ID, l.head)
	if err != nil {
		return last, nil, left, err
	}
	switch {
	case rowSum(r.Tenant, r.ID, l.version, l.sealed, l.messages, l.updatedAt) != l.sum:
		return last, nil, left, rowDamage(r.ID)
	case snapshot.Version() != *l.snapVersion || snapshot.Seq() != *l.upTo:
		return last, nil, left, corrupt("head", "it is that of another version")
	}
	later := sort.Search(len(l.rows), func(i int) bool { return l.rows[i].Seq > snapshot.Seq() })
	sealed := sort.Search(len(l.rows), func(i int) bool { return l.rows[i].Seq > l.sealed })
	if l.sealed < snapshot.Seq() || sealed < later {
		return last, nil, left, corrupt("head", "it is later than its session")
	}
	if err := l.follow(r.ID, l.rows[:later], l.rows[later:], snapshot.Seq(), sum, tail); err != nil {
		return last, nil, left, err
	}
	left = fold{snapVersion: *l.snapVersion, snapBytes: int64(len(l.head))}
	for _, row := range l.rows[later:] {
		left.unfolded += int64(len(row.Body))
	}
	before, err := decodeRecords(r.ID, messagesOf(l.rows[:later]))
	if err != nil {
		return last, nil, left, err
	}
	since, err := decodeRecords(r.ID, l.rows[later:])
	if err != nil {
		return last, nil, left, err
	}
	if last, err = folded(snapshot, since[:sealed-later], l.version, l.updatedAt); err == nil {
		last, err = showing(last, slices.Concat(before, since[:sealed-later]))
	}
	if from, to := shown(session.Spans(last), last.Window(), false); err == nil && (!slices.Equal(from, l.shownFrom) || !slices.Equal(to, l.shownTo)) {
		err = corrupt("row", "it does not say where the window's messages are")
	}
	return last, since[sealed-later:], left, err
}

// follow checks the rows of the window before the snapshot, and all rows since,
// up to where the session ends if they were read so far.
func (l loaded) follow(id string, window, since []logRow, upTo int64, sum store.Sum, tail bool) error {
	if err := followSpans(id, window, l.shownFrom, l.shownTo, upTo); err != nil {
		return err
	}
	chain := store.Chain{ID: id, Seq: upTo, Sum: sum}
	for _, row := range since {
		if err := follow(&chain, row); err != nil {
			return err
		}
	}
	if l.sealed < l.last && !tail {
		return chain.End(l.sealed, chain.Sum)
	}
	return chain.End(l.last, l.lastSum)
}

// messagesOf leaves out the rows of which only the sum was read.
func messagesOf(rows []logRow) []logRow {
	return slices.DeleteFunc(slices.Clone(rows), func(r logRow) bool { return r.Kind != messageAdded })
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

func collect(ctx context.Context, q querier, sql string, args pgx.NamedArgs) ([]logRow, error) {
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[logRow])
	return slices.CompactFunc(found, func(a, b logRow) bool { return a.Seq == b.Seq }), err
}

func decodeRecords(id string, rows []logRow) ([]session.Record, error) {
	records := make([]session.Record, len(rows))
	for i, row := range rows {
		var err error
		if records[i], err = decodeBody(row.Body); err == nil && records[i].Seq != row.Seq {
			err = errOtherPlace
		}
		if err != nil {
			return nil, unreadableRecord(id, row.Seq, err)
		}
	}
	return records, nil
}

var errOtherPlace = errors.New("it is the record of another place")

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
