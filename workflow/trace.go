package workflow

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Trace writes what a run has done as JSON: its units with what they were asked
// and answered, and the questions, in the order in which they ended. It holds
// what the log holds and nothing else.
func Trace(s session.Session) (json.RawMessage, error) {
	r, err := readRun(s)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(r.trace()), nil
}

func (r *run) trace() string {
	units := []spec.Map[any]{}
	for _, e := range r.index.finished {
		input, _ := e.input()
		units = append(units, spec.Map[any]{
			{Name: "unit", Value: e.key}, {Name: "agent", Value: e.agent}, {Name: "lane", Value: e.lane}, {Name: "input", Value: input},
			{Name: "response", Value: e.response()}, {Name: "tools_used", Value: e.toolNames()}, {Name: "tokens_estimated", Value: e.result.Tokens},
			{Name: "finished_at", Value: iso8601(e.at)},
		})
	}
	questions := []spec.Map[any]{}
	for _, q := range r.index.answered {
		questions = append(questions, spec.Map[any]{
			{Name: "unit", Value: q.Unit}, {Name: "prompt", Value: q.Prompt}, {Name: "response", Value: *q.answer},
			{Name: "timed_out", Value: q.timedOut}, {Name: "answered_at", Value: iso8601(q.answeredAt)},
		})
	}
	raw, err := json.MarshalIndent(spec.Map[any]{
		{Name: "session_id", Value: r.id}, {Name: "workflow_name", Value: r.spec.Name}, {Name: "pattern_type", Value: r.spec.Pattern.Type},
		{Name: "units", Value: units}, {Name: "questions", Value: questions},
	}, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("workflow: a trace is no JSON: %v", err)) // texts and numbers always are
	}
	return string(raw)
}
