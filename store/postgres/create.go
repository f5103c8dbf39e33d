package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Create stores a version-0 session as version 1.
func (s *Store) Create(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	return s.create(ctx, next, c, false)
}

// Fork stores a fork as version 1 and shares the log of its parent.
func (s *Store) Fork(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	return s.create(ctx, next, c, true)
}

func (s *Store) create(ctx context.Context, next session.Session, c store.Commit, mustShare bool) (session.Session, error) {
	if err := s.writable(ctx, next, c.Keys); err != nil {
		return session.Session{}, err
	}
	for { // until no parent goes away in between
		parent, err := s.creatable(ctx, next)
		if err != nil {
			return session.Session{}, err
		}
		if parent == 0 && mustShare {
			if next.Info().Fork == nil {
				return session.Session{}, &session.InvalidError{Field: "fork", Reason: "the session is not a fork"}
			}
			return session.Session{}, session.NotFound(next.Info().ParentID)
		}
		whole := next
		if parent == 0 && !beginsLog(next) {
			if whole, err = next.Rooted(); err != nil {
				return session.Session{}, err
			}
		}
		created, ok, err := s.insert(ctx, whole, c, parent)
		if ok || err != nil {
			return created, err
		}
	}
}

// creatable checks whether a session can be created and finds the parent, if
// it is here, whose log it continues: 0 for none.
func (s *Store) creatable(ctx context.Context, next session.Session) (parent int64, err error) {
	info := next.Info()
	args := pgx.NamedArgs{"tenant": info.Tenant, "id": info.ID, "parent": info.ParentID, "agent": next.ForkedFrom(), "version": int64(0), "seq": int64(0)}
	if info.Fork != nil {
		args["version"], args["seq"] = info.Fork.Version, info.Fork.Seq
	}
	var exists bool
	err = s.again(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM sessions WHERE tenant = @tenant AND id = @id),
			coalesce((SELECT p.sid FROM sessions p JOIN commits c ON c.log = p.sid
				WHERE p.tenant = @tenant AND p.id = @parent AND p.agent_id = @agent AND c.version = @version AND c.last_seq = @seq), 0)`,
			args).Scan(&exists, &parent)
	})
	switch {
	case err != nil:
		return 0, err
	case exists:
		return 0, &session.ConflictError{ID: info.ID, Reason: session.ReasonExists}
	case info.Version != 0:
		return 0, &session.ConflictError{ID: info.ID, Reason: session.ReasonNonzeroVersion, Want: info.Version}
	case info.Fork == nil || next.ForkedFrom() == "":
		return 0, nil
	}
	return parent, nil
}

// beginsLog reports whether a session's changes are a log by themselves.
func beginsLog(s session.Session) bool {
	pending := s.Pending()
	if len(pending) == 0 {
		return false
	}
	_, ok := pending[0].Change.(session.SessionCreated)
	return ok
}

const insertSession = `INSERT INTO sessions (tenant, id, agent_id, version, seq, last_seq, write_id, format, head, head_sum, header, header_sum,
		shown_from, shown_to, live, running, kind, status, origin, name, user_id, parent_id, agent_name, task_status, flow_status,
		created_at, updated_at, expires_at)
	SELECT @tenant::text, @id::text, @agent::text, @next::bigint, @seq::bigint, @seq::bigint, @write::uuid, @format::integer,
		@head::bytea, @head_sum::bytea, @header::bytea, @header_sum::bytea, @shown_from::bigint[], @shown_to::bigint[], 0, @running::boolean,
		@kind::text, @status::text, @origin::text, @name::text, @user_id::text, @parent_id::text, @agent_name::text, @task_status::text, @flow_status::text,
		@created_at::timestamptz, @updated_at::timestamptz, @expires_at::timestamptz
	WHERE @parent_sid::bigint = 0 OR EXISTS (SELECT 1 FROM sessions WHERE sid = @parent_sid::bigint)
	ON CONFLICT (tenant, id) DO NOTHING RETURNING sid`

// The parent's row is locked against deletion before anything is shared.
const lockParent = `SELECT 1 FROM sessions WHERE sid = @parent_sid::bigint FOR KEY SHARE`

// A fork has its parent's stretches up to the fork point, and then its own.
const insertLineage = `INSERT INTO lineage (sid, log, after_seq, upto_seq)
	SELECT m.sid, l.log, l.after_seq, least(l.upto_seq, @fork_seq::bigint) FROM ` + mine + `, lineage l
		WHERE l.sid = @parent_sid::bigint AND l.after_seq < @fork_seq::bigint
	UNION ALL SELECT m.sid, m.sid, @fork_seq::bigint, @forever::bigint FROM ` + mine

// insert writes version 1. It is not ok when the session came or the parent
// went in the meantime.
func (s *Store) insert(ctx context.Context, next session.Session, c store.Commit, parent int64) (created session.Session, ok bool, err error) {
	sealed := next.Sealed(c.At)
	args, err := headArgs(sealed)
	if err != nil {
		return session.Session{}, false, err
	}
	after := int64(0) // the last change it shares
	if parent != 0 {
		after = next.Info().Fork.Seq
	}
	args["agent"], args["parent_sid"], args["fork_seq"], args["forever"] = next.AgentID(), parent, after, int64(forever)
	w := s.newWrite("create", store.RefOf(next), args)
	if parent != 0 {
		w.add(lockParent, nil)
		w.locks = 1
	}
	w.add(insertSession, nil)
	w.add(insertLineage, nil)
	if err := w.addVersion(next, sealed, c, after+1); err != nil {
		return session.Session{}, false, err
	}
	ok, err = s.send(ctx, w)
	var lost *brokenError
	if errors.As(err, &lost) {
		switch s.askCommit(ctx, w, sealed.Version()) {
		case made:
			return sealed, true, nil
		case never:
			return session.Session{}, false, &session.ConflictError{ID: next.ID(), Reason: session.ReasonExists}
		}
		return session.Session{}, false, &session.UnknownOutcomeError{ID: next.ID(), CommitID: c.ID, Err: lost.err}
	}
	if err != nil || !ok {
		return session.Session{}, false, err
	}
	s.ring(w.ref)
	return sealed, true, nil
}
