package protocol

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
)

// Turn is what a session does after a change: until its execution ends, or until
// calls of the model wait for responses. What follows a response is another turn
// of the same execution.
type Turn struct {
	SessionID string
	After     int64 // the last change before it
}

// Step is one thing that happened in a turn: an update, and what it changed of
// the items to show.
type Step struct {
	holdfast.Update
	Changes []projector.Change
	End     bool // the turn is over
}

// turnReader finds the end of a turn.
type turnReader struct {
	*projector.Projector
	asked bool // the model has answered since the turn began
}

func newTurnReader(id string) *turnReader { return &turnReader{Projector: projector.New(id)} }

func (t *turnReader) read(u holdfast.Update) Step {
	s := Step{Update: u, Changes: t.Apply(u)}
	if u.Record == nil || u.Record.Discarded {
		return s
	}
	switch u.Record.Change.(type) {
	case session.InferenceAnswered:
		t.asked = true
	case session.ExecutionFinished:
		s.End = true
	case session.ExecutionWaiting: // before an answer, not all responses have come
		s.End = t.asked
	}
	return s
}

// Read returns what has happened in a turn so far, without answers in progress.
func (c *Call) Read(ctx context.Context, t Turn) (steps []Step, ended bool, err error) {
	reader := newTurnReader(t.SessionID)
	for e, err := range c.Runtime.Log(ctx, t.SessionID, t.After) {
		if err != nil {
			return nil, false, err
		}
		s := reader.read(holdfast.Update{Record: &e})
		steps = append(steps, s)
		if s.End {
			return steps, true, nil
		}
	}
	return steps, false, nil
}

// Watch hands what happens in a turn to show, from its beginning, until it ends
// or show returns false. Idle is called while nothing happens. It returns
// ErrClosed when the server ends.
func (c *Call) Watch(ctx context.Context, t Turn, show func(Step) bool, idle func() bool) error {
	ctx, stop := context.WithCancel(ctx)
	updates := c.Follow(ctx, t.SessionID, t.After)
	defer func() {
		stop()
		for range updates { // until it is closed
		}
	}()
	beat := time.NewTicker(c.Heartbeat)
	defer beat.Stop()
	reader := newTurnReader(t.SessionID)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.Drain:
			return session.ErrClosed
		case <-beat.C:
			if !idle() {
				return context.Canceled
			}
		case u, ok := <-updates:
			switch {
			case !ok:
				return session.ErrClosed
			case u.Err != nil:
				return u.Err
			}
			s := reader.read(u.Update)
			if !show(s) {
				return context.Canceled
			}
			if s.End {
				return nil
			}
		}
	}
}

// Wait waits for the end of a turn and returns everything that happened in it.
func (c *Call) Wait(ctx context.Context, t Turn) ([]Step, error) {
	if err := c.Watch(ctx, t, func(Step) bool { return true }, func() bool { return true }); err != nil {
		return nil, err
	}
	steps, _, err := c.Read(ctx, t)
	return steps, err
}

// AwaitSaved waits until a turn that a request has begun is saved, so that the
// next request finds it so.
func AwaitSaved(ctx context.Context, done <-chan error) {
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Settled returns a session when nobody is about to save it: an execution that
// has just ended is saved a moment later.
func (c *Call) Settled(ctx context.Context, id string, opts ...holdfast.Option) (session.Session, error) {
	opts = append(opts, holdfast.WithTail())
	for {
		s, err := c.Runtime.Get(ctx, id, opts...)
		if err != nil || s.Running() || !s.HasTail() {
			return s, err
		}
		if _, live, err := c.Runtime.Holder(ctx, id); err != nil || !live { // nobody is: the next action saves it
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Current returns the turn that a session is at work on, if there is one.
func (c *Call) Current(ctx context.Context, s session.Session) (t Turn, open bool, err error) {
	if !s.Running() || s.Waiting() {
		return t, false, nil
	}
	t = Turn{SessionID: s.ID()}
	for _, m := range s.Messages() {
		if m.Role == session.RoleUser {
			t.After = m.Seq - 1
		}
	}
	for {
		steps, ended, err := c.Read(ctx, t)
		if err != nil || !ended {
			return t, err == nil, err
		}
		t.After = steps[len(steps)-1].Record.Seq
	}
}

// Send begins a turn with a message on a session as it is at a version. Another
// version is a ConflictError, and nothing is sent.
func (c *Call) Send(ctx context.Context, s session.Session, send holdfast.SendMessage, queued bool) (Turn, <-chan error, error) {
	t := Turn{SessionID: s.ID(), After: s.Seq()}
	done, err := c.Begin(ctx, s.ID(), queued, func(ctx context.Context) error {
		_, err := c.Runtime.Execute(ctx, s.ID(), send, holdfast.IfVersion(s.Version()))
		return err
	})
	return t, done, ignoreSaved(err)
}

// Respond begins a turn with the responses to the calls that a session waits
// for. The same responses again begin nothing.
func (c *Call) Respond(ctx context.Context, s session.Session, responses []session.Response, queued bool) (Turn, <-chan error, error) {
	t := Turn{SessionID: s.ID(), After: s.Seq()}
	for _, r := range responses {
		if err := c.Runtime.Respond(ctx, s.ID(), r); err != nil {
			return t, nil, err
		}
	}
	done, err := c.Continue(ctx, s.ID(), queued)
	return t, done, err
}

// Continue takes up what a session waits with, unless somebody else has.
func (c *Call) Continue(ctx context.Context, id string, queued bool) (<-chan error, error) {
	done, err := c.Begin(ctx, id, queued, func(ctx context.Context) error {
		_, err := c.Runtime.Execute(ctx, id, holdfast.ContinueExecution{})
		if errors.Is(err, session.ErrNothingToDo) { // somebody else has
			return nil
		}
		return err
	})
	return done, ignoreSaved(err)
}

// ContinueAll takes up what sessions wait with, one after the other. A subagent
// that comes to its end continues its parent.
func (c *Call) ContinueAll(ctx context.Context, ids []string) (<-chan error, error) {
	done, err := c.Begin(ctx, ids[0], false, func(ctx context.Context) error {
		for _, id := range ids {
			_, err := c.Runtime.Execute(ctx, id, holdfast.ContinueExecution{})
			switch err = ignoreSaved(err); {
			case errors.Is(err, session.ErrNothingToDo): // somebody else has
			case errors.Is(err, session.ErrInvalid): // other calls of it still wait
			case err != nil:
				return err
			}
		}
		return nil
	})
	return done, ignoreSaved(err)
}

// ignoreSaved drops the error of a turn that was saved: its failure is part of
// the session.
func ignoreSaved(err error) error {
	if errors.Is(err, session.ErrExecutionFailed) || errors.Is(err, session.ErrAfterSave) {
		return nil
	}
	return err
}
