package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const extendTail = `UPDATE sessions SET last_seq = @last, live = live + @added, running = @running, write_id = @write::uuid
	WHERE ` + admission + ` RETURNING sid`

const extendTailAndHeader = `UPDATE sessions SET last_seq = @last, live = live + @added, running = @running, write_id = @write::uuid,
		header = @header, header_sum = @header_sum, task_status = @task_status, flow_status = @flow_status
	WHERE ` + admission + ` RETURNING sid`

// After a refusal the changes in force are counted anew.
const countTail = `UPDATE sessions s SET live = (SELECT count(*) FROM changes c
		WHERE c.log = s.sid AND c.seq > s.seq AND c.kind <> '` + tailDiscarded + `'
		AND NOT EXISTS (SELECT 1 FROM discards d WHERE d.log = c.log AND c.seq BETWEEN d.from_seq AND d.to_seq))
	WHERE s.tenant = @tenant AND s.id = @id AND s.write_id = @write::uuid`

// Append writes to the open tail.
func (s *Store) Append(ctx context.Context, next session.Session, a store.Append) (session.Session, error) {
	if err := s.writable(ctx, next, a.Keys); err != nil {
		return session.Session{}, err
	}
	pending := next.Pending()
	if has[session.SessionRewound](pending) {
		if err := s.refusal(ctx, next, a.Fence); err != nil {
			return session.Session{}, err
		}
		return session.Session{}, &session.InvalidError{Field: "change", Reason: "session_rewound can be saved but not appended"}
	}
	w, err := s.newAppend(ctx, next, a, pending)
	if err != nil {
		return session.Session{}, err
	}
	err = s.settle(ctx, next, a.Fence, w)
	var lost *brokenError
	switch {
	case err == nil:
		return next.Flushed(), nil
	case !errors.As(err, &lost):
		return session.Session{}, err
	case s.askAppend(ctx, w) == made:
		return next.Flushed(), nil
	}
	return session.Session{}, &session.UnknownOutcomeError{ID: next.ID(), Err: lost.err}
}

func (s *Store) newAppend(ctx context.Context, next session.Session, a store.Append, pending []session.Record) (*write, error) {
	args := admissionArgs(next, a.Fence)
	args["last"], args["added"], args["running"] = next.Seq(), int64(len(pending)), next.Running()
	discards := has[session.TailDiscarded](pending)
	statement := extendTail
	if discards || has[session.TaskRowChanged](pending) || has[session.WorkflowRowChanged](pending) {
		header, err := s.headerWith(ctx, next)
		if err != nil {
			// What is wrong with the session may come before its header.
			return nil, errors.Join(s.refusal(ctx, next, a.Fence), err)
		}
		maps.Copy(args, header)
		statement = extendTailAndHeader
	}
	w := s.newWrite("append", store.RefOf(next), args)
	w.add(statement, nil)
	if err := w.addChanges(pending, next.Version()+1); err != nil {
		return nil, err
	}
	if discards {
		w.add(countTail, nil)
	}
	w.addKeys(a.Keys, next.Version()+1, next.Seq())
	return w, nil
}

// has reports whether a change of a kind is among records.
func has[C session.Change](records []session.Record) bool {
	return slices.ContainsFunc(records, func(r session.Record) bool {
		_, ok := r.Change.(C)
		return ok
	})
}

// headerWith are the columns of the stored header with a session's task and
// workflow rows. A discarded tail returns them to what they were, which is
// what the value that discards it has. Should the header change before it is
// written, the write is not admitted.
func (s *Store) headerWith(ctx context.Context, next session.Session) (pgx.NamedArgs, error) {
	info, err := s.Info(ctx, store.RefOf(next))
	if err != nil {
		return nil, err
	}
	with := next.Info()
	info.Task, info.Workflow = with.Task, with.Workflow
	return headerArgs(info)
}
