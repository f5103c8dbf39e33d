package task

import (
	"context"
	"errors"
	"reflect"
	"sync"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// Run is the live owner of a task's state, while its lease is held. Its
// getters return copies and change nothing.
type Run struct {
	x    *Executor
	hold *holdfast.Hold
	ctx  context.Context // ends with the lease

	mu     sync.Mutex // state and log move together
	failed error      // of the store; nothing is written after it

	box  toolbox
	held holding
}

// session is the newest one, the open tail included.
func (r *Run) session() session.Session { return r.hold.Session() }

// ID is the task's id.
func (r *Run) ID() string { return r.session().ID() }

// state is a copy of the task's state, without the queues.
func (r *Run) state() session.TaskState {
	if s := r.session().Task(); s != nil {
		return *s
	}
	return session.NewTaskState()
}

// row is the task's row.
func (r *Run) row() session.TaskRow {
	if row := r.session().Info().Task; row != nil {
		return *row
	}
	return session.TaskRow{}
}

// move is one step of a task: what happened, and what of the state and the row
// it moves beyond what the events say themselves.
type move struct {
	changes []session.Change
	state   func(*session.TaskState)
	row     func(*session.TaskRow)
}

// append makes a move durable in the open tail, all of it or nothing.
func (r *Run) append(ctx context.Context, m move) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return r.failed
	}
	changes, err := m.made(r.session(), r.x.c.Clock)
	if err != nil || len(changes) == 0 {
		return err
	}
	_, err = r.hold.Append(context.WithoutCancel(ctx), changes...)
	return r.written(err)
}

// seal makes a move and a version of it.
func (r *Run) seal(ctx context.Context, action string, m move) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return r.failed
	}
	changes, err := m.made(r.session(), r.x.c.Clock)
	if err != nil {
		return err
	}
	_, err = r.hold.Execute(context.WithoutCancel(ctx), sealing{action, changes, r.x.c.Clock})
	return r.written(err)
}

// written is what came of a write. After one that failed nobody knows what is
// durable, so none follows; what was only too large is known not to be.
func (r *Run) written(err error) error {
	err = ofStore(err)
	var stored *storeError
	if errors.As(err, &stored) && !errors.Is(err, session.ErrTooLarge) {
		r.failed = err
	}
	return err
}

// storeError is what the store could not do. What is durable stays as it was,
// and nothing more is tried: whoever resumes the task goes on from there.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

// ofStore marks an error of the store. What was refused for being wrong is
// none.
func ofStore(err error) error {
	if err == nil || errors.Is(err, session.ErrInvalid) || errors.Is(err, session.ErrTaskTerminal) {
		return err
	}
	return &storeError{err}
}

// made is the move as changes of a session: the events, the fields that moved
// besides, and the row.
func (m move) made(s session.Session, now clock) ([]session.Change, error) {
	changes := m.changes
	next, err := s.With(now(), changes...)
	if err != nil {
		return nil, err
	}
	state := session.NewTaskState()
	if t := next.Task(); t != nil {
		state = *t
	}
	if m.state != nil {
		before := state
		altered := *state.Clone()
		m.state(&altered)
		moves, moved, err := session.TaskMoves(before, altered)
		if err != nil {
			return nil, err
		}
		if moved {
			changes = append(changes[:len(changes):len(changes)], moves)
		}
		state = altered
	}
	before := session.TaskRow{}
	if row := s.Info().Task; row != nil {
		before = *row
	}
	after := before.Clone()
	if m.row != nil {
		m.row(&after)
	}
	if err := checkMove(s.ID(), before, after); err != nil {
		return nil, err
	}
	projected := state.Projection()
	after.Projection, after.PermissionMode, after.PendingApprovals = &projected, state.Permissions.Mode, pending(state.Approvals)
	if t := s.Task(); t != nil && (verifies(t.Plan) != verifies(state.Plan) || before.ExecutionMode != after.ExecutionMode) {
		changes = append(changes[:len(changes):len(changes)], renudge(state.Checklist, state.Plan, after.ExecutionMode, millis(now()))...)
	}
	if !reflect.DeepEqual(before.Clone(), after.Clone()) {
		changes = append(changes[:len(changes):len(changes)], session.TaskRowChanged{Task: after})
	}
	return changes, nil
}

func pending(approvals []session.Approval) int {
	n := 0
	for _, a := range approvals {
		if a.Status == "pending" {
			n++
		}
	}
	return n
}
