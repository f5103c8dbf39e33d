package projector

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
)

// record shows a change of the log.
func (p *Projector) record(r session.Record) {
	at := Item{SessionID: p.id, ExecutionID: p.execution, Seq: r.Seq, At: r.At}
	change := r.Change
	var in session.UnitAdvanced
	if advanced, ok := change.(session.UnitAdvanced); ok {
		in, change = advanced, advanced.Change
		at.Unit, at.ExecutionID = in.Unit, in.Unit
		p.advance(in, at)
	}
	switch c := change.(type) {
	case session.MessageAdded:
		p.message(c.Message, at)
		p.unitInput(c.Message, at)
	case session.InferenceAnswered:
		at.ID, at.Type, at.StepID, at.Done = c.StepID+"/usage", TypeUsage, c.StepID, true
		at.Usage = &Usage{
			Model: c.Model, FinishReason: c.FinishReason, Usage: c.Usage, Cost: c.Cost, Agent: in.Agent, Estimated: in.Estimated, Recalled: c.Recalled, Reasons: c.Reasons,
		}
		p.add(at)
	case session.ToolStarted:
		p.started(c, at)
	case session.ToolFinished:
		p.finished(c, at)
	case session.TaskEvent:
		p.taskEvent(c, at)
	default:
		if !p.pendingChange(change, at) && !p.workflowChange(change, at) && !p.boundary(change, at) {
			p.executionChange(change, at)
		}
	}
}

// status shows a change of status. Always says that it stays when the session
// goes back.
func (p *Projector) status(at Item, s Status, always bool) {
	at.ID, at.Type, at.Done, at.Status = fmt.Sprintf("status/%d", at.Seq), TypeStatus, true, &s
	p.add(at).always = always
}

// executionChange shows what happens to an execution and its window.
func (p *Projector) executionChange(c session.Change, at Item) {
	s := Status{Event: c.Kind()}
	switch c := c.(type) {
	case session.ExecutionStarted:
		p.execution, at.ExecutionID = c.ExecutionID, c.ExecutionID
		s.Status = string(session.ExecutionInProgress)
	case session.ExecutionContinued:
		s.Status = string(session.ExecutionInProgress)
	case session.ExecutionWaiting:
		s.Status = string(session.ExecutionWaits)
	case session.InferenceFailed:
		at.StepID, s.Errors = c.StepID, c.Errors
	case session.ExecutionFinished:
		s.Status, s.Errors = string(c.Status), c.Errors
		if c.Stop != nil {
			s.Reason, s.Message = string(c.Stop.Reason), c.Stop.Message
		}
		p.settle(func(i Item) bool { return i.Unit == "" }, at.Seq)
	case session.WindowMoved:
		s.Strategy, s.From, s.To = string(c.Strategy), c.From, c.To
		if c.Summary != nil {
			s.Summary = c.Summary.Text
		}
	default:
		return
	}
	p.status(at, s, false)
}

// boundary shows what happens to the session as a whole, and takes back what no
// longer counts.
func (p *Projector) boundary(c session.Change, at Item) bool {
	s := Status{Event: c.Kind()}
	switch c := c.(type) {
	case session.SessionCreated:
		s.Status, s.Name = string(c.Header.Status), c.Definition.Name
	case session.SessionForked:
		s.Version = c.Fork.Version
		p.settle(func(i Item) bool { return i.Unit == "" }, at.Seq)
		p.execution = ""
	case session.SessionImported:
		s.Name = c.Format
	case session.StatusChanged:
		s.Status, s.Reason = string(c.Status), c.Reason
	case session.TranscriptCleared:
		p.spans, p.execution = []session.Span{{From: at.Seq + 1}}, ""
		p.respan()
	case session.SessionRewound:
		s.Version = c.Version
		p.rewind(c, at.Seq)
	case session.TailDiscarded:
		s.From, s.To = c.From, c.To
		p.spans = cut(p.spans, c.From, c.To)
		p.discarded = append(p.discarded, session.Span{From: c.From, To: c.To})
		p.respan()
	default:
		return false
	}
	at.ExecutionID = ""
	p.status(at, s, true)
	return true
}

// rewind shows the session as it was at a version. What waited then waits no
// longer.
func (p *Projector) rewind(c session.SessionRewound, seq int64) {
	p.spans, p.execution = nil, ""
	for _, s := range c.Spans {
		if s.From > c.Seq {
			continue
		}
		if s.To == 0 || s.To > c.Seq {
			s.To = c.Seq
		}
		p.spans = append(p.spans, s)
	}
	p.spans = append(p.spans, session.Span{From: seq})
	p.respan()
	if e := c.State.Execution; e != nil {
		p.execution = e.ID
	}
	p.settle(func(Item) bool { return true }, seq)
}

// cut takes a range out of spans.
func cut(spans []session.Span, from, to int64) []session.Span {
	var left []session.Span
	for _, s := range spans {
		if to < s.From || s.To != 0 && from > s.To {
			left = append(left, s)
			continue
		}
		if s.From < from {
			left = append(left, session.Span{From: s.From, To: from - 1})
		}
		if s.To == 0 || s.To > to {
			left = append(left, session.Span{From: to + 1, To: s.To})
		}
	}
	return left
}
