package server

import (
	"cmp"
	"fmt"
	"net/http"
	"time"

	counters "github.com/VictoriaMetrics/metrics"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
)

// metrics counts what this node does. Names of sessions, users and tenants are
// not among the labels: their number has no limit.
type metrics struct{ set *counters.Set }

func newMetrics() *metrics { return &metrics{set: counters.NewSet()} }

// event counts what happens in a session, of whichever tenant.
func (m *metrics) event(e holdfast.Event) {
	count := func(name string) { m.set.GetOrCreateCounter(name).Inc() }
	switch e := e.(type) {
	case holdfast.ExecutionStarted:
		count("holdfast_executions_started_total")
	case holdfast.ExecutionFinished:
		count(fmt.Sprintf("holdfast_executions_finished_total{status=%q}", e.Status))
	case holdfast.StepFinished:
		count(fmt.Sprintf("holdfast_steps_total{model=%q}", e.Model))
		for kind, n := range map[string]int64{"input": e.Usage.Input, "output": e.Usage.Output, "cache_read": e.Usage.CacheRead, "cache_write": e.Usage.CacheWrite} {
			m.set.GetOrCreateCounter(fmt.Sprintf("holdfast_tokens_total{model=%q,kind=%q}", e.Model, kind)).AddInt64(n)
		}
		m.set.GetOrCreateFloatCounter(fmt.Sprintf("holdfast_cost_dollars_total{model=%q}", e.Model)).Add(e.Cost.Dollars())
	case holdfast.ToolFinished:
		count(fmt.Sprintf("holdfast_tool_calls_total{error=%q}", fmt.Sprint(e.IsError)))
	case holdfast.AttemptFailed:
		count("holdfast_model_failures_total")
	case holdfast.SessionSaved:
		count("holdfast_saves_total")
	case holdfast.SessionSaveFailed:
		count("holdfast_save_failures_total")
	}
}

// request counts a request by the pattern of its route, never by its path.
func (m *metrics) request(route string, status int, took time.Duration) {
	route = cmp.Or(route, "none")
	m.set.GetOrCreateCounter(fmt.Sprintf("holdfast_requests_total{route=%q,status=\"%d\"}", route, status)).Inc()
	m.set.GetOrCreatePrometheusHistogram(fmt.Sprintf("holdfast_request_seconds{route=%q}", route)).Update(took.Seconds())
}

// writeMetrics writes the numbers of this node as Prometheus reads them.
func (s *Server) writeMetrics(w http.ResponseWriter, r *http.Request) {
	if err := callerOf(r.Context()).Permit(apikey.Metrics); err != nil {
		writeProblem(w, problem.Of(err))
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	fmt.Fprintf(w, "holdfast_streams_open %d\n", s.limits.openStreams())
	draining := 0
	if s.drains() {
		draining = 1
	}
	fmt.Fprintf(w, "holdfast_node_draining %d\n", draining)
	s.writeWork(r.Context(), w)
	s.metrics.set.WritePrometheus(w)
	counters.WriteProcessMetrics(w)
}
