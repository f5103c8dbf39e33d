package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

// readLog returns a first row for the session itself, so that an empty page
// differs from a missing session.
const readLog = `WITH s AS MATERIALIZED (SELECT sid, seq FROM sessions WHERE tenant = @tenant AND id = @id)
	SELECT 0::bigint AS seq, ''::bytea AS body, 0::bigint AS version, false AS discarded FROM s
	UNION ALL (SELECT c.seq, c.body, CASE WHEN c.seq > s.seq THEN 0 ELSE c.version END,
			EXISTS (SELECT 1 FROM discards d WHERE d.log = l.log AND c.seq BETWEEN d.from_seq AND d.to_seq)
		FROM s JOIN lineage l ON l.sid = s.sid AND l.upto_seq > @after::bigint
		CROSS JOIN LATERAL (SELECT c.seq, c.version, c.body FROM changes c
			WHERE c.log = l.log AND c.seq > greatest(l.after_seq, @after::bigint) AND c.seq <= l.upto_seq ORDER BY c.seq LIMIT @limit::bigint) c
		ORDER BY c.seq LIMIT @limit::bigint)
	ORDER BY seq`

type loggedRow struct {
	Seq       int64
	Body      []byte
	Version   int64
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
	args := pgx.NamedArgs{"tenant": r.Tenant, "id": r.ID, "after": after, "limit": int64(limit)}
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
	entries := make([]session.LogEntry, len(logged)-1)
	for i, row := range logged[1:] {
		entries[i].Version, entries[i].Discarded = row.Version, row.Discarded
		if entries[i].Record, err = decodeBody(row.Body); err != nil {
			return nil, store.Unreadable(r.ID, "log", err)
		}
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
		var sid int64
		if err := found(r, tx.QueryRow(ctx, `SELECT sid FROM sessions WHERE tenant = $1 AND id = $2`, r.Tenant, r.ID).Scan(&sid)); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, nextCommits, pgx.NamedArgs{"sid": sid, "after": after, "limit": limit})
		if err == nil {
			commits, err = pgx.CollectRows(rows, commitOf)
		}
		return err
	})
	return commits, err
}

// nextCommits reads the commits after a version. They are in the log, after the
// newest snapshot that is not later, or in seals if they changed nothing.
const nextCommits = `(SELECT commit_id AS id, version, first_seq, seq AS last_seq, action, actor, sealed_at AS at FROM changes
		WHERE log = @sid AND version > @after AND sealed_at IS NOT NULL
		AND seq > coalesce((SELECT n.seq FROM snapshots n WHERE n.sid = @sid AND n.version <= @after ORDER BY n.version DESC LIMIT 1), 0) ORDER BY seq LIMIT @limit)
	UNION ALL (SELECT id, version, first_seq, last_seq, action, actor, at FROM seals WHERE log = @sid AND version > @after ORDER BY version LIMIT @limit)
	ORDER BY version LIMIT @limit`

// commitAt joins the commit of a version to a session s. The snapshots before
// and after it say where in the log to look.
const commitAt = ` CROSS JOIN LATERAL (SELECT
		coalesce((SELECT n.seq FROM snapshots n WHERE n.sid = s.sid AND n.version <= @version::bigint ORDER BY n.version DESC LIMIT 1), 0) AS lo,
		coalesce((SELECT n.seq FROM snapshots n WHERE n.sid = s.sid AND n.version >= @version::bigint ORDER BY n.version LIMIT 1), s.seq) AS hi) g
	JOIN commits c ON c.log = s.sid AND c.version = @version::bigint AND c.last_seq BETWEEN g.lo AND g.hi`

func commitOf(row pgx.CollectableRow) (store.CommitInfo, error) {
	var c store.CommitInfo
	var id, action, actor []byte
	err := row.Scan(&id, &c.Version, &c.FirstSeq, &c.LastSeq, &action, &actor, &c.At)
	c.ID, c.Action, c.Actor, c.At = string(id), string(action), string(actor), session.Instant(c.At)
	return c, err
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
		var sid, last int64
		if err := found(r, tx.QueryRow(ctx, `SELECT sid, version FROM sessions WHERE tenant = $1 AND id = $2`, r.Tenant, r.ID).Scan(&sid, &last)); err != nil {
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

const findSnapshot = `SELECT n.seq, n.head, c.at, c.last_seq FROM sessions s` + commitAt + `
	CROSS JOIN LATERAL (SELECT n.seq, n.head FROM snapshots n WHERE n.sid = s.sid AND n.version <= @version ORDER BY n.version DESC LIMIT 1) n
	WHERE s.sid = @sid`

// headAt is a version without its messages, folded from the nearest snapshot
// before it.
func headAt(ctx context.Context, tx pgx.Tx, id string, sid, version int64) (session.Session, error) {
	var from stored
	var updatedAt time.Time
	var last int64
	args := pgx.NamedArgs{"sid": sid, "version": version}
	err := tx.QueryRow(ctx, findSnapshot, args).Scan(&from.Seq, &from.Body, &updatedAt, &last)
	if errors.Is(err, pgx.ErrNoRows) {
		return session.Session{}, &session.CorruptError{ID: id, Path: "head", Reason: "it is missing"}
	}
	if err != nil {
		return session.Session{}, err
	}
	snapshot, err := decodeHead(id, from.Body)
	if err != nil {
		return session.Session{}, err
	}
	args["after"], args["last"] = from.Seq, last
	rows, err := collect(ctx, tx, `SELECT seq, body FROM changes WHERE log = @sid AND seq > @after AND seq <= @last ORDER BY seq`, args)
	if err != nil {
		return session.Session{}, err
	}
	records, err := decodeRecords(id, rows)
	if err != nil {
		return session.Session{}, err
	}
	return folded(snapshot, records, version, updatedAt)
}

// fill reads the messages of a head, of any version.
func fill(ctx context.Context, tx pgx.Tx, sid int64, head session.Session, whole bool) (session.Session, error) {
	from, to := shown(session.Spans(head), head.Window(), whole)
	rows, err := collect(ctx, tx, `SELECT c.seq, c.body FROM
		(SELECT @sid::bigint AS sid, @upto::bigint AS upto, @from::bigint[] AS shown_from, @to::bigint[] AS shown_to) s `+stretches+` ORDER BY c.seq`,
		pgx.NamedArgs{"sid": sid, "upto": head.Info().Seq, "from": from, "to": to})
	if err != nil {
		return session.Session{}, err
	}
	return filled(head, rows)
}
