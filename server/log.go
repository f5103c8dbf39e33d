package server

import (
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/problem"
)

// logged writes a line per request, without anything that a user said, and
// answers for handlers that panic.
func (s *Server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		seen := &statusRecorder{ResponseWriter: w, prefix: s.config.Prefix}
		defer func() { //nolint:contextcheck // problems are written without one
			if v := recover(); v != nil {
				if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it in this way
					panic(v)
				}
				s.log.ErrorContext(r.Context(), "handler panicked", "panic", v, "stack", string(debug.Stack()))
				if seen.status == 0 {
					s.writeProblem(seen, r, problem.New(http.StatusInternalServerError, "panic", "the server failed; it wrote the cause to its log"))
				}
			}
			s.metrics.request(seen.route, seen.status, time.Since(begun))
			s.log.InfoContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "status", seen.status, "tookMs", time.Since(begun).Milliseconds())
		}()
		next.ServeHTTP(seen, r)
	})
}

// recordRoute remembers which route the request took.
func recordRoute(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if seen, ok := w.(*statusRecorder); ok {
				seen.route = r.Pattern
			}
		}()
		mux.ServeHTTP(w, r)
	})
}

// statusRecorder remembers the status of a response, and the pattern of its
// route. It adds the prefix of the server to paths in Location.
type statusRecorder struct {
	http.ResponseWriter
	prefix string
	status int
	route  string
}

// WriteHeader remembers the status.
func (w *statusRecorder) WriteHeader(status int) {
	if to := w.Header().Get("Location"); w.prefix != "" && w.status == 0 && strings.HasPrefix(to, "/") {
		w.Header().Set("Location", w.prefix+to)
	}
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends part of a body; the status is 200 if none was set.
func (w *statusRecorder) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController reach what is below.
func (w *statusRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
