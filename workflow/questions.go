package workflow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// prompt is a place in the spec where a person is asked. Place has the fields
// that say where it is.
type prompt struct {
	unit    string
	ask     *spec.Ask
	pointer string
	scope   template.Scope
	place   HITLState
	check   func(answer string) error // of an answer that the pattern accepts
}

// trial is an answer that is checked before it is written.
type trial struct {
	unit, text string
	expired    bool // nobody gave it: what it decides counts, not its form
	refused    error
}

// ask returns a person's answer, or errWaiting once the question is asked.
func (r *run) ask(ctx context.Context, p prompt) (HITLState, error) {
	state, asked, answered := r.find(p)
	switch {
	case answered:
		return state, nil
	case asked:
		return state, errWaiting
	case r.runner == nil:
		return state, errUnfinished
	}
	if err := r.runner.ask(ctx, r, p); err != nil {
		return state, err
	}
	state, _, _ = r.find(p)
	return state, errWaiting
}

// latest is the last question of a pattern, and the last answer.
type latest struct {
	hitl   *HITLState
	answer *string
}

// askPerson asks and keeps the question and its answer.
func (l *latest) askPerson(ctx context.Context, r *run, p prompt) error {
	state, err := r.ask(ctx, p)
	if state.Unit != "" {
		l.hitl = &state
	}
	if err == nil {
		l.answer = state.UserResponse
	}
	return err
}

// answerScope returns what templates see of the answer, once there is one.
func (l *latest) answerScope() template.Scope {
	if l.answer == nil {
		return nil
	}
	return template.Scope{"hitl_response": template.Str(*l.answer)}
}

// withQuestion adds the question to the state of a pattern.
func (l *latest) withQuestion(state spec.Map[any]) spec.Map[any] {
	if l.hitl == nil {
		return state
	}
	return state.With("hitl_state", *l.hitl)
}

// find looks up the question that was asked at a place.
func (r *run) find(p prompt) (state HITLState, asked, answered bool) {
	if r.recorder != nil {
		r.recorder.question(p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.prompts, func(known prompt) bool { return known.unit == p.unit }) {
		r.prompts = append(r.prompts, p)
	}
	q := r.index.questions[p.unit]
	if q == nil {
		return HITLState{}, false, false
	}
	r.reach(p.unit, nil)
	if r.trial != nil && r.trial.unit == p.unit && q.answer == nil {
		r.trial.refused = p.refuse(*r.trial)
	}
	if r.runner == nil && q.answer != nil {
		r.finished = append(r.finished, source{p.unit, "", fingerprint(p.ask)})
	}
	return q.state(p.place), true, q.answer != nil
}

// refuse returns why an answer cannot be taken here; nil where it can.
func (p prompt) refuse(t trial) error {
	if !t.expired {
		ok, err := p.ask.Takes(t.text)
		switch {
		case err != nil:
			return &session.InvalidError{Field: "answer", Reason: err.Error()}
		case !ok:
			return &session.InvalidError{Field: "answer", Reason: fmt.Sprintf("%q does not match %q", t.text, *p.ask.Pattern)}
		}
	}
	if p.check != nil {
		return p.check(t.text)
	}
	return nil
}

// state shows a question as the state of a run does.
func (q *question) state(place HITLState) HITLState {
	state := pendingState(q.PendingCall, place)
	state.Active, state.UserResponse = q.answer == nil, q.answer
	return state
}

func pendingState(p session.PendingCall, place HITLState) HITLState {
	place.Unit, place.PendingID, place.Active = p.Unit, p.ID, true
	place.Prompt, place.ContextDisplay, place.DefaultResponse = p.Prompt, p.Context, p.Default
	if p.ExpiresAt != nil {
		place.TimeoutAt = ptr(iso8601(*p.ExpiresAt))
	}
	for _, c := range p.Choices {
		place.Choices = append(place.Choices, c.Value)
	}
	return place
}

// openQuestions lists the questions without an answer that the program reached,
// in the order of the spec when the program only replays, and after them those
// that agents ask from within their units.
func (r *run) openQuestions(s session.Session) []HITLState {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []HITLState
	for _, p := range r.prompts {
		if q := r.index.questions[p.unit]; q != nil && q.answer == nil {
			list = append(list, q.state(p.place))
		}
	}
	for _, p := range waitingCalls(s) {
		if p.Kind == session.PendingQuestion && !p.BySpec() {
			list = append(list, pendingState(p, HITLState{}))
		}
	}
	return list
}

// waitingCalls lists the pending calls without a response.
func waitingCalls(s session.Session) []session.PendingCall {
	return slices.DeleteFunc(s.PendingCalls(), func(p session.PendingCall) bool { return !p.Waiting() })
}

// call renders the question of a place as a pending call. A text that cannot be
// rendered is shown as it is, or as the reason: it never fails a run.
func (r *run) call(p prompt) session.PendingCall {
	r.mu.Lock()
	before, again := r.index.withdrawn[p.unit]
	r.mu.Unlock()
	id := session.QuestionID(p.unit)
	if again {
		id = nextID(session.PendingCall{ID: before, Unit: p.unit})
	}
	call := session.PendingCall{ID: id, Kind: session.PendingQuestion, Unit: p.unit, Prompt: p.ask.Prompt, Default: p.ask.Default}
	if template.HasDelimiters(call.Prompt) {
		t, err := template.Options{KeepNewline: true}.Compile(p.pointer+"/prompt", call.Prompt)
		if err == nil {
			call.Prompt, err = t.Render(p.scope)
		}
		if err != nil {
			call.Prompt = p.ask.Prompt
			r.warn("the prompt of %s is shown unrendered: %v", p.unit, err)
		}
	}
	if p.ask.ContextDisplay == "" {
		return call
	}
	var err error
	if call.Context, err = r.render(p.pointer+"/context_display", p.ask.ContextDisplay, p.scope); err != nil {
		r.warn("the context of %s cannot be rendered: %v", p.unit, err)
		call.Context = fmt.Sprintf("(Failed to render context: %v)", err)
	}
	return call
}

// expiry returns when a question that is asked now expires.
func (p prompt) expiry(now time.Time) *time.Time {
	if p.ask.TimeoutSeconds <= 0 {
		return nil
	}
	return ptr(now.Add(time.Duration(p.ask.TimeoutSeconds) * time.Second))
}

func ptr[T any](v T) *T { return &v }
