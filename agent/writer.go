package agent

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/session"
)

// Writer lets a running tool write to its session's log.
type Writer interface {
	// CallID is the id of the call, the same when it runs again after a crash.
	CallID() string

	// Write makes changes durable at once and returns the session with them;
	// without changes, the session as it is. What it writes stays when the tool
	// fails afterwards.
	Write(ctx context.Context, changes ...session.Change) (session.Session, error)
}

type writerKey struct{}

// WriterOf returns the writer of the execution that a tool runs in, nil
// elsewhere.
func WriterOf(ctx context.Context) Writer {
	w, ok := ctx.Value(writerKey{}).(callWriter)
	if !ok {
		return nil
	}
	return w
}

// WithoutWriter returns the context for something that is not part of the call,
// such as an action on another session.
func WithoutWriter(ctx context.Context) context.Context {
	if WriterOf(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, writerKey{}, nil)
}

// callWriter is the writer of one call.
type callWriter struct {
	*writeRequests
	id string
}

func (w callWriter) CallID() string { return w.id }

// writeRequests brings what tools want written to the loop, the only writer of
// the session. It lives as long as the calls it was made for.
type writeRequests struct {
	queue chan writeRequest
	over  chan struct{}
}

type writeRequest struct {
	changes []session.Change
	answer  chan written
}

type written struct {
	s   session.Session
	err error
}

func newWriteRequests() *writeRequests {
	return &writeRequests{queue: make(chan writeRequest), over: make(chan struct{})}
}

var errCallOver = errors.New("the call that wants to write is over")

// Write asks the loop.
func (w *writeRequests) Write(ctx context.Context, changes ...session.Change) (session.Session, error) {
	q := writeRequest{changes: changes, answer: make(chan written, 1)}
	select {
	case w.queue <- q:
		a := <-q.answer
		return a.s, a.err
	case <-w.over:
		return session.Session{}, errCallOver
	case <-ctx.Done():
		return session.Session{}, context.Cause(ctx)
	}
}

// serve writes for a tool. Changes that the session refuses leave it as it was.
func (r *run) serve(ctx context.Context, q writeRequest) {
	before := r.s
	err := error(nil)
	if len(q.changes) > 0 {
		if err = r.record(q.changes...); err == nil {
			err = r.flushAnyway(ctx)
		}
		if err != nil {
			r.s = before
		}
	}
	q.answer <- written{s: r.s, err: err}
}
