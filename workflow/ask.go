package workflow

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// question is a step that a person takes. Place has the fields that say where
// it stands.
type question struct {
	unit    string
	ask     *spec.Ask
	pointer string
	scope   template.Scope
	place   HITLState
	check   func(answer string) error // of an answer that the pattern lets through
}

// takes is nil for an answer the question can take.
func (q question) takes(a reply) error {
	if !a.expired {
		ok, err := q.ask.Takes(a.text)
		switch {
		case err != nil:
			return &session.InvalidError{Field: "answer", Reason: err.Error()}
		case !ok:
			return &session.InvalidError{Field: "answer", Reason: fmt.Sprintf("%q does not match %q", a.text, *q.ask.Pattern)}
		}
	}
	if q.check != nil {
		return q.check(a.text)
	}
	return nil
}

// asked looks a question up. State is what stands in the state of the run;
// answered says that a person has spoken.
func (r *run) asked(q question) (state HITLState, put, answered bool) {
	if r.recorder != nil {
		r.recorder.question(q)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.asks, func(known question) bool { return known.unit == q.unit }) {
		r.asks = append(r.asks, q)
	}
	found := r.book.questions[q.unit]
	if found == nil {
		return HITLState{}, false, false
	}
	if r.reply != nil && r.reply.unit == q.unit && found.answer == nil {
		r.reply.refused = q.takes(*r.reply)
	}
	if r.stage == nil && found.answer != nil {
		r.trail = append(r.trail, trace{q.unit, "", fingerprint(q.ask)})
	}
	return found.state(q.place), true, found.answer != nil
}

// state is a question as the state of a run shows it.
func (a *asked) state(place HITLState) HITLState {
	place.Unit, place.Active, place.UserResponse = a.Unit, a.answer == nil, a.answer
	place.Prompt, place.ContextDisplay, place.DefaultResponse = a.Prompt, a.Context, a.Default
	if a.TimeoutAt != nil {
		at := iso8601(*a.TimeoutAt)
		place.TimeoutAt = &at
	}
	return place
}

// ask is a person's answer, or errWaiting once the question is put.
func (r *run) ask(ctx context.Context, q question) (HITLState, error) {
	state, put, answered := r.asked(q)
	switch {
	case answered:
		return state, nil
	case put:
		return state, errWaiting
	case r.stage == nil:
		return state, errPending
	}
	if err := r.stage.put(ctx, r, q); err != nil {
		return state, err
	}
	state, _, _ = r.asked(q)
	return state, errWaiting
}

// openQuestions are those that wait, in the order of the spec when the program
// has only looked.
func (r *run) openQuestions() []HITLState {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []HITLState
	for _, q := range r.asks {
		if a := r.book.questions[q.unit]; a != nil && a.answer == nil {
			list = append(list, a.state(q.place))
		}
	}
	return list
}

// shown is what a person reads of a question. A text that cannot be rendered
// is shown as it is, or as the reason: it never fails a run.
func (r *run) shown(q question) (prompt, context string) {
	prompt = q.ask.Prompt
	if template.HasDelimiters(prompt) {
		t, err := template.Options{KeepNewline: true}.Compile(q.pointer+"/prompt", prompt)
		if err == nil {
			prompt, err = t.Render(q.scope)
		}
		if err != nil {
			prompt = q.ask.Prompt
			r.warn("the prompt of %s is shown unrendered: %v", q.unit, err)
		}
	}
	if q.ask.ContextDisplay == "" {
		return prompt, ""
	}
	t, err := template.Compile(q.pointer+"/context_display", q.ask.ContextDisplay)
	if err == nil {
		context, err = t.Render(q.scope)
	}
	if err != nil {
		r.warn("the context of %s cannot be rendered: %v", q.unit, err)
		return prompt, fmt.Sprintf("(Failed to render context: %v)", err)
	}
	return prompt, context
}

func ptr[T any](v T) *T { return &v }
