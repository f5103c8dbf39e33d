package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// readLog returns a first row for the session itself, so that an empty page
// differs from a missing session.
var readLog = `WITH s AS MATERIALIZED (SELECT sid, seq, last_seq, last_sum FROM sessions WHERE tenant = @tenant AND id = @id)
	SELECT 0::bigint AS seq, 0::bigint AS version, '' AS kind, ''::bytea AS body, s.seq AS sealed, s.last_seq, s.last_sum, false AS discarded FROM s
	UNION ALL (SELECT c.seq, c.version, c.kind, c.body, 0, 0, 0,
			EXISTS (SELECT 1 FROM discards d WHERE d.log = l.log AND c.seq BETWEEN d.from_seq AND d.to_seq)
		FROM s JOIN lineage l ON l.sid = s.sid AND l.upto_seq >= @after::bigint
		CROSS JOIN LATERAL (SELECT c.seq, c.version, c.kind, CASE WHEN c.seq > @after::bigint THEN c.body ELSE ` + sumOfBody + ` END AS body FROM changes c
			WHERE c.log = l.log AND c.seq > greatest(l.after_seq, @after::bigint - 1) AND c.seq <= l.upto_seq ORDER BY c.seq LIMIT @limit::bigint) c
		ORDER BY c.seq LIMIT @limit::bigint)
	ORDER BY seq`

type loggedRow struct {
	logRow
	Sealed    int64 // this and the next two of the first row only
	Last      int64
	LastSum   store.Sum
	Discarded bool
}

// Log reads changes.
func (s *Store) Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	if err := s.usable(ctx, r.Check()); err != nil {
		return nil, err
	}
	after = max(after, 0)
	args := pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID, "after": after, "limit": int64(limit)}
	if after > 0 {
		args["limit"] = int64(limit) + 1 // the record before is read as well
	}
	var logged []loggedRow
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, readLog, args)
		if err == nil {
			logged, err = pgx.CollectRows(rows, pgx.RowToStructByPos[loggedRow])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(logged) == 0 {
		return nil, session.NotFound(r.ID)
	}
	return entriesOf(r.ID, logged[0], logged[1:], after, limit)
}

// entriesOf checks and decodes rows of a log, the first of which is the one
// before a page.
func entriesOf(id string, s loggedRow, rows []loggedRow, after int64, limit int) ([]session.LogEntry, error) {
	if after >= s.Last {
		return nil, nil
	}
	chain := store.Chain{ID: id}
	if after > 0 {
		if len(rows) == 0 || rows[0].Seq != after {
			return nil, &session.CorruptError{ID: id, Path: "log", Record: after, Reason: "it is missing"}
		}
		sum, err := rows[0].sum()
		if err != nil {
			return nil, unreadableRecord(id, after, err)
		}
		chain.Seq, chain.Sum, rows = after, sum, rows[1:]
	}
	entries := make([]session.LogEntry, len(rows))
	for i, row := range rows {
		if err := follow(&chain, row.logRow); err != nil {
			return nil, err
		}
		record, err := decodeBody(row.Body)
		if err != nil {
			return nil, unreadableRecord(id, row.Seq, err)
		}
		entries[i] = session.LogEntry{Record: record, Version: row.Version, Discarded: row.Discarded}
		if row.Seq > s.Sealed {
			entries[i].Version = 0 // in the open tail
		}
	}
	if len(rows) < limit || chain.Seq > s.Last {
		return entries, chain.End(s.Last, s.LastSum)
	}
	return entries, nil
}

// Commits reads commits.
func (s *Store) Commits(ctx context.Context, r store.Ref, after int64, limit int) ([]store.CommitInfo, error) {
	limit, err := store.PageLimit(limit)
	if err != nil {
		return nil, err
	}
	if err := s.usable(ctx, r.Check()); err != nil {
		return nil, err
	}
	var commits []store.CommitInfo
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		sid, last, err := lastVersion(ctx, tx, r)
		if err != nil {
			return err
		}
		if commits, err = commitsOf(ctx, tx, r.ID, nextCommits, pgx.NamedArgs{"sid": sid, "after": after, "limit": limit}); err != nil {
			return err
		}
		next := max(after, 0)
		for _, c := range commits {
			if next++; c.Version != next {
				return missingCommit(r.ID, next)
			}
		}
		if next < last && len(commits) < limit {
			return missingCommit(r.ID, next+1)
		}
		return nil
	})
	return commits, err
}

// lastVersion reads a session's number and its last version.
func lastVersion(ctx context.Context, tx pgx.Tx, r store.Ref) (sid, version int64, _ error) {
	var seq, sum int64
	var messages *int64
	var updatedAt time.Time
	err := found(r, tx.QueryRow(ctx, `SELECT sid, version, seq, messages, updated_at, row_sum FROM sessions WHERE tenant = $1 AND id = $2`, r.Tenant, r.ID).
		Scan(&sid, &version, &seq, &messages, &updatedAt, &sum))
	if err == nil && rowSum(r.Tenant, r.ID, version, seq, messages, updatedAt) != sum {
		err = rowDamage(r.ID)
	}
	return sid, version, err
}

func missingCommit(id string, version int64) error {
	return &session.CorruptError{ID: id, Path: "commits", Reason: fmt.Sprintf("that of version %d is missing", version)}
}

// nextCommits reads the commits after a version, each with the sum of its last
// record. They are in the log, after the newest snapshot that is not later, or
// in seals if they changed nothing.
var nextCommits = `(SELECT commit_id AS id, version, first_seq, seq AS last_seq, action, actor, sealed_at AS at, ` + sumOfBody + ` FROM changes c
		WHERE log = @sid AND version > @after AND sealed_at IS NOT NULL
		AND seq > coalesce((SELECT n.seq FROM snapshots n WHERE n.sid = @sid AND n.version <= @after ORDER BY n.version DESC LIMIT 1), 0) ORDER BY seq LIMIT @limit)
	UNION ALL (SELECT id, version, first_seq, last_seq, action, actor, at, ` + sumOfCommit + ` FROM seals k WHERE log = @sid AND version > @after ORDER BY version LIMIT @limit)
	ORDER BY version LIMIT @limit`

// sumOfCommit is the sum of the record that a commit k ends with.
var sumOfCommit = `(SELECT ` + sumOfBody + ` FROM changes c WHERE c.log = k.log AND c.seq = k.last_seq)`

// commitAt joins the commit of a version to a session s. The snapshots before
// and after it say where in the log to look. OFFSET 0 has the planner find them
// first; otherwise it reads the whole log and compares afterwards.
const commitAt = ` CROSS JOIN LATERAL (SELECT
		coalesce((SELECT n.seq FROM snapshots n WHERE n.sid = s.sid AND n.version <= @version::bigint ORDER BY n.version DESC LIMIT 1), 0) AS lo,
		coalesce((SELECT n.seq FROM snapshots n WHERE n.sid = s.sid AND n.version >= @version::bigint ORDER BY n.version LIMIT 1), s.seq) AS hi OFFSET 0) g
	CROSS JOIN LATERAL (SELECT * FROM commits k WHERE k.log = s.sid AND k.version = @version::bigint AND k.last_seq BETWEEN g.lo AND g.hi OFFSET 0) k`

// commitRow is a commit as it is read.
type commitRow struct {
	store.CommitInfo
	id, action, actor []byte
	last              []byte // begins with the sum of its last record
}

func (c *commitRow) columns() []any {
	return []any{&c.id, &c.Version, &c.FirstSeq, &c.LastSeq, &c.action, &c.actor, &c.At, &c.last}
}

// info checks the commit.
func (c *commitRow) info() (store.CommitInfo, error) {
	i := c.CommitInfo
	i.Action, i.Actor, i.At = string(c.action), string(c.actor), session.Instant(c.At)
	sum, _, err := cutSum(c.last)
	if err == nil {
		c.id, err = checked(c.id, commitSum(store.Sum(sum), i)...)
	}
	if err != nil {
		return i, fmt.Errorf("that of version %d: %w", i.Version, err)
	}
	i.ID = string(c.id)
	return i, nil
}

// commitsOf reads the commits of a query.
func commitsOf(ctx context.Context, tx pgx.Tx, id, sql string, args pgx.NamedArgs) ([]store.CommitInfo, error) {
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.CommitInfo, error) {
		var c commitRow
		if err := row.Scan(c.columns()...); err != nil {
			return c.CommitInfo, err
		}
		i, err := c.info()
		return i, store.Unreadable(id, "commits", err)
	})
}

// LoadAt reads any version with the messages of its window.
func (s *Store) LoadAt(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	return s.loadVersion(ctx, r, version, false)
}

// LoadWhole reads a version, 0 for the last, with its whole transcript.
func (s *Store) LoadWhole(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	return s.loadVersion(ctx, r, version, true)
}

func (s *Store) loadVersion(ctx context.Context, r store.Ref, version int64, whole bool) (loaded session.Session, err error) {
	if err := s.usable(ctx, r.Check()); err != nil {
		return session.Session{}, err
	}
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		sid, last, err := lastVersion(ctx, tx, r)
		if err != nil {
			return err
		}
		at := version
		if version == 0 && whole {
			at = last
		}
		if err := admission.CheckVersion(at, last); err != nil {
			return err
		}
		head, err := headAt(ctx, tx, r.ID, sid, at)
		if err != nil {
			return err
		}
		loaded, err = fill(ctx, tx, sid, head, whole)
		return err
	})
	return loaded, err
}

// findSnapshot reads the commit of a version and the snapshot before it.
var findSnapshot = `SELECT k.id, k.version, k.first_seq, k.last_seq, k.action, k.actor, k.at, ` + sumOfCommit + `, n.version, n.seq, n.head FROM sessions s` + commitAt + `
	CROSS JOIN LATERAL (SELECT n.version, n.seq, n.head FROM snapshots n WHERE n.sid = s.sid AND n.version <= @version ORDER BY n.version DESC LIMIT 1) n
	WHERE s.sid = @sid`

// headAt is a version without its messages, folded from the nearest snapshot
// before it.
func headAt(ctx context.Context, tx pgx.Tx, id string, sid, version int64) (session.Session, error) {
	var from snapshot
	var found commitRow
	args := pgx.NamedArgs{"sid": sid, "version": version}
	err := tx.QueryRow(ctx, findSnapshot, args).Scan(append(found.columns(), &from.version, &from.seq, &from.head)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return session.Session{}, &session.CorruptError{ID: id, Path: "head", Reason: "it is missing"}
	}
	if err != nil {
		return session.Session{}, err
	}
	commit, err := found.info()
	if err != nil {
		return session.Session{}, store.Unreadable(id, "commits", err)
	}
	base, sum, err := decodeHead(id, from.head)
	if err != nil {
		return session.Session{}, err
	}
	if base.Version() != from.version || base.Seq() != from.seq {
		return session.Session{}, &session.CorruptError{ID: id, Path: "head", Reason: "it is that of another version"}
	}
	args["after"], args["last"] = from.seq, commit.LastSeq
	since, err := collect(ctx, tx, `SELECT seq, version, kind, body FROM changes WHERE log = @sid AND seq > @after AND seq <= @last ORDER BY seq`, args)
	if err != nil {
		return session.Session{}, err
	}
	chain := store.Chain{ID: id, Seq: from.seq, Sum: sum}
	for _, row := range since {
		if err := follow(&chain, row); err != nil {
			return session.Session{}, err
		}
	}
	if err := chain.End(commit.LastSeq, chain.Sum); err != nil {
		return session.Session{}, err
	}
	records, err := decodeRecords(id, since)
	if err != nil {
		return session.Session{}, err
	}
	return folded(base, records, version, commit.At)
}

// fill reads the messages of a head, of any version.
func fill(ctx context.Context, tx pgx.Tx, sid int64, head session.Session, whole bool) (session.Session, error) {
	from, to := shown(session.Spans(head), head.Window(), whole)
	upTo := head.Info().Seq
	rows, err := collect(ctx, tx, `SELECT c.seq, c.version, c.kind, c.body FROM
		(SELECT @sid::bigint AS sid, @upto::bigint AS upto, @from::bigint[] AS shown_from, @to::bigint[] AS shown_to) s `+stretches+` ORDER BY c.seq`,
		pgx.NamedArgs{"sid": sid, "upto": upTo, "from": from, "to": to})
	if err != nil {
		return session.Session{}, err
	}
	if err := followSpans(head.ID(), rows, from, to, upTo); err != nil {
		return session.Session{}, err
	}
	records, err := decodeRecords(head.ID(), messagesOf(rows))
	if err != nil {
		return session.Session{}, err
	}
	var messages []session.Message
	spans := session.Spans(head)
	for _, r := range records {
		if added, ok := r.Change.(session.MessageAdded); ok && session.Holds(spans, r.Seq) && (whole || head.Shown(r.Seq)) {
			messages = append(messages, added.Message)
		}
	}
	return holding(head, messages)
}
