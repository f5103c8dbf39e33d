package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

const threeSteps = head + `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}, {agent: a, input: "two {{ steps[0].response }}"}, {agent: a, input: "three {{ steps[1].response }}"}]}}
outputs: {artifacts: [{path: o, from: "{{ last_response }}"}]}
`

const threeEnd = "re: three re: two re: one"

func TestResume_afterAnInterruptionGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := newScene(t, echo)
	s.actor.answer = func(r llm.Request) (llm.Response, error) {
		if strings.HasPrefix(input(r), "two") {
			cancel()
		}
		return echo(r)
	}
	loaded := load(t, threeSteps, nil)
	res, err := workflow.Start(ctx, s.rt, loaded, workflow.RunOptions{Host: s.host, Out: s.out})
	var stopped *session.InterruptedError
	if !errors.As(err, &stopped) || stopped.ID != res.SessionID || res.Status != workflow.StatusPaused || res.Question != nil {
		t.Fatalf("the run ended as %+v (%v)", res, err)
	}
	s.id = res.SessionID
	st := s.state()
	if st.Metadata.Status != workflow.StatusPaused || st.Metadata.Error != nil {
		t.Errorf("the run is %+v", st.Metadata)
	}
	s.completes(threeEnd)(s.resume(workflow.ResumeOptions{}))
	s.wantInputs("one", "two re: one", "two re: one", "three re: two re: one") // the interrupted call was never answered
	if got := len(s.asked[2].Messages); got != 3 {
		t.Errorf("the message of the interrupted unit is there %d times", got-2)
	}
	if again := s.state(); again.Metadata.CreatedAt != st.Metadata.CreatedAt {
		t.Error("the run was created again")
	}
}

func TestResume_needsNothingButTheStore(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(llm.Request) (llm.Response, error) { return llm.Response{}, errors.New("no") })
	if _, err := s.start(threeSteps); err == nil {
		t.Fatal("it did not fail")
	}
	s.rewrite("gone")
	s.actor.answer = echo
	res, err := s.resume(workflow.ResumeOptions{})
	s.completes(threeEnd)(res, err)
	if len(res.Changed) != 1 || res.Changed[0] != s.path {
		t.Errorf("changed: %q", res.Changed)
	}
}

func TestResume_suspendedFromOutside(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.actor.answer = func(r llm.Request) (llm.Response, error) {
		if strings.HasPrefix(input(r), "two") && s.calls() == 2 {
			for range 2 { // the second breaks off what is in flight
				if _, err := s.rt.Post(t.Context(), s.id, store.Item{Kind: store.ItemSuspend}); err != nil {
					t.Error(err)
				}
			}
			return llm.Response{}, errWait
		}
		return echo(r)
	}
	s.id = workflow.NewSessionID()
	res, err := s.startWith(workflow.RunOptions{ID: s.id}, threeSteps)
	if !errors.Is(err, session.ErrInterrupted) || res.Status != workflow.StatusPaused {
		t.Fatalf("the run ended as %+v (%v)", res, err)
	}
	info, err := s.rt.Info(t.Context(), s.id)
	if err != nil || info.Status != session.Suspended {
		t.Errorf("the session is %s (%v)", info.Status, err)
	}
	s.completes(threeEnd)(s.resume(workflow.ResumeOptions{}))
	info, err = s.rt.Info(t.Context(), s.id)
	if err != nil || info.Status != session.Active {
		t.Errorf("the session is %s (%v)", info.Status, err)
	}
}

func TestResume_twoAtOnceOneRuns(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(llm.Request) (llm.Response, error) { return llm.Response{}, errors.New("no") })
	if _, err := s.start(threeSteps); err == nil {
		t.Fatal("it did not fail")
	}
	before := s.calls()
	running, free := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	s.actor.answer = func(r llm.Request) (llm.Response, error) {
		if once.CompareAndSwap(false, true) {
			close(running)
			<-free
		}
		return echo(r)
	}
	first := make(chan error)
	go func() {
		_, err := s.resume(workflow.ResumeOptions{})
		first <- err
	}()
	<-running
	_, err := s.resume(workflow.ResumeOptions{NoWait: true})
	var busy *session.BusyError
	if !errors.As(err, &busy) || busy.Holder == "" || busy.Until.IsZero() {
		t.Errorf("the second: %v", err)
	}
	close(free)
	if err := <-first; err != nil || s.calls() != before+3 {
		t.Errorf("the first: %v, %d calls", err, s.calls()-before)
	}
}

func TestFork_keepsTheUnitsUpToItsVersionAndMakesTheRestAnew(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes(threeEnd)(s.start(threeSteps))
	fork, err := s.rt.Fork(t.Context(), s.id, holdfast.At(3))
	if err != nil {
		t.Fatal(err)
	}
	s.actor.answer = func(r llm.Request) (llm.Response, error) { return said("other"), nil }
	parent := s.id
	s.id, s.out = fork.ID(), t.TempDir()
	s.completes("other")(s.resume(workflow.ResumeOptions{}))
	s.wantInputs("one", "two re: one", "three re: two re: one", "three re: two re: one")
	if got := len(s.asked[3].Messages); got != 5 {
		t.Errorf("the fork's unit was shown %d messages", got)
	}
	s.id = parent
	if st := s.state(); st.Final != threeEnd {
		t.Errorf("the parent ended with %q", st.Final)
	}
	if st := projected(t, s.rt, parent, holdfast.At(2), holdfast.Whole()); !strings.Contains(patternJSON(t, st), `"current_step":1`) || st.Metadata.Status != workflow.StatusRunning {
		t.Errorf("at version 2 it was %s", patternJSON(t, st))
	}
}

func stores(t *testing.T) map[string]store.Store {
	t.Helper()
	files, err := file.Open(t.TempDir(), file.Config{})
	if err != nil {
		t.Fatal(err)
	}
	lite, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "h.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]store.Store{"inmem": inmem.New(inmem.Config{}), "file": files, "sqlite": lite}
}

func TestStores_theSameRunHasTheSameState(t *testing.T) {
	t.Parallel()
	specs := map[string]string{"chain": strings.Replace(askingChain, ", ASK", "", 1), "parallel": askingBranches, "workflow": askingLayer}
	for name, text := range specs {
		want := ""
		for kind, st := range stores(t) {
			s := sceneOn(t, st, echo)
			res, err := s.start(text)
			for err == nil && res.Status == workflow.StatusPaused {
				res, err = s.answer("answer to " + res.Question.Prompt)
			}
			if err != nil || res.Status != workflow.StatusCompleted {
				t.Fatalf("%s on %s ended as %+v (%v)", name, kind, res, err)
			}
			got := patternJSON(t, s.state())
			if want == "" {
				want = got
			}
			if got != want {
				t.Errorf("%s on %s:\n%s\nelsewhere\n%s", name, kind, got, want)
			}
		}
	}
}

func TestDocument_ofARunIsResumable(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("p")(s.start(strings.Replace(askingChain, ", ASK", "", 1)))
	whole, err := s.rt.Get(t.Context(), s.id, holdfast.Whole())
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	for kind, st := range stores(t) {
		var read session.Session
		if err := json.Unmarshal(document, &read); err != nil {
			t.Fatal(err)
		}
		imported, err := read.Imported("copy-of-it", "agent-1", "", session.SessionImported{Format: "holdfast"}, read.ChangedAt())
		if err != nil {
			t.Fatal(err)
		}
		other := sceneOn(t, st, echo)
		made, err := other.rt.Import(t.Context(), imported)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		other.id = made.ID()
		other.pauses("p")(other.resume(workflow.ResumeOptions{}))
		other.completes("re: y")(other.answer("y"))
		other.wantInputs("y")
		if got := len(other.asked[0].Messages); got != 3 {
			t.Errorf("%s: the resumed unit was shown %d messages", kind, got)
		}
	}
}

func TestCommit_thatFailsStopsTheRun(t *testing.T) {
	t.Parallel()
	lost := errors.New("disk full")
	for _, call := range []string{"Append", "Save"} {
		for n := 1; n <= 3; n++ {
			var at atomic.Int64
			st := storetest.Faulty(inmem.New(inmem.Config{}), func(name string, i int) error {
				if name == call && int64(i) == at.Load() {
					return lost
				}
				return nil
			})
			s := sceneOn(t, st, echo)
			at.Store(int64(n))
			s.id = workflow.NewSessionID()
			res, err := s.startWith(workflow.RunOptions{ID: s.id}, threeSteps)
			var stored *workflow.CommitError
			if !errors.As(err, &stored) || !errors.Is(err, lost) || res.Status != workflow.StatusRunning {
				t.Fatalf("%s %d: %+v (%v)", call, n, res, err)
			}
			before := s.calls()
			if told := s.reported(); strings.Contains(told, "error") || strings.Count(told, "step_complete") > n {
				t.Errorf("%s %d: told %s", call, n, told)
			}
			at.Store(-1)
			s.completes(threeEnd)(s.resume(workflow.ResumeOptions{}))
			if again := s.calls() - 3; again > 1 || before > 3 {
				t.Errorf("%s %d: %d calls too many", call, n, again)
			}
			if call == "Save" && s.calls() != 3 {
				t.Errorf("Save %d: an answer that was in the log was asked for again (%d calls)", n, s.calls())
			}
		}
	}
}

func TestStart_templateErrorsNameTheTextAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.fails(workflow.KindTemplate, "step/1", "/pattern/config/steps/1/input", "nobody")(s.start(head + `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}, {agent: a, input: "{{ steps[0].nobody }}"}]}}
`))
	if st := s.state(); !strings.HasPrefix(*st.Metadata.Error, "TemplateError: step/1: ") {
		t.Errorf("the error is %q", *st.Metadata.Error)
	}
}

func TestStart_oddIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a/b", "step/0", "a b", "x@1", "#0", "ä~", `a\nb`, strings.Repeat("é", 900)} {
		broken := true
		s := newScene(t, func(r llm.Request) (llm.Response, error) {
			if strings.HasPrefix(input(r), "two") && broken {
				broken = false
				return llm.Response{}, errors.New("no")
			}
			return echo(r)
		})
		quoted := `"` + id + `"`
		for _, text := range []string{
			"agents: {ID: {prompt: A}}\npattern: {type: workflow, config: {tasks: [{id: ID, agent: ID, input: one}, {id: b, agent: ID, deps: [ID], input: 'two {{ tasks[name].response }}'}, {id: c, type: hitl, prompt: p, deps: [b]}]}}",
			"agents: {ID: {prompt: A}}\npattern: {type: graph, config: {nodes: {ID: {agent: ID, input: one}, b: {agent: ID, input: 'two {{ nodes[name].response }}'}, c: {type: hitl, prompt: p}}, edges: [{from: ID, to: [b]}, {from: b, to: [c]}]}}",
			"agents: {ID: {prompt: A}}\npattern: {type: parallel, config: {branches: [{id: ID, steps: [{agent: ID, input: one}, {agent: ID, input: 'two {{ last_response }}'}, {type: hitl, prompt: p}]}, {id: b, steps: [{agent: ID, input: x}]}]}}",
		} {
			broken = true
			_, err := s.start(head + "inputs: {values: {name: " + quoted + "}}\n" + strings.ReplaceAll(text, "ID", quoted))
			var failed *workflow.RunError
			if !errors.As(err, &failed) || failed.Kind != workflow.KindProvider {
				t.Fatalf("%.20s: %v", id, err)
			}
			s.pauses("p")(s.resume(workflow.ResumeOptions{}))
			res, err := s.answer("yes")
			if err != nil || res.Status != workflow.StatusCompleted {
				t.Errorf("%.20s ended as %+v (%v)", id, res, err)
			}
		}
	}
}

// A wish to suspend that came when the pass had just ended is no reason to
// stop the next one.
func TestResume_aSuspensionThatCameTooLateDoesNotStopIt(t *testing.T) {
	t.Parallel()
	a := &actor{answer: echo}
	rt := runtime(t, inmem.New(inmem.Config{}))
	vars := spec.Map[string]{{Name: "topic", Value: "tea"}}
	out := t.TempDir()
	res, err := workflow.Start(t.Context(), rt, load(t, chainSpec, vars), workflow.RunOptions{Host: host(a), Vars: vars, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Post(t.Context(), res.SessionID, store.Item{Kind: store.ItemSuspend}); err != nil {
		t.Fatal(err)
	}
	yes := "yes"
	res, err = workflow.Resume(t.Context(), rt, res.SessionID, workflow.ResumeOptions{Host: host(a), Answer: &yes, Out: out})
	if err != nil || res.Status != workflow.StatusCompleted {
		t.Fatalf("the run is %s (%v), want it completed", res.Status, err)
	}
	if left, err := rt.Inbox(t.Context(), res.SessionID); err != nil || len(left) != 0 {
		t.Errorf("%d items are left in the inbox (%v)", len(left), err)
	}
}

// What a model says of a secret is masked wherever it goes from there: the
// log, the next unit and the files of the run say the same.
func TestSecrets_areMaskedInArtifactsAndLaterUnitsToo(t *testing.T) {
	t.Parallel()
	const secret = "sk-very-secret-value"
	a := &actor{answer: func(r llm.Request) (llm.Response, error) {
		return said("the key is " + secret + ", asked " + r.Messages[len(r.Messages)-1].Content.Text()), nil
	}}
	rt, err := holdfast.New(holdfast.Config{Store: inmem.New(inmem.Config{}), Secrets: map[string]string{"KEY": secret}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	vars := spec.Map[string]{{Name: "topic", Value: "tea"}}
	out := t.TempDir()
	var told []string
	h := host(a)
	h.OnEvent = func(e workflow.Event) {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Error(err)
		}
		told = append(told, string(raw))
	}
	res, err := workflow.Start(t.Context(), rt, load(t, chainSpec, vars), workflow.RunOptions{Host: h, Vars: vars, Out: out,
		Ask: func(context.Context, workflow.HITLState) (string, error) { return "yes", nil }})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(out, "tea", "letter.md"))
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"the artifact": string(data), "the response": res.LastResponse, "what models were asked": strings.Join(a.inputs(), "|"), "an event": strings.Join(told, "|"),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%s holds the secret: %s", what, text)
		}
	}
}

// Whoever answers a question the moment it is asked does not learn that the run
// is busy, because its process has not let go of it yet.
func TestResume_waitsForWhoLetsGo(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("ok?")(s.start(head + `
agents: {a: {prompt: A.}}
pattern: {type: chain, config: {steps: [{type: hitl, prompt: "ok?"}, {agent: a, input: x}]}}`))
	held, let := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- s.rt.Hold(t.Context(), s.id, func(context.Context, *holdfast.Hold) error {
			close(held)
			<-let
			return nil
		})
	}()
	<-held
	time.AfterFunc(100*time.Millisecond, func() { close(let) })
	answer := "yes"
	s.completes("re: x")(s.resume(workflow.ResumeOptions{Answer: &answer, NoWait: true}))
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
