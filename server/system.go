package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// readyWait is how long the store may take to answer before a node counts as
// not ready.
const readyWait = time.Second

func (s *Server) addSystem(mux *http.ServeMux) {
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-info", Method: http.MethodGet, Path: "/v1/system/info",
		Summary: "Read what this node is, and who the caller is to it", Tags: []string{"system"},
	}, s.info)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.api.OpenAPI())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if s.config.Page != nil && isPage(r) {
			s.config.Page.ServeHTTP(w, r)
			return
		}
		writeProblem(w, problem.New(http.StatusNotFound, problem.CodeNoRoute, "there is no "+r.Method+" "+quoteShort(r.URL.Path)+"; see /openapi.json"))
	})
}

type infoOutput struct {
	Body struct {
		Version  string         `json:"version"`
		Node     string         `json:"node,omitempty" doc:"The id of this node"`
		Draining bool           `json:"draining"`
		Tenant   string         `json:"tenant"`
		UserID   string         `json:"userId,omitempty"`
		Key      string         `json:"key" doc:"The id of the key that the request has shown"`
		Scopes   []apikey.Scope `json:"scopes"`
	}
}

func (s *Server) info(_ context.Context, c caller, _ *nothing) (*infoOutput, error) {
	out := &infoOutput{}
	out.Body.Version, out.Body.Draining = s.config.Version, s.drains()
	if s.config.Node != nil {
		out.Body.Node = s.config.Node.ID
	}
	out.Body.Tenant, out.Body.UserID, out.Body.Key, out.Body.Scopes = c.Tenant, c.UserID, c.ID, c.Scopes
	return out, nil
}

// ready says whether this node should get requests: its store answers and it
// is not about to end.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.drains() {
		writeProblem(w, problem.Of(session.ErrClosed))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyWait)
	defer cancel()
	if _, err := s.rt.List(ctx, store.Query{Limit: 1}); err != nil {
		p := problem.Of(err)
		p.Status, p.RetryAfter = http.StatusServiceUnavailable, 1
		writeProblem(w, p)
		return
	}
	writeText(w, http.StatusOK, "ready\n")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // the reader may be gone
}
