package agent

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
)

// Tail is the way from a tool that is running to its session's log.
type Tail interface {
	// CallID is the id of the call, the same when it runs again after a crash.
	CallID() string

	// Write makes changes durable at once and returns the session with them;
	// with none, the session as it is. What it writes stays when the tool
	// fails afterwards.
	Write(ctx context.Context, changes ...session.Change) (session.Session, error)
}

type tailKey struct{}

// TailOf is the tail of the execution that a tool runs in, nil elsewhere.
func TailOf(ctx context.Context) Tail {
	t, ok := ctx.Value(tailKey{}).(callTail)
	if !ok {
		return nil
	}
	return t
}

// WithoutTail is the context of something that is not part of the call: an
// action on another session, say.
func WithoutTail(ctx context.Context) context.Context {
	if TailOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, tailKey{}, nil)
}

// callTail is the tail as one call has it.
type callTail struct {
	*tail
	id string
}

func (t callTail) CallID() string { return t.id }

// tail hands what tools want written to the loop, which alone writes. It lives
// as long as the calls it was made for.
type tail struct {
	asks chan ask
	over chan struct{}
}

type ask struct {
	changes []session.Change
	answer  chan told
}

type told struct {
	s   session.Session
	err error
}

func newTail() *tail { return &tail{asks: make(chan ask), over: make(chan struct{})} }

var errCallOver = errors.New("the call it was meant for is over")

// Write asks the loop.
func (t *tail) Write(ctx context.Context, changes ...session.Change) (session.Session, error) {
	q := ask{changes: changes, answer: make(chan told, 1)}
	select {
	case t.asks <- q:
		a := <-q.answer
		return a.s, a.err
	case <-t.over:
		return session.Session{}, errCallOver
	case <-ctx.Done():
		return session.Session{}, context.Cause(ctx)
	}
}

// serve writes for a tool. Changes that the session refuses leave it as it was.
func (r *run) serve(ctx context.Context, q ask) {
	before := r.s
	err := error(nil)
	if len(q.changes) > 0 {
		if err = r.record(q.changes...); err == nil {
			err = r.flush(context.WithoutCancel(ctx))
		}
		if err != nil {
			r.s = before
		}
	}
	q.answer <- told{s: r.s, err: err}
}
