package postgres

import (
	"context"
	"errors"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
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
	if err := s.usable(ctx, admission.CheckSession(next, c.Keys)); err != nil {
		return session.Session{}, err
	}
	_, isFork := admission.ParentOf(next)
	ask := isFork || mustShare || next.Version() != 0 // else the insert finds out
	for ; ; ask = true {                              // again if the session exists, or the parent is deleted in between
		var parent int64
		var base store.Sum
		var err error
		if ask {
			if parent, base, err = s.creatable(ctx, next); err != nil {
				return session.Session{}, err
			}
		}
		whole := next
		if parent == 0 {
			if whole, _, err = admission.Rooted(next, mustShare); err != nil && !ask {
				continue
			}
		}
		if err != nil {
			return session.Session{}, err
		}
		created, ok, err := s.insert(ctx, whole, c, parent, base)
		if ok || err != nil {
			return created, err
		}
	}
}

// creatable checks whether a session can be created and finds the parent whose
// log it shares, 0 for none, with the sum of the last record it shares.
func (s *Store) creatable(ctx context.Context, next session.Session) (parent int64, last store.Sum, err error) {
	of, isFork := admission.ParentOf(next)
	args := pgx.NamedArgs{"tenant": next.Tenant(), "id": next.ID(), "parent": of.Ref.ID, "agent": of.AgentID, "version": of.At.Version, "seq": of.At.Seq}
	var exists bool
	err = s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var body []byte
		err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM sessions WHERE tenant = @tenant AND id = @id), coalesce(p.sid, 0), p.body
			FROM (SELECT 1) one LEFT JOIN (SELECT p.sid, `+sumOfBody+` AS body FROM sessions p JOIN commits k ON k.log = p.sid JOIN changes c ON c.log = p.sid AND c.seq = k.last_seq
				WHERE p.tenant = @tenant AND p.id = @parent AND p.agent_id = @agent AND k.version = @version AND k.last_seq = @seq) p ON true`,
			args).Scan(&exists, &parent, &body)
		if err == nil && parent != 0 {
			var sum int64
			sum, _, err = cutSum(body)
			last, err = store.Sum(sum), unreadableRecord(of.Ref.ID, of.At.Seq, err)
		}
		return err
	})
	if err == nil {
		err = admission.CheckCreate(next, exists)
	}
	if err != nil || !isFork {
		return 0, 0, err
	}
	return parent, last, nil
}

// A fork has its parent's stretches of the log up to the fork point, and then
// its own.
var insertSession = committing(`WITH s AS (
	INSERT INTO sessions (tenant, id, agent_id, version, seq, last_seq, write_id, format, header, header_sum, pending, messages, shown_from, shown_to,
		live, running, at_work, updated_at, snap_version, snapshot_bytes, last_sum, row_sum, due)
	SELECT @tenant::text, @id::text, @agent::text, @of_version::bigint, @seq::bigint, @seq::bigint, @write::uuid, @format::integer,
		@header::bytea, @header_sum::bytea, @pending::boolean, @messages::bigint, @shown_from::bigint[], @shown_to::bigint[],
		0, @running::boolean, @running::boolean, @updated_at::timestamptz, @of_version::bigint, octet_length(@head::bytea), @last_sum::bigint, @row_sum::bigint, @due::timestamptz
	WHERE @parent_sid::bigint = 0 OR EXISTS (SELECT 1 FROM sessions WHERE sid = @parent_sid::bigint)
	ON CONFLICT (tenant, id) DO NOTHING RETURNING sid),
	listed AS (INSERT INTO listing (sid, tenant, updated_slot, created_at, expires_at,
			kind, status, origin, name, user_id, parent_id, agent_name, task_status, flow_status, tagged)
		SELECT s.sid, @tenant::text, @updated_slot::bigint, @created_at::timestamptz, @expires_at::timestamptz,
			@kind::text, @status::text, @origin::text, @name::text, @user_id::text, @parent_id::text, @agent_name::text, @task_status::text, @flow_status::text, @tagged::boolean
		FROM s),
	found AS (INSERT INTO tags (tenant, tag, sid) SELECT @tenant::text, t.tag, s.sid FROM s, unnest(@tags::bigint[]) AS t (tag)),
	lines AS (INSERT INTO lineage (sid, log, after_seq, upto_seq)
		SELECT s.sid, l.log, l.after_seq, least(l.upto_seq, @base::bigint) FROM s, lineage l
			WHERE l.sid = @parent_sid::bigint AND l.after_seq < @base::bigint
		UNION ALL SELECT s.sid, s.sid, @base::bigint, @forever::bigint FROM s)`,
	writeSnapshot+` SELECT sid FROM s`)

// The parent's row is locked against deletion before anything is shared.
var lockParent = named(`SELECT 1 FROM sessions WHERE sid = @parent_sid::bigint FOR KEY SHARE`)

// insert writes version 1. It is not ok if the session was created or the
// parent deleted in the meantime.
func (s *Store) insert(ctx context.Context, next session.Session, c store.Commit, parent int64, base store.Sum) (created session.Session, ok bool, err error) {
	sealed := session.Seal(next, c.At)
	w, err := s.newCreation(next, sealed, c, parent, base)
	if err != nil {
		return session.Session{}, false, err
	}
	ok, err = s.send(ctx, w)
	var lost *answerLostError
	if errors.As(err, &lost) {
		switch s.askCommit(ctx, w, sealed.Version()) {
		case made:
			return s.warm.Keep(sealed, w.last), true, nil
		case replaced:
			return session.Session{}, false, &session.ConflictError{ID: next.ID(), Reason: session.ReasonExists}
		}
		return session.Session{}, false, &session.UnknownOutcomeError{ID: next.ID(), CommitID: c.ID, Err: lost.err}
	}
	if err != nil || !ok {
		return session.Session{}, false, err
	}
	s.announce(w.ref)
	return s.warm.Keep(sealed, w.last), true, nil
}

func (s *Store) newCreation(next, sealed session.Session, c store.Commit, parent int64, base store.Sum) (*write, error) {
	info := sealed.Info()
	args := versionArgs(sealed, info)
	addWindow(args, sealed)
	if err := addHeader(args, info); err != nil {
		return nil, err
	}
	head, err := session.EncodeHead(sealed)
	if err != nil {
		return nil, err
	}
	after := int64(0) // the last change it shares
	if parent != 0 {
		after = next.Info().Fork.Seq
	}
	pending := session.Unsaved(next)
	last, err := addChanges(args, pending, info.Version, base)
	if err != nil {
		return nil, err
	}
	args["head"] = withLogSum(head, last)
	addCommit(args, c, after+1, info, last)
	args["agent"], args["parent_sid"], args["base"], args["forever"] = next.AgentID(), parent, after, int64(forever)
	args["format"], args["kind"], args["user_id"] = session.FormatVersion, column(string(info.Kind)), column(info.UserID)
	args["parent_id"], args["agent_name"], args["created_at"] = column(info.ParentID), column(info.AgentName), info.CreatedAt
	maps.Copy(args, tagArgs(sealed))
	var sid int64
	w := s.newWrite("create", store.RefOf(next), args, &sid)
	w.last = last
	if parent != 0 {
		w.add(lockParent, nil)
		w.locks = 1
	}
	w.add(insertSession.of(len(pending)), nil)
	w.addEffects(pending)
	w.addKeys(c.Keys, sealed.Seq())
	return w, nil
}
