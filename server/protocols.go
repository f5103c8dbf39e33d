package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/protocol/agui"
	"github.com/holdfast-dev/holdfast/protocol/aisdk"
	"github.com/holdfast-dev/holdfast/protocol/openai"
	"github.com/holdfast-dev/holdfast/session"
)

// protocols are the ways of other programs that this server knows. They have the
// keys, tenants and limits of the API.
func protocols() []protocol.Protocol {
	return []protocol.Protocol{openai.New(), aisdk.Protocol{}, agui.Protocol{}}
}

func (s *Server) addProtocols(mux *http.ServeMux) {
	s.protocols = protocols()
	for _, p := range s.protocols {
		for _, route := range p.Routes() {
			mux.Handle(route.Pattern, s.withBody(route.Handler(p, host{s})))
		}
		mux.HandleFunc(p.Prefix(), func(w http.ResponseWriter, r *http.Request) {
			p.WriteProblem(w, problem.New(http.StatusNotFound, problem.CodeNoRoute, "there is no "+r.Method+" "+r.URL.Path+" here"))
		})
	}
}

// withBody reads the body of a request before next sees it, within the limits
// that the routes of the API have.
func (s *Server) withBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deadline := http.NewResponseController(w)
		_ = deadline.SetReadDeadline(time.Now().Add(s.config.BodyWait)) // a request of this process cannot be slow
		body, err := io.ReadAll(r.Body)
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large) || int64(len(body)) > s.config.MaxBody:
			s.writeProblem(w, r, statusProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", s.config.MaxBody)))
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.writeProblem(w, r, statusProblem(http.StatusRequestTimeout, "request body read timeout"))
			return
		case err != nil:
			return // the client is gone
		}
		_ = deadline.SetReadDeadline(time.Time{}) // of the connection: its end is how the server learns that the client goes away
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// writeProblem writes a problem as the caller of a path reads it.
func (s *Server) writeProblem(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	for _, other := range s.protocols {
		if strings.HasPrefix(r.URL.Path, other.Prefix()) {
			other.WriteProblem(w, p)
			return
		}
	}
	writeProblem(w, p)
}

// host is the server as protocols see it.
type host struct{ s *Server }

func (h host) Agents() []string {
	if h.s.config.Agents == nil {
		return nil
	}
	return h.s.config.Agents.Names()
}

func (h host) Agent(name string) (session.Definition, error) { return h.s.definition(name, nil) }

func (h host) Problem(ctx context.Context, err error) *problem.Problem {
	return h.s.problemOf(ctx, err)
}

func (h host) Models() []string {
	if h.s.config.Models == nil {
		return nil
	}
	return h.s.config.Models()
}

func (h host) Call(r *http.Request) *protocol.Call {
	s, c := h.s, callerOf(r.Context())
	return &protocol.Call{
		Key: c.Key, Runtime: c.rt, Now: s.config.Now, Drain: s.drain, Heartbeat: s.config.Heartbeat, WriteWait: s.config.WriteWait,
		OpenStream: func() (func(), error) { return s.openStream(c) },
		Begin: func(ctx context.Context, id string, queued bool, fn func(context.Context) error) (<-chan error, error) {
			if s.draining.Load() {
				return nil, session.ErrClosed
			}
			p := s.work.attended()
			if queued {
				var err error
				if p, err = s.work.reserve(); err != nil {
					return nil, err
				}
			}
			return p.start(ctx, c.rt, id, fn)
		},
		Follow: func(ctx context.Context, id string, after int64) <-chan protocol.Update {
			out := make(chan protocol.Update)
			go func() {
				defer close(out)
				for u := range s.updates(ctx, r, c, id, after, after) {
					select {
					case out <- protocol.Update{Update: u.Update, Err: u.err}:
					case <-ctx.Done():
					}
				}
			}()
			return out
		},
	}
}
