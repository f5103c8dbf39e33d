package workflow_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
)

const compacting = `
context_policy: {compaction: {when_tokens_over: 1000, summary_ratio: 0.5, preserve_recent_messages: 2, summarization_model: small}}
`

// long answers with a text of about 500 tokens, and sums up with a short one.
func long(r llm.Request) (llm.Response, error) {
	if strings.HasPrefix(input(r), "Earlier parts of this conversation") {
		return said("in short"), nil
	}
	return said(input(r) + " " + strings.Repeat("word ", 400)), nil
}

// firstWords are the first word of every message of a request.
func firstWords(r llm.Request) string {
	var list []string
	for _, m := range r.Messages {
		list = append(list, strings.ReplaceAll(strings.SplitN(m.Content.Text(), " ", 2)[0], "\n", "."))
	}
	return strings.Join(list, " ")
}

const fiveSteps = `
agents: {a: {prompt: A}}
pattern: {type: chain, config: {steps: [{agent: a, input: s0}, {agent: a, input: s1}, {agent: a, input: s2}, {agent: a, input: s3}, {agent: a, input: s4}]}}
`

func TestCompaction_movesTheWindowAndNotTheLog(t *testing.T) {
	t.Parallel()
	s := newScene(t, long)
	if _, err := s.start(head + compacting + fiveSteps); err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, r := range s.asked {
		shown = append(shown, firstWords(r))
	}
	want := []string{
		"s0", "s0 s0 s1", "s0 s0 Earlier", "Summary s1 s1 s2",
		"Summary s1 s1 s2 s2 s3", // half of five messages is less than the summary and a whole exchange
		"Summary s1 s1 Earlier", "Summary s2 s2 s3 s3 s4",
	}
	if strings.Join(shown, ", ") != strings.Join(want, ", ") {
		t.Errorf("shown:\n%s\nwant\n%s", strings.Join(shown, ", "), strings.Join(want, ", "))
	}
	for i, r := range s.asked {
		if summary := strings.HasSuffix(want[i], "Earlier"); summary != (r.Params.Temperature != nil && *r.Params.Temperature == 0.3) || summary != (r.Model == "scripted/small") {
			t.Errorf("call %d went to %s with %+v", i, r.Model, r.Params)
		}
	}
	if got := s.asked[3].Messages[0].Content.Text(); got != "Summary of what was said before:\nin short" {
		t.Errorf("the summary reads %q", got)
	}
	st := s.state()
	if st.Usage.ByAgent["a"] != 7*15 {
		t.Errorf("used %+v", st.Usage)
	}
	if steps, _ := st.Pattern.Get("current_step"); steps != 5 {
		t.Errorf("the state is %s", patternJSON(t, st))
	}
}

func TestCompaction_isNoStepOfABudget(t *testing.T) {
	t.Parallel()
	s := newScene(t, long)
	if _, err := s.start(strings.Replace(head, "model_id: m,", "model_id: m, budgets: {max_steps: 5},", 1) + compacting + fiveSteps); err != nil {
		t.Fatal(err)
	}
}

func TestCompaction_thatFailedGoesOnAndIsNotPaidForTwice(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	broken.Store(true)
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if strings.HasPrefix(input(r), "Earlier") && broken.Load() {
			return llm.Response{}, errors.New("no")
		}
		return long(r)
	})
	s.fails(workflow.KindProvider, "step/2", "no")(s.start(head + compacting + fiveSteps))
	broken.Store(false)
	if _, err := s.resume(workflow.ResumeOptions{}); err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, r := range s.asked[2:5] {
		shown = append(shown, firstWords(r))
	}
	if got := strings.Join(shown, ", "); got != "s0 s0 Earlier, s0 s0 Earlier, Summary s1 s1 s2" {
		t.Errorf("shown: %s", got)
	}
}

func TestCompaction_ofBranchesIsTheirOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t, long)
	if _, err := s.start(head + compacting + `
agents: {a: {prompt: A}}
pattern:
  type: parallel
  config:
    branches:
      - {id: x, steps: [{agent: a, input: x0}, {agent: a, input: x1}, {agent: a, input: x2}]}
      - {id: y, steps: [{agent: a, input: y0}, {agent: a, input: y1}, {agent: a, input: y2}]}
    reduce: {agent: a, input: r}
`); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.asked {
		switch shown := firstWords(r); input(r) {
		case "x2":
			if shown != "Summary x1 x1 x2" {
				t.Errorf("x2 was shown %s", shown)
			}
		case "y2":
			if shown != "Summary y1 y1 y2" {
				t.Errorf("y2 was shown %s", shown)
			}
		case "r":
			// The beginning is summed up anew; what branch y was summed up to is
			// no beginning here.
			if shown != "Summary y0 y0 y1 y1 y2 y2 r" {
				t.Errorf("reduce was shown %s", shown)
			}
		}
	}
}

func TestCompaction_tasksOfALayerShareASummary(t *testing.T) {
	t.Parallel()
	s := newScene(t, long)
	if _, err := s.start(head + compacting + `
agents: {a: {prompt: A}}
pattern:
  type: workflow
  config:
    tasks:
      - {id: t0, agent: a, input: t0}
      - {id: t1, agent: a, input: t1, deps: [t0]}
      - {id: t2, agent: a, input: t2, deps: [t1]}
      - {id: t3, agent: a, input: t3, deps: [t1]}
      - {id: t4, agent: a, input: t4, deps: [t1]}
`); err != nil {
		t.Fatal(err)
	}
	sums := 0
	for _, r := range s.asked {
		if strings.HasPrefix(input(r), "Earlier") {
			sums++
		}
		if shown := firstWords(r); input(r) > "t2" && strings.HasPrefix(input(r), "t") && shown != "Summary t1 t1 "+input(r) {
			t.Errorf("%s was shown %s", input(r), shown)
		}
	}
	if sums != 1 {
		t.Errorf("%d summaries", sums)
	}
}
