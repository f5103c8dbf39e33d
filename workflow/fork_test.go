package workflow_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

const forkSpec = head + `
inputs: {optional: {tone: {type: string, default: plain}}}
agents: {a: {prompt: A.}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}, {agent: a, input: "two {{ steps[0].response }} {{ tone }}"}, {agent: a, input: three}]}}`

func TestFork_goesOnWithOtherAnswersAndVariables(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: three")(s.start(forkSpec))
	before := s.calls()
	fork, err := workflow.Fork(t.Context(), s.rt, s.id, workflow.ForkOptions{
		Name: "other", Outputs: map[string]string{"step/0": "edited"}, Variables: spec.Map[string]{{Name: "tone", Value: "warm"}},
	})
	if err != nil || fork.Info().Workflow.Status != "paused" || fork.Info().Name != "other" || fork.Version() != 1 {
		t.Fatalf("the fork is %+v (%v)", fork.Info(), err)
	}
	parent := s.id
	s.id = fork.ID()
	s.completes("re: three")(s.resume(workflow.ResumeOptions{}))
	if got := s.inputs()[before:]; len(got) != 2 || got[0] != "two edited warm" || got[1] != "three" {
		t.Errorf("the models were asked %q", got)
	}
	if shown := s.shown(t, "two edited warm"); shown != "user:one|assistant:edited|user:two edited warm" {
		t.Errorf("the agent remembers %s", shown)
	}
	s.id = parent
	if st := s.state(); st.Metadata.Status != workflow.StatusCompleted || len(st.Variables) != 0 {
		t.Errorf("the parent is %+v", st)
	}
}

func TestFork_refusesWhatTheRunDoesNotHave(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: three")(s.start(forkSpec))
	for name, o := range map[string]workflow.ForkOptions{
		"unit":     {Outputs: map[string]string{"step/7": "x"}},
		"variable": {Variables: spec.Map[string]{{Name: "tonne", Value: "x"}}},
	} {
		if _, err := workflow.Fork(t.Context(), s.rt, s.id, o); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Another list for a for_each: items that are not what they were are done again,
// and what is made of them all; the others keep their answers.
func TestFork_anotherListDoesChangedItemsAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: a=re: 0 a;b=re: 1 b;c=re: 2 c;d=re: 3 d;")(s.start(eachSpec, "towns", `["a", "b", "c", "d"]`))
	parent := s.id
	for list, want := range map[string]struct {
		asked string
		done  int // before the fork goes on
	}{
		`["a", "x", "c"]`:                {"1 x|a=re: 0 a;x=re: 1 x;c=re: 2 c;", 2},
		`["a", "b", "c", "d", "e"]`:      {"4 e|a=re: 0 a;b=re: 1 b;c=re: 2 c;d=re: 3 d;e=re: 4 e;", 4},
		`["a","b","c","d"]`:              {"", 5},
		`[{"k":1}, "b", "c", "d"]`:       {`0 {'k': 1}|{'k': 1}=re: 0 {'k': 1};b=re: 1 b;c=re: 2 c;d=re: 3 d;`, 3},
		`["a", "b", "c", "d", "d", "d"]`: {"4 d|5 d|a=re: 0 a;b=re: 1 b;c=re: 2 c;d=re: 3 d;d=re: 4 d;d=re: 5 d;", 4},
	} {
		before := s.calls()
		fork, err := workflow.Fork(t.Context(), s.rt, parent, workflow.ForkOptions{Variables: spec.Map[string]{{Name: "towns", Value: list}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := fork.Info().Workflow.UnitsDone; got != want.done {
			t.Errorf("%s: the fork has %d units done, want %d", list, got, want.done)
		}
		s.id = fork.ID()
		if res, err := s.resume(workflow.ResumeOptions{}); err != nil || res.Status != workflow.StatusCompleted {
			t.Errorf("%s: the fork ended as %+v (%v)", list, res, err)
		}
		asked := s.inputs()[before:]
		slices.Sort(asked)
		if got := strings.Join(asked, "|"); got != want.asked {
			t.Errorf("%s: the models were asked %s, want %s", list, got, want.asked)
		}
	}
}

// An answer that is given with another list counts, and what it is an answer for.
func TestFork_anotherListWithAnswers(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.completes("re: a=re: 0 a;b=re: 1 b;")(s.start(eachSpec, "towns", `["a", "b"]`))
	before := s.calls()
	fork, err := workflow.Fork(t.Context(), s.rt, s.id, workflow.ForkOptions{
		Variables: spec.Map[string]{{Name: "towns", Value: `["x", "b"]`}}, Outputs: map[string]string{"branch/1/step/0": "mine"},
	})
	if err != nil || fork.Info().Workflow.UnitsDone != 1 {
		t.Fatalf("the fork is %+v (%v)", fork.Info().Workflow, err)
	}
	s.id = fork.ID()
	s.completes("re: x=re: 0 x;b=mine;")(s.resume(workflow.ResumeOptions{}))
	if got := strings.Join(s.inputs()[before:], "|"); got != "0 x|x=re: 0 x;b=mine;" {
		t.Errorf("the models were asked %s", got)
	}
}
