package postgres

import (
	"context"
	"errors"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const updateSession = `UPDATE sessions SET version = @next, seq = @seq, last_seq = @seq, write_id = @write::uuid,
		head = @head, head_sum = @head_sum, header = @header, header_sum = @header_sum, shown_from = @shown_from, shown_to = @shown_to,
		live = 0, running = @running, kind = @kind, status = @status, origin = @origin, name = @name, user_id = @user_id,
		parent_id = @parent_id, agent_name = @agent_name, task_status = @task_status, flow_status = @flow_status,
		created_at = @created_at, updated_at = @updated_at, expires_at = @expires_at,
		lease_ended = lease_ended OR @release
	WHERE ` + admission + ` RETURNING sid`

// Save adds a version.
func (s *Store) Save(ctx context.Context, next session.Session, c store.Commit) (session.Session, error) {
	if err := s.writable(ctx, next, c.Keys); err != nil {
		return session.Session{}, err
	}
	sealed := next.Sealed(c.At)
	args, err := headArgs(sealed)
	if err != nil {
		return session.Session{}, err
	}
	maps.Copy(args, admissionArgs(next, c.Fence))
	args["release"] = c.Release
	w := s.newWrite("save", store.RefOf(next), args)
	w.add(updateSession, nil)
	if err := w.addVersion(next, sealed, c, next.Info().Seq+1); err != nil {
		return session.Session{}, err
	}
	err = s.settle(ctx, next, c.Fence, w)
	var lost *brokenError
	if !errors.As(err, &lost) {
		if err != nil {
			return session.Session{}, err
		}
		return sealed, nil
	}
	switch s.askCommit(ctx, w, sealed.Version()) {
	case made:
		return sealed, nil
	case never:
		return session.Session{}, &session.ConflictError{ID: next.ID(), Reason: session.ReasonStale, Want: next.Version(), Have: sealed.Version()}
	}
	return session.Session{}, &session.UnknownOutcomeError{ID: next.ID(), CommitID: c.ID, Err: lost.err}
}

const insertCommit = `INSERT INTO commits (log, version, first_seq, last_seq, write_id, id, action, actor, at)
	SELECT m.sid, m.version, @first_seq::bigint, m.seq, m.write_id, @commit_id::bytea, @action::bytea, @actor::bytea, m.updated_at FROM ` + mine

const insertSnapshot = `INSERT INTO snapshots (sid, version, seq, head) SELECT m.sid, m.version, m.seq, m.head FROM ` + mine

// Items whose taking a version holds are never given back.
const sealTakings = `UPDATE inbox i SET taken = true FROM ` + mine + `, takings t
	WHERE i.sid = m.sid AND NOT i.taken AND t.sid = i.sid AND t.item_id = i.item_id`

// addVersion adds what a new version, whose changes begin with first, brings
// besides the session's row.
func (w *write) addVersion(next, sealed session.Session, c store.Commit, first int64) error {
	if err := w.addChanges(next.Pending(), sealed.Version()); err != nil {
		return err
	}
	w.add(insertCommit, pgx.NamedArgs{"first_seq": first, "commit_id": []byte(c.ID), "action": []byte(c.Action), "actor": []byte(c.Actor)})
	if sealed.Version()%snapshotEvery == 1 {
		w.add(insertSnapshot, nil)
	}
	if sealed.Version() > 1 && sealed.Seq() >= first { // nothing was taken where nothing changed
		w.add(sealTakings, nil)
	}
	w.addKeys(c.Keys, sealed.Version(), sealed.Seq())
	return nil
}

// The kinds of change that mean something to a store.
const (
	messageAdded  = "message_added"
	tailDiscarded = "tail_discarded"
)

const insertChanges = `INSERT INTO changes (log, seq, version, kind, body)
	SELECT m.sid, c.seq, @of_version::bigint, c.kind, c.body
	FROM ` + mine + `, unnest(@seqs::bigint[], @kinds::text[], @bodies::bytea[]) AS c (seq, kind, body)`

const insertTaking = `INSERT INTO takings (sid, item_id, seq) SELECT m.sid, @item::text, @taken_by::bigint FROM ` + mine

const (
	insertDiscard = `INSERT INTO discards (log, from_seq, to_seq) SELECT m.sid, @from::bigint, @to::bigint FROM ` + mine
	returnTakings = `DELETE FROM takings t USING ` + mine + ` WHERE t.sid = m.sid AND t.seq BETWEEN @from::bigint AND @to::bigint`
	forgetKeys    = `DELETE FROM keys k USING ` + mine + `
		WHERE k.sid = m.sid AND k.version = @of_version::bigint AND k.seq BETWEEN @from::bigint AND @to::bigint`
)

// addChanges adds log rows, and what they mean for inbox and keys in the order
// they were made.
func (w *write) addChanges(records []session.Record, version int64) error {
	if len(records) == 0 {
		return nil
	}
	seqs, kinds, bodies := make([]int64, len(records)), make([]string, len(records)), make([][]byte, len(records))
	for i, r := range records {
		raw, err := r.MarshalJSON()
		if err != nil {
			return err
		}
		seqs[i], kinds[i], bodies[i] = r.Seq, r.Change.Kind(), raw
	}
	w.add(insertChanges, pgx.NamedArgs{"of_version": version, "seqs": seqs, "kinds": kinds, "bodies": bodies})
	for _, r := range records {
		switch c := r.Change.(type) {
		case session.InboxTaken:
			w.add(insertTaking, pgx.NamedArgs{"item": column(c.ItemID), "taken_by": r.Seq})
		case session.TailDiscarded:
			args := pgx.NamedArgs{"from": c.From, "to": c.To, "of_version": version}
			w.add(insertDiscard, args)
			w.add(returnTakings, args)
			w.add(forgetKeys, args)
		}
	}
	return nil
}
