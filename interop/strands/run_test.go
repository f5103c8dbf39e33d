package strands_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// actor is a model whose answers depend on nothing but what it is asked, and
// that remembers what it was asked.
type actor struct {
	dir string // where relative paths of notes lie

	mu    sync.Mutex
	asked []string
	fail  string // an input that is not answered
}

func (a *actor) Infer(ctx context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	last := r.Messages[len(r.Messages)-1]
	text := last.Content.Text()
	if last.ToolResult != nil {
		text = "result " + last.ToolResult.Content
	}
	a.mu.Lock()
	a.asked = append(a.asked, fmt.Sprintf("%.5s|%d|%s", r.System, len(r.Messages), text))
	a.mu.Unlock()
	if a.fail != "" && strings.Contains(text, a.fail) {
		return llm.Response{}, fmt.Errorf("no answer to %q", text)
	}
	answer := llm.Response{FinishReason: "stop", Usage: session.Usage{Input: 10, Output: 5}}
	job, _, _ := strings.Cut(r.System, ".")
	var said string
	switch {
	case job == "Route" && len(r.Messages) == 1:
		said = "let me think"
	case job == "Route":
		said = `{"route": "deep"}`
	case job == "Judge" && len(r.Messages) == 1:
		said = "nice"
	case job == "Judge":
		score := 40
		if strings.Contains(text, "draft 3") {
			score = 95
		}
		said = fmt.Sprintf(`{"score": %d, "issues": ["dull"], "fixes": ["wake up"]}`, score)
	case job == "Make":
		said = fmt.Sprintf("draft %d", len(r.Messages)/2+1)
	case job == "Plan":
		said = `[{"task": "one"}, "two", {"task": "three", "why": "ü"}]`
	case job == "Tool" && last.ToolResult == nil:
		said = "I look"
		answer.ToolCalls = []session.ToolCall{{ID: "c-" + text, Name: "look", Arguments: json.RawMessage(`{"at":"` + text + `"}`)}}
	default:
		said = fmt.Sprintf("<%s: %s>", strings.ToLower(job), text)
	}
	answer.Content = session.Text(said)
	return answer, nil
}

func (a *actor) calls() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := slices.Clone(a.asked)
	slices.Sort(list)
	return list
}

// box has one tool, that says what it was asked to look at.
type box struct{}

func (box) For([]string, bool, func(string) bool) ([]tool.Tool, error) {
	look, err := tool.Func(tool.Spec{Name: "look", Description: "looks"}, func(_ context.Context, in struct {
		At string `json:"at"`
	}) (string, error) {
		return "seen " + in.At, nil
	})
	return []tool.Tool{look}, err
}

func (box) Close() error { return nil }

func host(a *actor) workflow.Host {
	return workflow.Host{
		Models: func(m spec.Model) (string, llm.Model, error) { return "scripted/m", a, nil },
		Env:    spec.Env{Providers: []string{"scripted", "openai"}},
		Tools:  func(context.Context, *spec.Spec, *spec.Snapshot) (workflow.Toolbox, error) { return box{}, nil },

		WorkDir: a.dir,
	}
}

func newRuntime(t testing.TB, st store.Store) *holdfast.Runtime {
	t.Helper()
	if st == nil {
		st = inmem.New(inmem.Config{})
	}
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

const preamble = `
version: 1
name: Über tea
runtime: {provider: scripted, model_id: m, failure_policy: {retries: 0, wait_min: 0, wait_max: 0}}
inputs: {required: {topic: string}, values: {size: 3}}
agents:
  a: {prompt: Write.}
  b: {prompt: Check.}
  t: {prompt: Tool.}
  router: {prompt: Route.}
  judge: {prompt: Judge.}
  maker: {prompt: "Make. {{ topic }}"}
  planner: {prompt: Plan.}
outputs: {artifacts: [{path: "out.md", from: "{{ last_response }}"}]}
`

// patterns has every pattern, and every place where a person can be asked.
var patterns = map[string]string{
	"chain": `
pattern: {type: chain, config: {steps: [
  {agent: a, input: "About {{ topic }}"},
  {type: hitl, prompt: "Good? {{ steps[0].response }}", context_display: "see {{ topic }}", default: fine, timeout_seconds: 3600},
  {agent: b, input: "{{ hitl_response }}: {{ steps[0].response }}"},
  {agent: t, input: "look"},
  {agent: a, input: "more {{ steps[3].response }}"},
  {type: hitl, prompt: "Done?"}]}}`,
	"single": `
pattern: {type: chain, config: {steps: [{agent: a, input: "About {{ topic }}"}]}}`,
	"workflow": `
pattern: {type: workflow, config: {tasks: [
  {id: one, agent: a, input: "one"}, {id: two, agent: b, input: "two"}, {id: three, agent: t, input: "three"},
  {id: ok, type: hitl, prompt: "ok? {{ tasks.one.response }}", deps: [one]},
  {id: ok2, type: hitl, prompt: "ok2?", deps: [one]},
  {id: last, agent: a, input: "{{ tasks.ok.response }} {{ tasks.two.response }}", deps: [ok, ok2, two, three]}]}}`,
	"routing": `
pattern: {type: routing, config: {
  router: {agent: router, input: "Where to with {{ topic }}?", review_router: {type: hitl, prompt: "{{ router.chosen_route }}?"}},
  routes: {shallow: {then: [{agent: b, input: x}]}, deep: {then: [
    {agent: a, input: "deep {{ topic }}"}, {type: hitl, prompt: "really?"}, {agent: a, input: "{{ hitl_response }}"}]}}}}`,
	"overruled": `
pattern: {type: routing, config: {
  router: {agent: router, input: "Where to with {{ topic }}?", review_router: {type: hitl, prompt: "not this one?"}},
  routes: {shallow: {then: [{agent: b, input: x}, {agent: a, input: y}]}, deep: {then: [{agent: a, input: z}]}}}}`,
	"parallel": `
pattern: {type: parallel, config: {branches: [
    {id: x, steps: [{agent: a, input: "x1"}, {type: hitl, prompt: "x?"}, {agent: b, input: "{{ hitl_response }}"}]},
    {id: y, steps: [{agent: a, input: "y1"}, {agent: a, input: "y2 {{ last_response }}"}]},
    {id: z, steps: [{agent: t, input: "z1"}, {type: hitl, prompt: "z?"}]}],
  reduce: {agent: a, input: "{{ branches.x.response }} {{ branches.y.response }}"}}}`,
	"parallel asked to reduce": `
pattern: {type: parallel, config: {branches: [
    {id: x, steps: [{agent: a, input: "x1"}]}, {id: y, steps: [{agent: b, input: "y1"}]}],
  reduce: {type: hitl, prompt: "which?"}}}`,
	"evaluator": `
pattern: {type: evaluator_optimizer, config: {producer: maker, evaluator: {agent: judge, input: "Judge {{ draft }}"},
  accept: {min_score: 80, max_iters: 5}, revise_prompt: "again {{ iteration }} {{ hitl_response }}",
  review_gate: {type: hitl, prompt: "go on {{ iteration_index }}?"}}}`,
	"evaluator without a gate": `
pattern: {type: evaluator_optimizer, config: {producer: maker, evaluator: {agent: judge}, accept: {min_score: 80, max_iters: 5}}}`,
	"orchestrator": `
pattern: {type: orchestrator_workers, config: {orchestrator: {agent: planner, limits: {max_workers: 2}}, worker_template: {agent: a},
  decomposition_review: {type: hitl, prompt: "{{ task_count }} tasks?"}, reduce_review: {type: hitl, prompt: "reduce?"},
  reduce: {agent: b, input: "{{ workers[1].response }} {{ hitl_response }}"}, writeup: {agent: planner, input: "{{ reduce_response }}"}}}`,
	"orchestrator asked to write": `
pattern: {type: orchestrator_workers, config: {orchestrator: {agent: planner, limits: {}}, worker_template: {agent: t},
  reduce: {type: hitl, prompt: "sum up"}, writeup: {type: hitl, prompt: "write up {{ reduce_response }}"}}}`,
	"graph": `
pattern: {type: graph, config: {nodes: {
    begin: {agent: a, input: "begin"}, ok: {type: hitl, prompt: "ok {{ nodes.begin.iteration }}?"}, end: {agent: b}},
  edges: [{from: begin, to: [ok]}, {from: ok, choose: [{when: "{{ nodes.begin.iteration < 2 }}", to: begin}, {when: else, to: end}]}]}}`,
}

// answers are what a person says, by the beginning of the question.
func answerTo(q workflow.HITLState) string {
	switch {
	case strings.HasPrefix(q.Prompt, "deep?"):
		return "approved"
	case strings.HasPrefix(q.Prompt, "not this one"):
		return "route:shallow"
	}
	return "well: " + q.Prompt
}

// begun is a run that was started and goes on to its end.
type begun struct {
	rt  *holdfast.Runtime
	id  string
	out string
}

func start(t testing.TB, text string, a *actor, st store.Store) (begun, workflow.Result, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(path, []byte(preamble+text), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := spec.Map[string]{{Name: "topic", Value: "tea ü"}}
	s, err := workflow.Load(path, vars)
	if err != nil {
		t.Fatal(err)
	}
	b := begun{rt: newRuntime(t, st), out: t.TempDir(), id: id}
	res, err := workflow.Start(t.Context(), b.rt, s, workflow.RunOptions{Host: host(a), ID: id, Vars: vars, Out: b.out})
	return b, res, err
}

// toTheEnd answers everything and goes on until nothing is left to do.
func (b begun) toTheEnd(t testing.TB, a *actor) {
	t.Helper()
	for range 20 {
		st := b.state(t, 0)
		if st.Metadata.Status == workflow.StatusCompleted {
			return
		}
		o := workflow.ResumeOptions{Host: host(a), Out: b.out, Force: true}
		if len(st.Open) > 0 {
			o.Answer = ptr(answerTo(st.Open[0]))
		}
		if _, err := workflow.Resume(t.Context(), b.rt, b.id, o); err != nil {
			t.Fatalf("resume: %v", err)
		}
	}
	t.Fatal("the run comes to no end")
}

func (b begun) session(t testing.TB, version int64) session.Session {
	t.Helper()
	opts := []holdfast.Option{holdfast.Whole(), holdfast.WithTail()}
	if version > 0 {
		opts = []holdfast.Option{holdfast.Whole(), holdfast.At(version)}
	}
	s, err := b.rt.Get(t.Context(), b.id, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b begun) state(t testing.TB, version int64) *workflow.State {
	t.Helper()
	st, err := workflow.Project(b.session(t, version))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// shown is a state as text, without the times.
func shown(t testing.TB, st *workflow.State) string {
	t.Helper()
	head := *st
	head.Metadata.CreatedAt, head.Metadata.UpdatedAt = "", ""
	raw, err := json.MarshalIndent([]any{head, head.Pattern, head.Agents, head.Open}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// answered counts the answers of models in a session.
func answered(s session.Session) int {
	n := 0
	for _, m := range s.Messages() {
		if m.Role == session.RoleAssistant {
			n++
		}
	}
	return n
}
