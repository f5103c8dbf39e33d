package trace_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/trace"
)

// collector is a server that takes spans, after it has refused some requests.
type collector struct {
	*httptest.Server

	mu     sync.Mutex
	refuse int
	bodies []string
	header http.Header
}

func newCollector(t *testing.T, refuse int) *collector {
	t.Helper()
	c := &collector{refuse: refuse}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil || c.refuse > 0 {
			c.refuse--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		c.bodies, c.header = append(c.bodies, r.URL.Path+" "+string(body)), r.Header
	}))
	t.Cleanup(c.Close)
	return c
}

// span is a span as it was received.
type span struct {
	TraceID, SpanID, ParentSpanID, Name, StartTimeUnixNano, EndTimeUnixNano string
	Attributes                                                              []struct {
		Key   string
		Value map[string]any
	}
	Status struct{ Code int }
}

func (s span) attribute(key string) any {
	for _, a := range s.Attributes {
		if a.Key == key {
			for _, v := range a.Value {
				return v
			}
		}
	}
	return nil
}

// spans returns what was received, by name. Nothing was sent twice.
func (c *collector) spans(t *testing.T) map[string]span {
	t.Helper()
	all, ids := map[string]span{}, map[string]bool{}
	for name, list := range c.runSpans(t) {
		for _, s := range list {
			if ids[s.SpanID] {
				t.Errorf("%s was sent twice", s.Name)
			}
			ids[s.SpanID], all[name] = true, s
		}
	}
	return all
}

// runSpans returns everything that was received, by name and in order.
func (c *collector) runSpans(t *testing.T) map[string][]span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string][]span{}
	for _, body := range c.bodies {
		path, text, _ := strings.Cut(body, " ")
		if path != "/v1/traces" {
			t.Errorf("spans were sent to %s", path)
		}
		var got struct {
			ResourceSpans []struct {
				ScopeSpans []struct{ Spans []span }
			}
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		for _, r := range got.ResourceSpans {
			for _, scope := range r.ScopeSpans {
				for _, s := range scope.Spans {
					all[s.Name] = append(all[s.Name], s)
				}
			}
		}
	}
	return all
}

type lookup struct{}

func (lookup) Spec() tool.Spec {
	return tool.Spec{Name: "lookup", Description: "Looks up.", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (lookup) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Content: "the secret answer"}, nil
}

// run executes one turn with a tool call and returns after all spans were sent.
func run(t *testing.T, c *collector, parent string, replies ...scripted.Reply) {
	t.Helper()
	e, err := trace.New(trace.Config{Endpoint: c.URL, Headers: map[string]string{"X-Key": "k"}, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.NewSet(lookup{})
	if err != nil {
		t.Fatal(err)
	}
	retries := 0
	rt, err := holdfast.New(holdfast.Config{
		Store: inmem.New(inmem.Config{}), Models: llm.Map{"acme/m": scripted.New(replies...)}, DefaultModel: "acme/m", Tools: tools,
		Hooks: holdfast.HookStack{}.With(e, 0, "trace"), ModelRetries: &retries,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Create(t.Context(), session.Definition{Name: "finder", Tools: []string{"lookup"}}, holdfast.WithID("s")); err != nil {
		t.Fatal(err)
	}
	_, err = rt.Execute(llm.WithTraceparent(t.Context(), parent), "s", holdfast.SendMessage{Text: "the secret question"})
	if err != nil && !errors.Is(err, session.ErrExecutionFailed) {
		t.Fatal(err)
	}
	// A later save sends nothing again.
	if _, err := rt.Execute(t.Context(), "s", holdfast.WriteMetadata{Key: "k", Value: 1}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rt.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestExporter_sendsTheSpansOfAnExecution(t *testing.T) {
	t.Parallel()
	c := newCollector(t, 1)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	run(t, c, parent,
		scripted.Reply{ToolCalls: []session.ToolCall{{ID: "1", Name: "lookup", Arguments: json.RawMessage(`{}`)}}, Usage: session.Usage{Input: 3, Output: 2}},
		scripted.Reply{Text: "done"})
	got := c.spans(t)
	root, answer, call := got["invoke_agent finder"], got["chat m"], got["execute_tool lookup"]
	if root.TraceID != "0af7651916cd43dd8448eb211c80319c" || root.ParentSpanID != "b7ad6b7169203331" {
		t.Errorf("the execution is in trace %s below %s", root.TraceID, root.ParentSpanID)
	}
	for _, s := range []span{answer, call} {
		if s.TraceID != root.TraceID || s.ParentSpanID != root.SpanID || s.StartTimeUnixNano > s.EndTimeUnixNano {
			t.Errorf("%+v is not below the execution", s)
		}
	}
	if answer.attribute("gen_ai.provider.name") != "acme" || answer.attribute("gen_ai.request.model") != "m" || root.attribute("gen_ai.conversation.id") != "s" ||
		root.attribute("gen_ai.usage.input_tokens") != "3" {
		t.Errorf("attributes: %+v, %+v", root, answer)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(strings.Join(c.bodies, ""), "secret") {
		t.Error("the text of a message was sent")
	}
	if c.header.Get("X-Key") != "k" {
		t.Error("the header is missing")
	}
}

func TestExporter_marksWhatFailed(t *testing.T) {
	t.Parallel()
	c := newCollector(t, 0)
	run(t, c, "no traceparent", scripted.Reply{Err: errors.New("the secret reason")})
	got := c.spans(t)
	if root := got["invoke_agent finder"]; root.Status.Code != 2 || root.ParentSpanID != "" || len(root.TraceID) != 32 || len(root.SpanID) != 16 {
		t.Errorf("%+v", root)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(strings.Join(c.bodies, ""), "secret") {
		t.Error("the text of an error was sent")
	}
}

// A collector that is away holds nothing up, and Close returns.
func TestExporter_withoutACollector(t *testing.T) {
	t.Parallel()
	c := newCollector(t, 0)
	c.Close()
	began := time.Now()
	run(t, c, "", scripted.Reply{Text: "done"})
	if time.Since(began) > time.Minute {
		t.Error("it was waited for")
	}
}

func TestNew_refusesAnEndpointThatIsNone(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"", "collector", "ftp://collector"} {
		if _, err := trace.New(trace.Config{Endpoint: endpoint}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
