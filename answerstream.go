package holdfast

import (
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// AnswerStream sends the answers of one unit of a session to all who follow
// the session in this process, a piece at a time and without secrets. Its
// methods never wait for a follower and may be called from several goroutines.
type AnswerStream struct {
	rt        *Runtime
	broadcast *broadcast
	unit      string
	base      func() int64    // the last change in the log
	forward   func(llm.Delta) // also gets every piece; may be nil
	onClose   func()          // may be nil

	mu        sync.Mutex // guards the rest
	answer    *answer    // nil: the model was not asked yet
	held      string     // the end of the text so far, which may be the beginning of a secret
	reasoning bool       // held is reasoning
	closed    bool
}

// openAnswers opens a stream. The caller closes it.
func (rt *Runtime) openAnswers(ref store.Ref, unit string, base func() int64, forward func(llm.Delta)) *AnswerStream {
	return &AnswerStream{rt: rt, broadcast: rt.broadcasts.join(ref), unit: unit, base: base, forward: forward}
}

// Begin starts the answer that will open a step, when the model is asked. The
// answer before it is in the log by then, or void.
func (s *AnswerStream) Begin(executionID, stepID string, attempt int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.held = ""
	s.answer = &answer{name: Attempt{Unit: s.unit, ExecutionID: executionID, StepID: stepID, Number: attempt}, base: s.base()}
	s.broadcast.begin(s.answer)
}

// Emit sends a piece of the answer. Secrets are masked, also those that come in
// several pieces. Before the first answer begins it does nothing.
func (s *AnswerStream) Emit(d llm.Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.answer == nil:
		return
	case len(s.rt.secrets) == 0:
		s.send(d)
		return
	}
	s.mask(d.Reasoning, true)
	s.mask(d.Text, false)
	if d.ToolCall == nil {
		return
	}
	s.release()
	call := cloneCall(d.ToolCall)
	if len(call.Arguments) > 0 {
		masked, err := s.rt.redactJSON(call.Arguments)
		if err != nil { // what cannot be read may hold anything
			masked = nil
		}
		call.Arguments = masked
	}
	s.send(llm.Delta{ToolCall: call})
}

// Drop makes the pieces of the answer void, as its attempt failed. What is
// emitted next belongs to the next attempt at the same step.
func (s *AnswerStream) Drop(failed agent.Notice) Dropped {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = ""
	d := Dropped{Again: failed.Retry, PauseSeconds: failed.Pause.Seconds()}
	if failed.Err != nil {
		d.Reason = s.rt.redactText(llm.Reason(failed.Err))
	}
	if s.answer != nil {
		d.Attempt = s.answer.name
		s.answer = s.broadcast.drop(s.answer, d)
	}
	return d
}

// Close ends the stream. An answer without a record is void.
func (s *AnswerStream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.answer != nil {
		s.broadcast.end(s.answer)
		s.answer = nil
	}
	s.rt.broadcasts.leave(s.broadcast)
	if s.onClose != nil {
		s.onClose()
	}
}

// beforeAppend is called with a change that is about to be written. All of an
// answer is sent before its record can be read, and it is void before a change
// can be read that rules its record out.
func (s *AnswerStream) beforeAppend(c session.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer == nil {
		return
	}
	if unit, step := AnsweredStep(c); unit == s.unit && step == s.answer.name.StepID {
		s.release()
		s.broadcast.settle(s.answer, true)
		return
	}
	over := false
	switch c := c.(type) {
	case session.InferenceFailed, session.ExecutionFinished, session.ExecutionContinued:
		over = s.unit == ""
	case session.UnitFailed:
		over = s.unit == c.Unit
	}
	if over && !s.answer.written {
		s.broadcast.settle(s.answer, false)
	}
}

// AnsweredStep returns the unit and the step that a change is the answer of,
// whose deltas it ends; no step for any other change.
func AnsweredStep(c session.Change) (unit, step string) {
	if in, ok := c.(session.UnitAdvanced); ok {
		unit, c = in.Unit, in.Change
	}
	answered, _ := c.(session.InferenceAnswered)
	return unit, answered.StepID
}

// mask sends text without secrets. An end that may be the beginning of one is
// held until more comes.
func (s *AnswerStream) mask(text string, reasoning bool) {
	if text == "" {
		return
	}
	if s.reasoning != reasoning {
		s.release()
		s.reasoning = reasoning
	}
	text = s.rt.redactText(s.held + text)
	n := s.rt.secretBegun(text)
	s.held = text[len(text)-n:]
	s.sendText(text[:len(text)-n])
}

// release sends what was held: nothing has made a secret of it.
func (s *AnswerStream) release() {
	text := s.held
	s.held = ""
	s.sendText(text)
}

func (s *AnswerStream) sendText(text string) {
	switch {
	case text == "":
	case s.reasoning:
		s.send(llm.Delta{Reasoning: text})
	default:
		s.send(llm.Delta{Text: text})
	}
}

func (s *AnswerStream) send(d llm.Delta) {
	s.broadcast.add(s.answer, d)
	if s.forward != nil {
		s.forward(d)
	}
}

// secretBegun returns how many bytes at the end of a text may be the beginning
// of a secret.
func (rt *Runtime) secretBegun(text string) int {
	longest := 0
	for _, s := range rt.secrets {
		for n := min(len(s.value)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, s.value[:n]) {
				longest = n
			}
		}
	}
	return longest
}
