package trace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	mostQueued  = 1000 // executions
	mostBatched = 512  // spans
	batchFor    = time.Second
	tries       = 4
	sendWait    = 10 * time.Second
	closeWait   = 5 * time.Second
	recent      = time.Minute // how long after its end an execution may be saved
	mostSeen    = 10_000
)

// Config says where spans go. Endpoint is required.
type Config struct {
	Endpoint string            // of the collector, such as http://localhost:4318; /v1/traces is added where there is no path
	Headers  map[string]string // of each request, for a collector that wants a key
	Service  string            // the service's name; "": holdfast
	Version  string            // of the service
	HTTP     *http.Client      // nil: one with a time limit
	Logger   *slog.Logger      // nil: silent
	Logs     store.Logs        // where the units of a run are read that another process finished; nil: they have no span
}

// Exporter sends the spans of executions when they are saved. It is a
// holdfast.Hook and refuses nothing: spans that cannot be sent are dropped with a
// warning.
type Exporter struct {
	c     Config
	url   string
	queue chan []Span
	done  chan struct{}
	life  context.Context //nolint:containedctx // of the exporter
	stop  context.CancelFunc

	mu   sync.Mutex
	seen map[string]bool  // executions that were queued; guarded by mu
	runs map[string]int64 // the last change of workflow runs when they were queued; guarded by mu
}

// New checks the configuration and begins to send. The caller closes it.
func New(c Config) (*Exporter, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &session.InvalidError{Field: "Endpoint", Reason: fmt.Sprintf("%q is not an address such as http://localhost:4318", c.Endpoint)}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	c.Service, c.Logger = cmp.Or(c.Service, "holdfast"), cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.HTTP == nil {
		c.HTTP = &http.Client{Timeout: sendWait}
	}
	e := &Exporter{c: c, url: u.String(), queue: make(chan []Span, mostQueued), done: make(chan struct{}), seen: map[string]bool{}, runs: map[string]int64{}}
	e.life, e.stop = context.WithCancel(context.Background())
	go e.run()
	return e, nil
}

// OnStage queues the spans of an execution that has just ended.
func (e *Exporter) OnStage(ctx context.Context, stage session.Stage, s session.Session) (session.Session, error) {
	if stage != session.AfterSave {
		return s, nil
	}
	if s.Info().Kind == session.KindWorkflow {
		e.queueRun(ctx, s)
		return s, nil
	}
	x := s.Execution()
	if x == nil || x.CompletedAt == nil || s.Info().UpdatedAt.Sub(*x.CompletedAt) > recent || !e.first(s.Tenant()+"/"+s.ID()+"/"+x.ID+"/"+string(x.Status)) {
		return s, nil
	}
	e.enqueue(s.ID(), Spans(s))
	return s, nil
}

func (e *Exporter) enqueue(id string, spans []Span) {
	select {
	case e.queue <- spans:
	default:
		e.c.Logger.Warn("spans were dropped: the collector is too slow", "session", id)
	}
}

// queueRun queues the spans of a workflow run that has come to rest: of the
// units since its last rest, because reading them costs as much as there are.
func (e *Exporter) queueRun(ctx context.Context, s session.Session) {
	info := s.Info()
	if info.Workflow == nil || info.Workflow.Status == "running" {
		return
	}
	name := info.Tenant + "/" + info.ID
	e.mu.Lock()
	after, known := e.runs[name]
	if len(e.runs) >= mostSeen {
		clear(e.runs)
	}
	e.runs[name] = info.Seq
	e.mu.Unlock()
	if !known && e.c.Logs != nil {
		whole, err := store.Whole(ctx, e.c.Logs, s)
		if err != nil {
			e.c.Logger.Warn("spans were dropped: the run cannot be read", "session", info.ID, "err", err)
		}
		s = whole
	}
	if spans := workflowSpans(s, after); len(spans) > 0 && after < info.Seq {
		e.enqueue(info.ID, spans)
	}
}

// first reports whether an execution was not queued before.
func (e *Exporter) first(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen[name] {
		return false
	}
	if len(e.seen) >= mostSeen {
		clear(e.seen)
	}
	e.seen[name] = true
	return true
}

// Close sends what is queued, for at most five seconds.
func (e *Exporter) Close() error {
	close(e.queue)
	select {
	case <-e.done:
	case <-time.After(closeWait):
		e.stop()
		<-e.done
	}
	e.stop()
	return nil
}

// run sends spans in batches until the exporter is closed.
func (e *Exporter) run() {
	defer close(e.done)
	var batch []Span
	flush := time.NewTicker(batchFor)
	defer flush.Stop()
	for {
		select {
		case spans, open := <-e.queue:
			batch = append(batch, spans...)
			if open && len(batch) < mostBatched {
				continue
			}
			batch = e.send(e.life, batch)
			if !open {
				return
			}
		case <-flush.C:
			batch = e.send(e.life, batch)
		}
	}
}

// send sends a batch, again if the collector asks for it, and returns an empty
// one.
func (e *Exporter) send(ctx context.Context, batch []Span) []Span {
	if len(batch) == 0 {
		return batch
	}
	body, err := json.Marshal(e.request(batch))
	for try := 1; err == nil && try <= tries; try++ {
		var again bool
		if again, err = e.post(ctx, body); err == nil || !again || try == tries {
			break
		}
		select {
		case <-time.After(time.Duration(try) * 250 * time.Millisecond):
			err = nil
		case <-ctx.Done():
		}
	}
	if err != nil {
		e.c.Logger.Warn("spans were not taken by the collector and are dropped", "spans", len(batch), "error", err)
	}
	return batch[:0]
}

// post sends a request once. Again says that another try may help.
func (e *Exporter) post(ctx context.Context, body []byte) (again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	for name, value := range e.c.Headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := e.c.HTTP.Do(r)
	if err != nil {
		return true, err
	}
	defer res.Body.Close() //nolint:errcheck // nothing was written
	if res.StatusCode/100 == 2 {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
		return false, nil
	}
	again = res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusBadGateway ||
		res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusGatewayTimeout
	return again, fmt.Errorf("the collector answered %s", res.Status)
}

// The types of OTLP's JSON that are used.
type (
	otlpRequest struct {
		ResourceSpans []otlpResource `json:"resourceSpans"`
	}
	otlpResource struct {
		Resource   otlpAttributes `json:"resource"`
		ScopeSpans []otlpScope    `json:"scopeSpans"`
	}
	otlpAttributes struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScope struct {
		Scope struct {
			Name    string `json:"name"`
			Version string `json:"version,omitempty"`
		} `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		ParentID   string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []otlpAttribute `json:"attributes"`
		Status     otlpStatus      `json:"status"`
	}
	otlpStatus struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String *string  `json:"stringValue,omitempty"`
		Int    *string  `json:"intValue,omitempty"` // a 64-bit number is a string in this JSON
		Double *float64 `json:"doubleValue,omitempty"`
		Bool   *bool    `json:"boolValue,omitempty"`
	}
)

const (
	kindInternal = 1
	statusError  = 2
)

// request returns a batch as a collector reads it.
func (e *Exporter) request(batch []Span) otlpRequest {
	var scope otlpScope
	scope.Scope.Name, scope.Scope.Version = "holdfast", e.c.Version
	for _, s := range batch {
		out := otlpSpan{
			TraceID: s.TraceID, SpanID: s.ID, ParentID: s.ParentID, Name: s.Name, Kind: kindInternal,
			Start: strconv.FormatInt(s.Start.UnixNano(), 10), End: strconv.FormatInt(s.End.UnixNano(), 10), Attributes: attributes(s.Attributes),
		}
		if s.Error != "" {
			out.Status = otlpStatus{statusError, s.Error}
			out.Attributes = append(out.Attributes, attributes([]Attribute{{"error.type", s.Error}})...)
		}
		scope.Spans = append(scope.Spans, out)
	}
	service := []Attribute{{"service.name", e.c.Service}, {"service.version", e.c.Version}}
	return otlpRequest{[]otlpResource{{otlpAttributes{attributes(service)}, []otlpScope{scope}}}}
}

func attributes(list []Attribute) []otlpAttribute {
	out := []otlpAttribute{}
	for _, a := range list {
		var v otlpValue
		switch value := a.Value.(type) {
		case string:
			v.String = &value
		case int64:
			text := strconv.FormatInt(value, 10)
			v.Int = &text
		case float64:
			v.Double = &value
		case bool:
			v.Bool = &value
		default:
			text := fmt.Sprint(value)
			v.String = &text
		}
		out = append(out, otlpAttribute{a.Key, v})
	}
	return out
}
