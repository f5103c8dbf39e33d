package workflow_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

const askingChain = head + `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: x}, {type: hitl, prompt: "p", ASK}, {agent: a, input: "{{ hitl_response }}"}]}}
`

func TestAsk_withoutAnAnswerNothingChanges(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("p")(s.start(strings.Replace(askingChain, ", ASK", "", 1)))
	before, err := s.rt.Info(t.Context(), s.id)
	if err != nil {
		t.Fatal(err)
	}
	s.pauses("p")(s.resume(workflow.ResumeOptions{}))
	s.pauses("p")(s.resume(workflow.ResumeOptions{}))
	after, err := s.rt.Info(t.Context(), s.id)
	if err != nil || before.Version != after.Version || s.calls() != 1 {
		t.Errorf("version %d became %d after %d calls (%v)", before.Version, after.Version, s.calls(), err)
	}
}

func TestAsk_theEmptyTextIsAnAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("p")(s.start(strings.Replace(askingChain, ", ASK", "", 1)))
	s.completes("re: ")(s.answer(""))
}

func TestAsk_anAnswerToNothingIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(r llm.Request) (llm.Response, error) { return llm.Response{}, errors.New("no") })
	s.fails(workflow.KindProvider, "step/0")(s.start(strings.Replace(askingChain, ", ASK", "", 1)))
	calls := s.calls()
	if _, err := s.answer("yes"); !errors.Is(err, session.ErrInvalid) || !strings.Contains(err.Error(), "waits for none") {
		t.Errorf("the answer: %v", err)
	}
	if s.calls() != calls {
		t.Error("a refused answer ran the spec")
	}
}

func TestAsk_aCompletedRunTakesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("p")(s.start(strings.Replace(askingChain, ", ASK", "", 1)))
	s.completes("re: y")(s.answer("y"))
	var status *session.StatusError
	if _, err := s.answer("y"); !errors.As(err, &status) || status.Status != session.Completed {
		t.Errorf("the answer: %v", err)
	}
}

func TestAsk_timeIsUp(t *testing.T) {
	t.Parallel()
	for ask, want := range map[string]string{
		"timeout_seconds: 60, default: fallback": "fallback", "timeout_seconds: 60": "timeout_expired", `timeout_seconds: 60, default: ""`: "",
	} {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		s := newScene(t, echo)
		s.host.Now = func() time.Time { return now }
		res, err := s.start(strings.Replace(askingChain, "ASK", ask, 1))
		s.pauses("p")(res, err)
		if at := res.Question.TimeoutAt; at == nil || *at != "2026-01-02T03:05:05+00:00" {
			t.Fatalf("the time ends at %v", at)
		}
		now = now.Add(59 * time.Second)
		s.pauses("p")(s.resume(workflow.ResumeOptions{}))
		now = now.Add(time.Second)
		s.completes("re: " + want)(s.resume(workflow.ResumeOptions{}))
		st := s.state()
		for _, marks := range []interface{ Get(string) (any, bool) }{st.Pattern, st.Metadata.Metadata} {
			occurred, _ := marks.Get("hitl_timeout_occurred")
			at, _ := marks.Get("hitl_timeout_at")
			used, _ := marks.Get("hitl_default_used")
			if occurred != true || at != "2026-01-02T03:05:05+00:00" || used != want {
				t.Errorf("marked: %v %v %v", occurred, at, used)
			}
		}
	}
}

func TestAsk_anAnswerWinsEvenLate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	s := newScene(t, echo)
	s.host.Now = func() time.Time { return now }
	s.pauses("p")(s.start(strings.Replace(askingChain, "ASK", "timeout_seconds: 1, default: no", 1)))
	now = now.Add(time.Hour)
	s.completes("re: mine")(s.answer("mine"))
	if st := s.state(); len(st.Metadata.Metadata) != 0 || st.Pattern.Has("hitl_timeout_occurred") {
		t.Errorf("marked: %v", st.Metadata.Metadata)
	}
}

func TestAsk_aReviewWhoseDefaultDecidesNothingGoesOnWaiting(t *testing.T) {
	t.Parallel()
	for standing, done := range map[string]bool{"whatever": false, "approved": true, "route:Two": true} {
		now := time.Now()
		s := newScene(t, lines(map[string][]string{"router": {`{"route": "one"}`}, "a": {"end"}}))
		s.host.Now = func() time.Time { return now }
		s.pauses("one?")(s.start(strings.Replace(reviewedSpec, "%s", standing, 1)))
		now = now.Add(time.Hour)
		res, err := s.resume(workflow.ResumeOptions{})
		if done {
			s.completes("end")(res, err)
			continue
		}
		s.pauses("one?")(res, err)
		if !strings.Contains(s.warnings(), "still waits") {
			t.Errorf("warned: %s", s.warnings())
		}
		s.completes("end")(s.answer("approved"))
	}
}

func TestAsk_textsThatCannotBeRenderedNeverFailARun(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	res, err := s.start(head + `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{type: hitl, prompt: "{{ nobody }}\n", context_display: "{{ steps[7].x }}"}]}}
`)
	s.pauses("{{ nobody }}\n")(res, err)
	if shown := res.Question.ContextDisplay; !strings.HasPrefix(shown, "(Failed to render context: ") || !strings.HasSuffix(shown, ")") {
		t.Errorf("the context is %q", shown)
	}
	if warned := s.warnings(); !strings.Contains(warned, "prompt of step/0") || !strings.Contains(warned, "context of step/0") || !strings.Contains(warned, "nobody") {
		t.Errorf("warned: %s", warned)
	}
}

func TestAsk_atTheTerminal(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"router": {`{"route": "one"}`}, "a": {"end"}}))
	now := time.Now()
	s.host.Now = func() time.Time { return now }
	answers := []string{"what?", "route:two"}
	var asked []string
	s.completes("end")(s.startWith(workflow.RunOptions{Ask: func(_ context.Context, q workflow.HITLState) (string, error) {
		asked = append(asked, q.Prompt)
		now = now.Add(time.Hour)
		text := answers[0]
		answers = answers[1:]
		return text, nil
	}}, strings.Replace(strings.Replace(reviewedSpec, `, default: "%s", timeout_seconds: 60`, "", 1), "model_id: m,", "model_id: m, budgets: {max_duration_s: 60},", 1)))
	if len(asked) != 2 || !strings.Contains(s.warnings(), "neither approved") {
		t.Errorf("asked %q, warned %q", asked, s.warnings())
	}
	if got := s.reported(); strings.Count(got, "workflow_start") != 1 || strings.Count(got, "hitl_pause") != 1 || strings.Count(got, "step_start router#0") != 1 {
		t.Errorf("told: %s", got)
	}
}

func TestAsk_nobodyAtTheTerminalLeavesTheQuestion(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("p")(s.startWith(workflow.RunOptions{Ask: func(context.Context, workflow.HITLState) (string, error) { return "", io.EOF }},
		strings.Replace(askingChain, ", ASK", "", 1)))
	s.completes("re: y")(s.answer("y"))
}

func TestAsk_anAnswerIsKeptWhenWhatFollowsFails(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if input(r) == "y" {
			return llm.Response{}, errors.New("no")
		}
		return echo(r)
	})
	s.pauses("p")(s.start(strings.Replace(askingChain, ", ASK", "", 1)))
	s.fails(workflow.KindProvider, "step/2")(s.answer("y"))
	s.actor.answer = echo
	s.completes("re: y")(s.resume(workflow.ResumeOptions{}))
	s.wantInputs("x", "y", "y")
}
