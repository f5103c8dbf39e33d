package workflow_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// actor is a model that answers by a function and remembers what it was asked.
type actor struct {
	mu     sync.Mutex
	asked  []llm.Request
	answer func(r llm.Request) (llm.Response, error)
}

func (a *actor) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	a.mu.Lock()
	a.asked = append(a.asked, r)
	a.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return llm.Response{}, err
	}
	return a.answer(r)
}

// inputs are the last messages of all requests.
func (a *actor) inputs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]string, len(a.asked))
	for i, r := range a.asked {
		list[i] = r.Messages[len(r.Messages)-1].Content.Text()
	}
	return list
}

func said(text string) llm.Response {
	return llm.Response{Content: session.Text(text), FinishReason: "stop", Usage: session.Usage{Input: 10, Output: 5}}
}

// echo answers with what it was asked.
func echo(r llm.Request) (llm.Response, error) {
	return said("re: " + r.Messages[len(r.Messages)-1].Content.Text()), nil
}

func host(a *actor) workflow.Host {
	return workflow.Host{
		Models: func(m spec.Model) (string, llm.Model, error) { return m.Provider + "/" + m.ModelID, a, nil },
		Env:    spec.Env{Providers: []string{"scripted"}},
	}
}

func runtime(t *testing.T, st store.Store) *holdfast.Runtime {
	t.Helper()
	rt, err := holdfast.New(holdfast.Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// written is a spec in a file.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, text string, vars spec.Map[string]) *spec.Spec {
	t.Helper()
	s, err := workflow.Load(written(t, text), vars)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const chainSpec = `
version: 1
name: Tea letter
runtime: {provider: scripted, model_id: m, failure_policy: {wait_min: 0, wait_max: 0}}
inputs: {required: {topic: string}}
agents:
  writer: {prompt: Write.}
  critic: {prompt: Judge.}
pattern:
  type: chain
  config:
    steps:
      - {agent: writer, input: "About {{ topic }}"}
      - {type: hitl, prompt: "Is {{ steps[0].response }} good?"}
      - {agent: critic, input: "{{ hitl_response }} / {{ steps[0].response }}"}
      - {agent: writer, input: "{{ steps[2].response }}"}
outputs:
  artifacts:
    - {path: "{{ topic }}/letter.md", from: "{{ last_response }}"}
`

func TestChain_pausesForAPersonAndGoesOn(t *testing.T) {
	t.Parallel()
	a := &actor{answer: echo}
	rt := runtime(t, inmem.New(inmem.Config{}))
	out := t.TempDir()
	vars := spec.Map[string]{{Name: "topic", Value: "tea"}}
	res, err := workflow.Start(t.Context(), rt, load(t, chainSpec, vars), workflow.RunOptions{Host: host(a), Vars: vars, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if res.Status != workflow.StatusPaused || res.Question == nil || res.Question.Prompt != "Is re: About tea good?" {
		t.Fatalf("the run is %+v", res)
	}
	yes := "yes"
	res, err = workflow.Resume(t.Context(), rt, res.SessionID, workflow.ResumeOptions{Host: host(a), Answer: &yes, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	want := "re: re: yes / re: About tea"
	if res.Status != workflow.StatusCompleted || res.LastResponse != want {
		t.Errorf("the run ended as %+v", res)
	}
	data, err := os.ReadFile(filepath.Join(out, "tea", "letter.md"))
	if err != nil || string(data) != want {
		t.Errorf("the artifact holds %q (%v)", data, err)
	}
	if got := strings.Join(a.inputs(), "|"); got != "About tea|yes / re: About tea|re: yes / re: About tea" {
		t.Errorf("the models were asked %s", got)
	}
	last := a.asked[2]
	if len(last.Messages) != 3 || !strings.HasPrefix(last.System, "Write.") {
		t.Errorf("the writer was shown %d messages and told %q", len(last.Messages), last.System)
	}
	s, err := rt.Get(t.Context(), res.SessionID, holdfast.Whole(), holdfast.WithTail())
	if err != nil {
		t.Fatal(err)
	}
	st, err := workflow.Project(s)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := st.Pattern.MarshalJSON()
	if err != nil || st.Metadata.Status != workflow.StatusCompleted || st.Usage.ByAgent["writer"] != 30 {
		t.Errorf("the state is %+v, %s (%v)", st, raw, err)
	}
	t.Logf("%s", raw)
}
