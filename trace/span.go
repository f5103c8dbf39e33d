// Package trace turns what a session has recorded into spans, named by the
// OpenTelemetry conventions for generative AI, and sends them to a collector by
// OTLP over HTTP.
//
// A span needs nothing but the record of an execution, so nothing is lost when a
// process dies in the middle: whoever finishes the execution sends its spans.
// Texts of messages, arguments and results are never part of them.
package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Span is something that took time.
type Span struct {
	TraceID, ID, ParentID string // in hex; ParentID "" for the first span of a trace
	Name                  string
	Start, End            time.Time
	Attributes            []Attribute
	Error                 string // "": it succeeded
}

// Attribute is a fact about a span: a string, an int64, a float64 or a bool.
type Attribute struct {
	Key   string
	Value any
}

// Spans returns the spans of the last execution of a session: one for the
// execution, one for each answer of the model and one for each tool call. None
// for an execution that has not ended. Of a workflow run that was loaded whole
// they are those of the run and of all its units.
func Spans(s session.Session) []Span {
	if s.Info().Kind == session.KindWorkflow {
		return workflowSpans(s, 0)
	}
	e := s.Execution()
	if e == nil || e.Open() || e.CompletedAt == nil {
		return nil
	}
	info := s.Info()
	trace, parent := idOf(32, info.Tenant, info.ID, e.ID), ""
	if given := strings.Split(e.RootRequestID, "-"); len(given) == 4 && len(given[1]) == 32 && len(given[2]) == 16 { // a traceparent
		trace, parent = given[1], given[2]
	}
	root := Span{
		TraceID: trace, ID: idOf(16, trace, info.ID, e.ID), ParentID: parent,
		Name: "invoke_agent " + info.AgentName, Start: e.StartedAt, End: *e.CompletedAt,
		Attributes: []Attribute{
			{"gen_ai.operation.name", "invoke_agent"}, {"gen_ai.agent.name", info.AgentName}, {"gen_ai.conversation.id", info.ID},
			{"gen_ai.usage.input_tokens", e.Usage.Input}, {"gen_ai.usage.output_tokens", e.Usage.Output},
			{"holdfast.tenant", info.Tenant}, {"holdfast.execution.id", e.ID}, {"holdfast.execution.status", string(e.Status)},
			{"holdfast.cost", e.Cost.Dollars()}, {"holdfast.recoveries", int64(e.Recoveries)},
		},
	}
	if e.Stop != nil {
		root.Attributes = append(root.Attributes, Attribute{"holdfast.stop.reason", string(e.Stop.Reason)})
	}
	if cause := e.Cause(); cause != nil {
		root.Error = failureKind(e.Errors)
	}
	spans := []Span{root}
	for _, step := range e.Steps {
		spans = append(spans, stepSpans(root, info, step)...)
	}
	return spans
}

// stepSpans returns the span of an answer, and those of the tools it asked for.
func stepSpans(root Span, info session.Info, step session.Step) []Span {
	spans := []Span{answerSpan(root, info, step)}
	for _, t := range step.ToolExecutions {
		spans = append(spans, toolSpan(root, info, step.ID, t))
	}
	return spans
}

// answerSpan returns the span of an answer.
func answerSpan(root Span, info session.Info, step session.Step) Span {
	provider, model, _ := strings.Cut(step.Model, "/")
	if model == "" {
		provider, model = "", step.Model
	}
	answer := Span{
		TraceID: root.TraceID, ID: idOf(16, root.ID, step.ID), ParentID: root.ID, Name: "chat " + model, Start: step.StartedAt,
		End: answeredAt(root, step),
		Attributes: []Attribute{
			{"gen_ai.operation.name", "chat"}, {"gen_ai.request.model", model}, {"gen_ai.response.finish_reasons", step.FinishReason},
			{"gen_ai.usage.input_tokens", step.Usage.Input}, {"gen_ai.usage.output_tokens", step.Usage.Output},
			{"gen_ai.conversation.id", info.ID}, {"holdfast.cost", step.Cost.Dollars()}, {"holdfast.failed_attempts", int64(len(step.Errors))},
		},
	}
	if provider != "" {
		answer.Attributes = append(answer.Attributes, Attribute{"gen_ai.provider.name", provider})
	}
	if step.Type == session.StepError {
		answer.Error = failureKind(step.Errors)
	}
	return answer
}

// toolSpan returns the span of a tool call.
func toolSpan(root Span, info session.Info, step string, t session.ToolExecution) Span {
	tool := Span{
		TraceID: root.TraceID, ID: idOf(16, root.ID, step, t.CallID), ParentID: root.ID, Name: "execute_tool " + t.ToolName,
		Start: t.StartedAt, End: t.StartedAt,
		Attributes: []Attribute{
			{"gen_ai.operation.name", "execute_tool"}, {"gen_ai.tool.name", t.ToolName}, {"gen_ai.tool.call.id", t.CallID}, {"gen_ai.conversation.id", info.ID},
		},
	}
	if t.CompletedAt != nil {
		tool.End = *t.CompletedAt
	}
	if t.ChildSessionID != "" {
		tool.Attributes = append(tool.Attributes, Attribute{"holdfast.child.session.id", t.ChildSessionID})
	}
	if t.IsError {
		tool.Error = "tool_error"
	}
	return tool
}

// answeredAt is when the model had answered: when its first tool began, or when
// the step ended.
func answeredAt(root Span, step session.Step) time.Time {
	end := root.End
	if step.CompletedAt != nil {
		end = *step.CompletedAt
	}
	for _, t := range step.ToolExecutions {
		if t.StartedAt.Before(end) {
			end = t.StartedAt
		}
	}
	return end
}

// failureKind names the last failure without its text, which may quote a
// message.
func failureKind(failures []session.Failure) string {
	if n := len(failures); n > 0 {
		return failures[n-1].Kind
	}
	return "error"
}

// idOf returns digits of a hash: the same parts have the same id wherever and
// whenever they are sent.
func idOf(digits int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])[:digits]
}
