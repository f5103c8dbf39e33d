package trace

import (
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// unit is an attempt of a workflow's unit whose records are being read.
type unit struct {
	agent   string
	start   time.Time
	records []session.Record // of its agent
}

// workflowSpans returns the spans of a run that were recorded after a change: one
// for each unit that has ended, with its answers and tool calls, and one for the
// run once that has ended.
func workflowSpans(s session.Session, after int64) []Span {
	info := s.Info()
	if info.Workflow == nil {
		return nil
	}
	trace := idOf(32, info.Tenant, info.ID)
	run := Span{
		TraceID: trace, ID: idOf(16, trace, info.ID), Name: "invoke_workflow " + info.Workflow.Name, Start: info.CreatedAt, End: info.UpdatedAt,
		Attributes: []Attribute{
			{"gen_ai.operation.name", "invoke_workflow"}, {"gen_ai.workflow.name", info.Workflow.Name}, {"gen_ai.conversation.id", info.ID},
			{"holdfast.tenant", info.Tenant}, {"holdfast.workflow.pattern", info.Workflow.Pattern}, {"holdfast.workflow.status", info.Workflow.Status},
		},
	}
	used, cost := s.Usage()
	run.Attributes = append(run.Attributes, Attribute{"gen_ai.usage.input_tokens", used.Input}, Attribute{"gen_ai.usage.output_tokens", used.Output}, Attribute{"holdfast.cost", cost.Dollars()})
	var spans []Span
	units := map[string]*unit{}
	at := func(name, agent string, r session.Record) *unit { // one that failed is continued without another start
		if units[name] == nil {
			units[name] = &unit{agent: agent, start: r.At}
		}
		return units[name]
	}
	for _, r := range s.Ledger() {
		switch c := r.Change.(type) {
		case session.UnitStarted:
			units[c.Unit] = &unit{agent: c.Agent, start: r.At}
		case session.UnitAdvanced:
			u := at(c.Unit, c.Agent, r)
			u.records = append(u.records, session.Record{Seq: r.Seq, At: r.At, Change: c.Change})
		case session.UnitFinished:
			if r.Seq > after && c.Agent != "" {
				spans = append(spans, at(c.Unit, c.Agent, r).spans(run, info, c.Unit, r, "")...)
			}
			delete(units, c.Unit)
		case session.UnitFailed:
			if r.Seq > after {
				spans = append(spans, at(c.Unit, c.Agent, r).spans(run, info, c.Unit, r, c.Error.Kind)...)
			}
			delete(units, c.Unit)
		}
	}
	switch info.Workflow.Status {
	case "failed":
		run.Error = "workflow_failed"
		spans = append(spans, run)
	case "completed", "cancelled":
		spans = append(spans, run)
	}
	return spans
}

// spans returns the span of a unit that has ended, and those of its answers and
// tool calls.
func (u *unit) spans(run Span, info session.Info, name string, end session.Record, failure string) []Span {
	root := Span{
		TraceID: run.TraceID, ID: idOf(16, run.ID, name, strconv.FormatInt(end.Seq, 10)), ParentID: run.ID,
		Name: "invoke_agent " + u.agent, Start: u.start, End: end.At, Error: failure,
		Attributes: []Attribute{
			{"gen_ai.operation.name", "invoke_agent"}, {"gen_ai.agent.name", u.agent}, {"gen_ai.conversation.id", info.ID}, {"holdfast.unit", name},
		},
	}
	list := []Span{root}
	begun := map[string]time.Time{} // calls, by their ids
	for _, r := range u.records {
		switch c := r.Change.(type) {
		case session.InferenceAnswered:
			list = append(list, answerSpan(root, info, session.Step{
				ID: c.StepID, Model: c.Model, StartedAt: c.StartedAt, CompletedAt: &r.At, FinishReason: c.FinishReason, Usage: c.Usage, Cost: c.Cost,
			}))
		case session.InferenceFailed:
			list = append(list, answerSpan(root, info, session.Step{
				ID: c.StepID, Model: c.Model, StartedAt: c.StartedAt, CompletedAt: &r.At, Type: session.StepError, Errors: c.Errors,
			}))
		case session.ToolStarted:
			begun[c.CallID] = r.At
		case session.ToolFinished:
			if start, ok := begun[c.CallID]; ok { // else it was not run
				list = append(list, toolSpan(root, info, c.StepID, session.ToolExecution{
					CallID: c.CallID, ToolName: c.ToolName, StartedAt: start, CompletedAt: &r.At, IsError: c.IsError, ChildSessionID: c.ChildSessionID,
				}))
			}
		}
	}
	return list
}
