package task

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// Run is the live owner of a task's state, while its lease is held. Its
// getters return copies and change nothing.
type Run struct {
	x    *Executor
	hold *holdfast.Hold
	box  toolbox
	held followUps

	ownOnce sync.Once
	own     []tool.Tool

	newWindow bool // the next request is the first of its window
	idleStops int  // at the end of the window before: answers in a row that only called tools

	mu     sync.Mutex       // guards the rest
	failed error            // of the store; nothing is written after it
	live   *session.Session // what the running action has made so far; nil: none runs
}

// session returns the newest one, with the open tail and what the running
// action has made.
func (r *Run) session() session.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live != nil {
		return *r.live
	}
	return r.hold.Session()
}

func (r *Run) setLive(s *session.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = s
}

// ID returns the task's id.
func (r *Run) ID() string { return r.session().ID() }

// state returns a copy of the task's state, without the queues.
func (r *Run) state() session.TaskState { return stateOf(r.session()) }

func stateOf(s session.Session) session.TaskState {
	if t := s.Task(); t != nil {
		return *t
	}
	return session.NewTaskState()
}

// row returns the task's row.
func (r *Run) row() session.TaskRow { return rowIn(r.session()) }

func rowIn(s session.Session) session.TaskRow {
	if row := s.Info().Task; row != nil {
		return *row
	}
	return session.TaskRow{}
}

// edit is one change of a task: what happened, and what of the state and the
// row it alters beyond what the events say themselves.
type edit struct {
	changes []session.Change
	state   func(*session.TaskState)
	row     func(*session.TaskRow)
}

// and makes two edits one.
func (m edit) and(n edit) edit {
	both := edit{changes: append(slices.Clone(m.changes), n.changes...), state: m.state, row: m.row}
	if n.state != nil {
		both.state = func(s *session.TaskState) {
			if m.state != nil {
				m.state(s)
			}
			n.state(s)
		}
	}
	if n.row != nil {
		both.row = func(row *session.TaskRow) {
			if m.row != nil {
				m.row(row)
			}
			n.row(row)
		}
	}
	return both
}

// append makes an edit durable, all of it or nothing: in the open tail at once,
// or while an action runs with the action's next write. A tool of the task
// writes through the loop that runs it.
func (r *Run) append(ctx context.Context, m edit) error {
	if w := agent.WriterOf(ctx); w != nil {
		s, err := w.Write(ctx)
		if err != nil {
			return err
		}
		changes, err := m.made(s, r.x.c.Clock)
		if err == nil && len(changes) > 0 {
			_, err = w.Write(ctx, changes...)
		}
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return r.failed
	}
	s := r.hold.Session()
	if r.live != nil {
		s = *r.live
	}
	changes, err := m.made(s, r.x.c.Clock)
	if err != nil || len(changes) == 0 {
		return err
	}
	if r.live != nil {
		if s, err = s.With(r.x.c.Clock(), changes...); err == nil {
			r.live = &s
		}
		return err
	}
	finishing, done := store.Finish(ctx)
	defer done()
	_, err = r.hold.Append(finishing, changes...)
	return r.written(err)
}

// seal makes an edit and a version of it. While an action runs, the version is
// the action's.
func (r *Run) seal(ctx context.Context, name string, m edit) error {
	r.mu.Lock()
	live := r.live != nil
	r.mu.Unlock()
	if live {
		return r.append(ctx, m)
	}
	finishing, done := store.Finish(ctx)
	defer done()
	return r.act(finishing, name, func(ctx context.Context, _ *holdfast.Environment) error { return r.append(ctx, m) })
}

// act makes a version of what do does to the live session. When do fails, the
// open tail stays as do left it.
func (r *Run) act(ctx context.Context, name string, do func(context.Context, *holdfast.Environment) error) error {
	r.mu.Lock()
	failed := r.failed
	r.mu.Unlock()
	if failed != nil {
		return failed
	}
	_, err := r.hold.Execute(ctx, action{name: name, do: func(ctx context.Context, s session.Session) (session.Session, error) {
		r.setLive(&s)
		defer r.setLive(nil)
		err := do(ctx, holdfast.Env(ctx))
		return r.session(), err
	}})
	var interrupted *session.InterruptedError
	if errors.As(err, &interrupted) || err != nil && ctx.Err() != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written(err)
}

// action is a version of a task in the making.
type action struct {
	name string
	do   func(context.Context, session.Session) (session.Session, error)
}

func (a action) Name() string { return a.name }

func (a action) Permits(status session.Status) bool {
	return status == session.Active || status == session.Suspended
}

func (a action) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return a.do(ctx, s)
}

// written returns what came of a write. After one that failed nobody knows what
// is durable, so none follows; what was only too large is known not to be.
func (r *Run) written(err error) error {
	err = ofStore(err)
	var stored *storeError
	if errors.As(err, &stored) && !errors.Is(err, session.ErrTooLarge) {
		r.failed = err
	}
	return err
}

// storeError is what the store could not do. What is durable stays as it was,
// and nothing more is tried: whoever resumes the task continues from there.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// ofStore marks an error of the store. What was refused for being wrong is
// none.
func ofStore(err error) error {
	if err == nil || errors.Is(err, session.ErrInvalid) || errors.Is(err, session.ErrTaskTerminal) {
		return err
	}
	return &storeError{err}
}

// made returns the edit as changes of a session: the events, the fields that
// changed besides, and the row.
func (m edit) made(s session.Session, now func() time.Time) ([]session.Change, error) {
	changes := m.changes
	next, err := s.With(now(), changes...)
	if err != nil {
		return nil, err
	}
	state := stateOf(next)
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
	before := rowIn(s)
	after := before.Clone()
	if m.row != nil {
		m.row(&after)
	}
	if err := checkMove(s.ID(), before, after); err != nil {
		return nil, err
	}
	projected := state.Projection()
	after.Projection, after.PermissionMode, after.PendingApprovals = &projected, next.Permissions().Mode, next.Info().Pending
	if t := s.Task(); t != nil && (verifies(t.Plan) != verifies(state.Plan) || before.ExecutionMode != after.ExecutionMode) {
		changes = append(changes[:len(changes):len(changes)], renudge(state.Checklist, state.Plan, after.ExecutionMode, millis(now()))...)
	}
	if !reflect.DeepEqual(before.Clone(), after.Clone()) {
		changes = append(changes[:len(changes):len(changes)], session.TaskRowChanged{Task: after})
	}
	return changes, nil
}
