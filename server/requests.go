package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
)

// requests are the turns that requests with an idempotency key wait for. A
// repetition joins the turn that is at work, so that a connection that breaks
// in the middle of an answer does not interrupt it.
type requests struct {
	mu     sync.Mutex // guards the rest, and who waits for each
	open   map[request]*joined
	closed bool
	all    sync.WaitGroup
}

// request is what tells a turn from another: a repetition has the same.
type request struct{ tenant, ref, key, action string }

// joined is a turn at work.
type joined struct {
	waiting int // requests
	cancel  context.CancelFunc
	done    chan struct{} // closed when the rest is set

	before session.Info
	s      session.Session
	err    error
}

// executeTurn executes a turn for a request with a key, or joins the one that
// an earlier request with the same key began.
func (s *Server) executeTurn(ctx context.Context, c caller, on SessionRef, key string, a holdfast.Action, opts []holdfast.Option) (session.Info, session.Session, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return session.Info{}, session.Session{}, err
	}
	r := &s.requests
	name := request{tenant: c.Identity().Tenant, ref: on.Ref, key: key, action: a.Name() + string(body)}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return session.Info{}, session.Session{}, session.ErrClosed
	}
	j := r.open[name]
	if j == nil {
		working, cancel := context.WithCancel(context.WithoutCancel(ctx))
		j = &joined{cancel: cancel, done: make(chan struct{})}
		if r.open == nil {
			r.open = map[request]*joined{}
		}
		r.open[name] = j
		r.all.Go(func() {
			defer cancel()
			j.before, j.s, j.err = on.execute(working, c, a, opts)
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.open, name)
			close(j.done)
		})
	}
	j.waiting++
	r.mu.Unlock()
	defer s.leaveTurn(j)
	select {
	case <-j.done:
		return j.before, j.s, j.err
	case <-ctx.Done():
		return session.Info{}, session.Session{}, context.Cause(ctx)
	}
}

// leaveTurn says that a request no longer waits. A turn that nobody waits for is
// interrupted, unless a repetition comes in time.
func (s *Server) leaveTurn(j *joined) {
	r := &s.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.waiting--; j.waiting > 0 {
		return
	}
	if s.draining.Load() {
		j.cancel()
		return
	}
	time.AfterFunc(s.config.JoinWait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if j.waiting == 0 {
			j.cancel()
		}
	})
}

// close interrupts all turns and waits for their end.
func (r *requests) close() {
	r.mu.Lock()
	r.closed = true
	for _, j := range r.open {
		j.cancel()
	}
	r.mu.Unlock()
	r.all.Wait()
}

func (s *Server) addRequests() {
	register(s, apikey.Write, huma.Operation{
		OperationID: "leave-request", Method: http.MethodDelete, Path: "/v1/requests/{key}", DefaultStatus: http.StatusNoContent,
		Summary: "Interrupt the turn of a request that nobody waits for any more", Tags: []string{"actions"},
		Description: "The key is the Idempotency-Key of the request. The turn can be continued. Without this, a turn goes on for a few seconds " +
			"after its connection broke, and a repetition of the request joins it. Repeating it changes nothing more.",
	}, s.leaveRequest)
}

type requestInput struct {
	Key string `path:"key" doc:"The Idempotency-Key of the request"`
}

type emptyOutput struct{}

func (s *Server) leaveRequest(_ context.Context, c caller, in *requestInput) (*emptyOutput, error) {
	s.requests.mu.Lock()
	defer s.requests.mu.Unlock()
	for name, j := range s.requests.open {
		if name.tenant != c.Identity().Tenant || name.key != in.Key {
			continue
		}
		if j.waiting <= 1 { // the end of its connection may be noticed later
			j.cancel()
		}
		return &emptyOutput{}, nil
	}
	return nil, &session.NotFoundError{What: "request", ID: in.Key}
}
