package workflow_test

import (
	"errors"
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
