package trace_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/trace"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

const review = `
version: 0
name: review
runtime: {provider: offline, failure_policy: {retries: 0}}
agents:
  writer: {prompt: "Write."}
  critic: {prompt: "Judge."}
pattern:
  type: chain
  config:
    steps:
      - {agent: writer, input: "the secret topic"}
      - {agent: critic, input: "{{steps[0].response}}"}
`

// failsSecond is a model that gives no second answer.
type failsSecond struct{ asked atomic.Int64 }

func (m *failsSecond) Infer(context.Context, llm.Request, func(llm.Delta)) (llm.Response, error) {
	if m.asked.Add(1) == 2 {
		return llm.Response{}, errors.New("the secret reason")
	}
	return llm.Response{Content: session.Text("a secret draft"), FinishReason: "stop", Usage: session.Usage{Input: 3, Output: 2}}, nil
}

func hostOf(m llm.Model) workflow.Host {
	return workflow.Host{Env: spec.Env{Providers: []string{"offline"}}, Models: func(spec.Model) (string, llm.Model, error) { return "acme/m", m, nil }}
}

func reviewSpec(t *testing.T) *spec.Spec {
	t.Helper()
	parsed, err := spec.Loader{}.Parse(spec.Source{Path: "/review.yaml", Data: []byte(review)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// endsSecond ends its run in the middle of the second answer.
type endsSecond struct {
	failsSecond
	end context.CancelFunc
}

func (m *endsSecond) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	response, err := m.failsSecond.Infer(ctx, r, emit)
	if err != nil {
		m.end()
		<-ctx.Done()
	}
	return response, err
}

// A node that takes a run over sends the units of both: it does not know what the
// other has sent. They have the same ids.
func TestExporter_sendsTheSpansOfARunThatAnotherNodeBegan(t *testing.T) {
	t.Parallel()
	shared := inmem.New(inmem.Config{})
	node := func(do func(*holdfast.Runtime)) map[string][]span {
		c := newCollector(t, 0)
		e, err := trace.New(trace.Config{Endpoint: c.URL, Logs: shared})
		if err != nil {
			t.Fatal(err)
		}
		rt, err := holdfast.New(holdfast.Config{Store: shared, Hooks: holdfast.HookStack{}.With(e, 0, "trace")})
		if err != nil {
			t.Fatal(err)
		}
		do(rt)
		if err := errors.Join(rt.Close(), e.Close()); err != nil {
			t.Fatal(err)
		}
		return c.runSpans(t)
	}
	var id string
	before := node(func(rt *holdfast.Runtime) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		res, err := workflow.Start(ctx, rt, reviewSpec(t), workflow.RunOptions{Host: hostOf(&endsSecond{end: end})})
		if err == nil {
			t.Fatalf("the run was not broken off: %+v", res)
		}
		id = res.SessionID
	})
	after := node(func(rt *holdfast.Runtime) {
		if _, err := workflow.Resume(t.Context(), rt, id, workflow.ResumeOptions{Host: hostOf(&failsSecond{})}); err != nil {
			t.Fatal(err)
		}
	})
	run, writer, critic := after["invoke_workflow review"], after["invoke_agent writer"], after["invoke_agent critic"]
	if len(run) != 1 || len(writer) != 1 || len(critic) != 1 || len(after["chat m"]) != 2 {
		t.Fatalf("%d runs, %d and %d units, %d answers", len(run), len(writer), len(critic), len(after["chat m"]))
	}
	if sent := before["invoke_agent writer"]; len(sent) != 1 || sent[0].SpanID != writer[0].SpanID {
		t.Errorf("the first node sent %+v", sent)
	}
	if writer[0].ParentSpanID != run[0].SpanID || critic[0].Status.Code != 0 || run[0].attribute("holdfast.workflow.status") != "completed" {
		t.Errorf("%+v\n%+v\n%+v", run, writer, critic)
	}
}

// A run has a span, and each unit that ended: once, also when the run failed
// first and was resumed.
func TestExporter_sendsTheSpansOfAWorkflowRun(t *testing.T) {
	t.Parallel()
	c := newCollector(t, 0)
	e, err := trace.New(trace.Config{Endpoint: c.URL})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := holdfast.New(holdfast.Config{Store: inmem.New(inmem.Config{}), Hooks: holdfast.HookStack{}.With(e, 0, "trace")})
	if err != nil {
		t.Fatal(err)
	}
	host := hostOf(&failsSecond{})
	first, err := workflow.Start(t.Context(), rt, reviewSpec(t), workflow.RunOptions{Host: host})
	if err == nil {
		t.Fatalf("the run did not fail: %+v", first)
	}
	if _, err := workflow.Resume(t.Context(), rt, first.SessionID, workflow.ResumeOptions{Host: host}); err != nil {
		t.Fatal(err)
	}
	whole, err := rt.Get(t.Context(), first.SessionID, holdfast.Whole())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rt.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	got := c.runSpans(t)
	run, writer, critic := got["invoke_workflow review"], got["invoke_agent writer"], got["invoke_agent critic"]
	if len(run) == 0 || len(writer) != 1 || len(critic) != 2 || len(got["chat m"]) != 2 {
		t.Fatalf("%d runs, %d and %d units, %d answers", len(run), len(writer), len(critic), len(got["chat m"]))
	}
	last := run[len(run)-1]
	if last.Status.Code != 0 || last.attribute("holdfast.workflow.status") != "completed" || last.attribute("gen_ai.conversation.id") != first.SessionID {
		t.Errorf("%+v", last)
	}
	if critic[0].Status.Code != 2 || critic[1].Status.Code != 0 {
		t.Errorf("%+v", critic)
	}
	for _, s := range append(writer, critic...) {
		if s.ParentSpanID != last.SpanID || s.TraceID != last.TraceID || s.StartTimeUnixNano > s.EndTimeUnixNano {
			t.Errorf("%+v is not below the run", s)
		}
	}
	if a := got["chat m"][0]; a.ParentSpanID != writer[0].SpanID || a.attribute("gen_ai.usage.input_tokens") != "3" || writer[0].attribute("holdfast.unit") != "step/0" {
		t.Errorf("%+v", a)
	}
	// Any run can be turned into spans later, with the same ids.
	again := map[string]bool{}
	for _, s := range trace.Spans(whole) {
		again[s.ID] = true
	}
	if !again[last.SpanID] || !again[writer[0].SpanID] || !again[critic[1].SpanID] {
		t.Errorf("%v", again)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(strings.Join(c.bodies, ""), "secret") {
		t.Error("the text of a message was sent")
	}
}
