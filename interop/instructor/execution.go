package instructor

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// execution reads the last run of the agent. A running one becomes stopped: its
// process cannot continue it.
func (im *importer) execution(p value, st *session.State) {
	if p.empty() {
		return
	}
	p.checkKeys("executionId", "status", "startedAt", "completedAt", "continuation", "stepExecutions", "currentStepStartedAt", "currentStep")
	e := &session.Execution{
		ID: p.at("executionId").text(), Status: oneOf[session.ExecutionStatus](p.at("status"), "pending", "in_progress", "completed", "stopped", "failed"),
		StartedAt: cmp.Or(p.at("startedAt").moment(), st.CreatedAt), CompletedAt: p.at("completedAt").momentPtr(),
	}
	if e.ID == "" {
		im.fail(p.at("executionId").path, "is empty")
	}
	im.steps(p, e, st)
	e.Signals = im.signals(p.at("continuation"), e.Signals)
	if e.Status == session.ExecutionPending && len(e.Steps) == 0 {
		im.note("an execution that had not started was left out")
		return
	}
	im.settle(e, st)
	st.ExecutionCount = max(st.ExecutionCount, 1)
	e.Number = st.ExecutionCount
	st.Execution, st.Usage = e, e.Usage
	if st.ExecutionCount > 1 {
		im.note("usage and inferences count the last execution only: the file has no earlier ones")
	}
}

func (im *importer) steps(p value, e *session.Execution, st *session.State) {
	for _, s := range p.at("stepExecutions").items() {
		s.checkKeys("id", "step", "continuation", "startedAt", "completedAt", "duration")
		step := im.step(s.at("step"), s.at("id").optional(), e, st)
		step.StartedAt, step.CompletedAt = cmp.Or(s.at("startedAt").moment(), e.StartedAt), s.at("completedAt").momentPtr()
		if took := s.at("duration").decimal(); took != nil && *took > 0 && !math.IsInf(*took, 0) {
			e.ActiveSeconds += *took
		}
		e.Signals = im.signals(s.at("continuation"), e.Signals)
		e.Steps = append(e.Steps, step)
	}
	current := p.at("currentStep")
	id, _ := current.at("id").v.(string)
	if current.empty() || slices.ContainsFunc(e.Steps, func(s session.Step) bool { return s.ID == id }) {
		return
	}
	step := im.step(current, "", e, st)
	step.StartedAt = cmp.Or(p.at("currentStepStartedAt").moment(), e.StartedAt)
	e.Steps = append(e.Steps, step)
}

// step reads one step. It keeps only messages that are also in the transcript.
func (im *importer) step(p value, otherID string, e *session.Execution, st *session.State) session.Step {
	p.checkKeys("id", "inputMessages", "outputMessages", "errors", "toolExecutions", "inferenceResponse")
	p.at("inputMessages").drop()
	step := session.Step{
		ID: cmp.Or(p.at("id").optional(), otherID), Number: len(e.Steps) + 1, Type: session.StepFinal,
		MessageIDs: []string{}, ToolExecutions: []session.ToolExecution{}, Errors: []session.Failure{},
	}
	if step.ID == "" {
		im.fail(p.at("id").path, "is missing")
	}
	for _, m := range p.at("outputMessages").items() {
		im.output(m, e.ID, &step, st)
	}
	for _, failure := range p.at("errors").items() {
		failure.checkKeys("message", "class")
		step.Errors = append(step.Errors, session.Failure{Kind: failure.at("class").optional(), Message: failure.at("message").optional()})
	}
	for _, t := range p.at("toolExecutions").items() {
		step.ToolExecutions = append(step.ToolExecutions, im.toolExecution(t, e.StartedAt))
	}
	response := p.at("inferenceResponse")
	asked := im.response(response, &step)
	switch {
	case asked || len(step.ToolExecutions) > 0:
		step.Type = session.StepTools
	case len(step.Errors) > 0 && len(step.MessageIDs) == 0:
		step.Type = session.StepError
	}
	if !response.empty() || step.Type == session.StepError {
		st.InferenceCount++
	}
	e.Usage = e.Usage.Plus(step.Usage)
	e.Errors = append(e.Errors, step.Errors...)
	return step
}

// output links a message of the transcript to its step.
func (im *importer) output(p value, executionID string, step *session.Step, st *session.State) {
	id := p.at("id").optional()
	i, ok := im.byID[id]
	if !ok {
		p.drop()
		return
	}
	m := &st.Messages[i]
	m.StepID, m.ExecutionID = cmp.Or(m.StepID, step.ID), cmp.Or(m.ExecutionID, executionID)
	step.MessageIDs = append(step.MessageIDs, id)
}

// response reads the usage of the model's answer and whether it called tools.
func (im *importer) response(p value, step *session.Step) (asked bool) {
	p.checkKeys("content", "finishReason", "toolCalls", "reasoningContent", "usage", "responseData", "isPartial", "id", "createdAt", "updatedAt")
	p.dropAt("responseData", "reasoningContent")
	step.FinishReason = p.at("finishReason").optional()
	usage := p.open("usage", "input", "output", "cacheWrite", "cacheRead", "reasoning")
	step.Usage = session.Usage{
		Input: usage.at("input").count(), Output: usage.at("output").count(), CacheRead: usage.at("cacheRead").count(),
		CacheWrite: usage.at("cacheWrite").count(), Reasoning: usage.at("reasoning").count(),
	}
	return !p.at("toolCalls").empty()
}

// toolExecution keeps which tool ran and when. The result is in the transcript.
func (im *importer) toolExecution(p value, started time.Time) session.ToolExecution {
	p.checkKeys("id", "tool_call", "result", "error", "startedAt", "completedAt")
	call := p.open("tool_call", "id", "name", "arguments")
	p.dropAt("result", "error")
	t := session.ToolExecution{
		CallID: call.at("id").optional(), ToolName: call.at("name").optional(), IsError: p.at("error").v != nil,
		StartedAt: cmp.Or(p.at("startedAt").moment(), started), CompletedAt: p.at("completedAt").momentPtr(),
	}
	return t
}

// signals adds the new stop signals of a continuation.
func (im *importer) signals(p value, signals []session.Signal) []session.Signal {
	p.checkKeys("stop_signals", "is_continuation_requested")
	for _, s := range p.at("stop_signals").items() {
		s.checkKeys("reason", "message", "context", "source")
		signal := session.Signal{
			Reason: session.StopReason(s.at("reason").optional()), Message: s.at("message").optional(),
			Context: s.at("context").values(), Source: s.at("source").optional(),
		}
		if !slices.Contains(session.StopReasons(), signal.Reason) {
			im.note("%s is not a stop reason of Holdfast and became unknown", foreign.GeneralPath(s.at("reason").path))
			if signal.Context == nil {
				signal.Context = session.Values{}
			}
			signal.Context["reason"] = s.at("reason").raw()
			signal.Reason = session.StopUnknown
		}
		repeated := slices.ContainsFunc(signals, func(have session.Signal) bool {
			return have.Reason == signal.Reason && have.Message == signal.Message && have.Source == signal.Source
		})
		if !repeated {
			signals = append(signals, signal)
		}
	}
	return signals
}

// settle sets the end of an execution and its reason.
func (im *importer) settle(e *session.Execution, st *session.State) {
	if e.Open() {
		im.note("the execution was %s and is stopped now", e.Status)
		e.Status = session.ExecutionStopped
		e.Signals = append(e.Signals, session.Signal{Reason: session.StopInterrupted, Message: "imported while it was running", Source: "import"})
		e.Stop = &e.Signals[len(e.Signals)-1]
	} else if stop, ok := session.Primary(e.Signals); ok {
		e.Stop = &stop
	} else {
		e.Stop = &session.Signal{Reason: map[session.ExecutionStatus]session.StopReason{
			session.ExecutionCompleted: session.StopCompleted,
			session.ExecutionFailed:    session.StopError,
			session.ExecutionStopped:   session.StopUnknown,
		}[e.Status], Source: "import"}
	}
	if e.CompletedAt != nil {
		return
	}
	end := st.UpdatedAt
	for _, s := range e.Steps {
		if s.CompletedAt != nil && s.CompletedAt.After(end) {
			end = *s.CompletedAt
		}
	}
	if end.Before(e.StartedAt) {
		end = e.StartedAt
	}
	e.CompletedAt = &end
}
