package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
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
	response, err := a.answer(r)
	if errors.Is(err, errWait) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return llm.Response{}, ctx.Err()
	}
	return response, err
}

// errWait makes a model wait until its caller gives up.
var errWait = errors.New("wait")

// input is the last message of a request.
func input(r llm.Request) string { return r.Messages[len(r.Messages)-1].Content.Text() }

// inputs are the last messages of all requests.
func (a *actor) inputs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]string, len(a.asked))
	for i, r := range a.asked {
		list[i] = input(r)
	}
	return list
}

func (a *actor) calls() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// shown is the transcript of the request whose last message is text: who said
// what, in one line.
func (a *actor) shown(t *testing.T, text string) string {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.asked {
		if input(r) != text {
			continue
		}
		var said []string
		for _, m := range r.Messages {
			said = append(said, fmt.Sprintf("%s:%s", m.Role, m.Content.Text()))
		}
		return strings.Join(said, "|")
	}
	t.Errorf("nobody was asked %q", text)
	return ""
}

func said(text string) llm.Response {
	return llm.Response{Content: session.Text(text), FinishReason: "stop", Usage: session.Usage{Input: 10, Output: 5}}
}

// echo answers with what it was asked.
func echo(r llm.Request) (llm.Response, error) { return said("re: " + input(r)), nil }

// lines answers with the line of the agent: each of its calls takes the next
// of its lines, and the last again and again.
func lines(of map[string][]string) func(llm.Request) (llm.Response, error) {
	var mu sync.Mutex
	next := map[string]int{}
	return func(r llm.Request) (llm.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		list := of[r.Agent]
		if len(list) == 0 {
			return llm.Response{}, fmt.Errorf("no line for %s", r.Agent)
		}
		i := min(next[r.Agent], len(list)-1)
		next[r.Agent]++
		return said(list[i]), nil
	}
}

func host(model llm.Model) workflow.Host {
	return workflow.Host{
		Models: func(m spec.Model) (string, llm.Model, error) { return m.Provider + "/" + m.ModelID, model, nil },
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
		if err := errors.Join(rt.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// written is a spec in a file.
func written(t testing.TB, text string) string {
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

// head is the beginning of most specs here. Nobody waits between tries.
const head = `
version: 1
name: Test run
runtime: {provider: scripted, model_id: m, failure_policy: {wait_min: 0, wait_max: 0}}
`

// scene is a run and all that is around it.
type scene struct {
	*testing.T
	*actor
	rt   *holdfast.Runtime
	host workflow.Host
	out  string
	id   string
	path string // of the spec

	mu     sync.Mutex
	events []workflow.Event
	warned []string
}

func sceneOn(t *testing.T, st store.Store, answer func(llm.Request) (llm.Response, error)) *scene {
	t.Helper()
	s := &scene{T: t, actor: &actor{answer: answer}, rt: runtime(t, st), out: t.TempDir()}
	s.host = host(s.actor)
	s.host.OnEvent = func(e workflow.Event) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}
	s.host.Warn = func(format string, args ...any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.warned = append(s.warned, fmt.Sprintf(format, args...))
	}
	return s
}

func newScene(t *testing.T, answer func(llm.Request) (llm.Response, error)) *scene {
	t.Helper()
	return sceneOn(t, inmem.New(inmem.Config{}), answer)
}

// start runs a spec; vars are names and values in turn.
func (s *scene) start(text string, vars ...string) (workflow.Result, error) {
	s.Helper()
	return s.startWith(workflow.RunOptions{}, text, vars...)
}

func (s *scene) startWith(o workflow.RunOptions, text string, vars ...string) (workflow.Result, error) {
	s.Helper()
	for i := 0; i < len(vars); i += 2 {
		o.Vars = append(o.Vars, spec.Entry[string]{Name: vars[i], Value: vars[i+1]})
	}
	s.path = written(s.T, text)
	loaded, err := workflow.Load(s.path, o.Vars)
	if err != nil {
		s.Fatal(err)
	}
	o.Host = s.host
	if o.Out == "" {
		o.Out = s.out
	}
	res, err := workflow.Start(s.Context(), s.rt, loaded, o)
	s.id = res.SessionID
	return res, err
}

func (s *scene) resume(o workflow.ResumeOptions) (workflow.Result, error) {
	s.Helper()
	o.Host = s.host
	if o.Out == "" {
		o.Out = s.out
	}
	return workflow.Resume(s.Context(), s.rt, s.id, o)
}

func (s *scene) answer(text string) (workflow.Result, error) {
	s.Helper()
	return s.resume(workflow.ResumeOptions{Answer: &text})
}

// completes checks the end of a run.
func (s *scene) completes(want string) func(workflow.Result, error) {
	return func(res workflow.Result, err error) {
		s.Helper()
		if err != nil || res.Status != workflow.StatusCompleted || res.LastResponse != want || res.Question != nil {
			s.Fatalf("the run ended as %+v (%v), want %q", res, err, want)
		}
	}
}

// pauses checks that a person is asked.
func (s *scene) pauses(prompt string) func(workflow.Result, error) {
	return func(res workflow.Result, err error) {
		s.Helper()
		if err != nil || res.Status != workflow.StatusPaused || res.Question == nil || res.Question.Prompt != prompt {
			s.Fatalf("the run is %+v (%v), want the question %q", res, err, prompt)
		}
	}
}

// fails checks why a run failed.
func (s *scene) fails(kind workflow.Kind, unit string, reasons ...string) func(workflow.Result, error) {
	return func(res workflow.Result, err error) {
		s.Helper()
		var failed *workflow.RunError
		if !errors.As(err, &failed) || failed.Kind != kind || failed.Unit != unit || res.Status != workflow.StatusFailed || res.Error != failed.Error() {
			s.Fatalf("the run ended as %+v (%v), want %s at %q", res, err, kind, unit)
		}
		for _, reason := range reasons {
			if !strings.Contains(failed.Error(), reason) {
				s.Errorf("the failure %q does not say %q", failed, reason)
			}
		}
	}
}

// state is the run as it is now.
func (s *scene) state() *workflow.State {
	s.Helper()
	return projected(s.T, s.rt, s.id, holdfast.Whole(), holdfast.WithTail())
}

func projected(t *testing.T, rt *holdfast.Runtime, id string, opts ...holdfast.Option) *workflow.State {
	t.Helper()
	got, err := rt.Get(t.Context(), id, opts...)
	if err != nil {
		t.Fatal(err)
	}
	st, err := workflow.Project(got)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// history checks status and pattern_state at every version: each line is a
// status and a JSON object.
func (s *scene) history(want ...string) {
	s.Helper()
	info, err := s.rt.Info(s.Context(), s.id)
	if err != nil {
		s.Fatal(err)
	}
	if int(info.Version) != len(want) {
		s.Errorf("there are %d versions, want %d", info.Version, len(want))
	}
	for v := 1; v <= int(info.Version); v++ {
		st := projected(s.T, s.rt, s.id, holdfast.At(int64(v)), holdfast.Whole())
		have := patternJSON(s.T, st)
		if v > len(want) {
			s.Errorf("version %d: %s %s", v, st.Metadata.Status, have)
			continue
		}
		status, object, _ := strings.Cut(want[v-1], " ")
		if string(st.Metadata.Status) != status || !sameJSON(s.T, have, object) {
			s.Errorf("version %d is\n%s %s\nwant\n%s %s", v, st.Metadata.Status, have, status, object)
		}
	}
}

func patternJSON(t *testing.T, st *workflow.State) string {
	t.Helper()
	raw, err := json.Marshal(st.Pattern)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}

// hitl is a question as the state shows it: all keys, and those given.
func hitl(fields string) string {
	all := map[string]any{"active": true, "context_display": ""}
	for _, name := range []string{
		"step_index", "task_id", "layer_index", "branch_id", "step_type", "node_id", "iteration_index", "phase", "worker_count", "router_review",
		"default_response", "timeout_at", "user_response",
	} {
		all[name] = nil
	}
	if err := json.Unmarshal([]byte("{"+fields+"}"), &all); err != nil {
		panic(err)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// reported lists the events so far: each its type and what it is about.
func (s *scene) reported() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, e := range s.events {
		about := ""
		switch d := e.Data.(type) {
		case workflow.UnitData:
			about = " " + d.Unit
		case workflow.QuestionData:
			about = " " + d.Unit
		case workflow.AnswerData:
			about = " " + d.Unit
		case workflow.ErrorData:
			about = " " + d.Unit
		case workflow.RouteData:
			about = " " + d.Route
		case workflow.BranchData:
			about = " " + d.BranchID
		case workflow.IterationData:
			about = fmt.Sprintf(" %d", d.Iteration)
		case workflow.BudgetData:
			about = " " + d.Budget
		}
		list = append(list, string(e.Type)+about)
	}
	s.events = nil
	return strings.Join(list, ", ")
}

func (s *scene) warnings() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.warned, "\n")
}

// wantInputs checks what was asked, in order.
func (s *scene) wantInputs(want ...string) {
	s.Helper()
	if got := s.inputs(); !reflect.DeepEqual(got, want) {
		s.Errorf("the models were asked\n%q\nwant\n%q", got, want)
	}
}

// artifact is what a file of the run holds.
func (s *scene) artifact(path string) string {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.out, path))
	if err != nil {
		s.Error(err)
	}
	return string(data)
}

// rewrite changes the file of the spec.
func (s *scene) rewrite(text string) {
	s.Helper()
	if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}
