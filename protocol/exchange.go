package protocol

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/internal/sse"
)

// Route is a path of a protocol, the scope that a key needs for it, and what
// answers there.
type Route struct {
	Pattern string // as of http.ServeMux
	Scope   apikey.Scope
	Serve   func(*Exchange) error
}

// Handler answers the requests of a route. An error of Serve is written as the
// clients of the protocol read it, unless the response has begun.
func (route Route) Handler(p Protocol, host Host) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &Exchange{Call: host.Call(r), Writer: w, Request: r, Host: host}
		err := x.Permit(route.Scope)
		if err == nil {
			err = route.Serve(x)
		}
		if err != nil && !x.begun {
			p.WriteProblem(w, host.Problem(r.Context(), err))
		}
	})
}

// Exchange is one request and its response.
type Exchange struct {
	*Call
	Writer  http.ResponseWriter
	Request *http.Request
	Host    Host
	begun   bool // the response: an error can only be a part of it
}

// Write answers with a value as JSON.
func (x *Exchange) Write(value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	x.begun = true
	x.Writer.Header().Set("Content-Type", "application/json")
	x.Writer.Header().Set("Cache-Control", "no-store")
	_, _ = x.Writer.Write(append(body, '\n')) // the reader may be gone
	return nil
}

// WriteEvents answers with an event stream that send fills. It returns the error
// of send, which has shown it.
func (x *Exchange) WriteEvents(send func(*sse.Writer) error) error {
	closed, err := x.OpenStream()
	if err != nil {
		return err
	}
	defer closed()
	out := sse.NewWriter(x.Writer, x.WriteWait)
	x.begun = true
	if !out.Begin(0) {
		return nil
	}
	return send(out)
}

// Stream watches a turn for the reader of an event stream. The end is shown when
// done is closed, so that the next request finds the turn saved; nil: somebody
// else began it.
func (x *Exchange) Stream(t Turn, out *sse.Writer, done <-chan error, show func(Step) bool) error {
	ctx := x.Request.Context()
	return x.Watch(ctx, t, func(s Step) bool {
		if s.End {
			AwaitSaved(ctx, done)
		}
		return show(s)
	}, out.Beat)
}

// SetProblemHeader sets what the responses to all requests that fail have.
func SetProblemHeader(h http.Header, p *problem.Problem, contentType string) {
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="holdfast"`)
	}
}
