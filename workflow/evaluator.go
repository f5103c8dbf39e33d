package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// evaluator has a draft judged and revised until it is good enough.
type evaluator struct {
	c *spec.Evaluator

	draft     *string
	iteration int // 1 after the draft, n after evaluation n, n+1 after its revision
	history   []spec.Map[any]
	last      *evaluation
	accepted  bool
	revising  bool // an evaluation calls for a revision that is not done
	revised   bool // there was one
	stopped   bool // a person said that it is enough
	latest

	producer, judge []string // units of each agent so far
}

func newEvaluator(c *spec.Evaluator) *evaluator { return &evaluator{c: c, history: []spec.Map[any]{}} }

func (p *evaluator) run(ctx context.Context, r *run) (final, error) {
	maker, _ := r.spec.Agents.Get(p.c.Producer)
	e, err := p.produce(ctx, r, "draft", nil, func() (string, error) {
		return r.render("/agents/"+escapePointer(p.c.Producer)+"/prompt", maker.Prompt, r.scopeWith())
	})
	if err != nil {
		return final{}, err
	}
	p.take(e, 1)
	for n := 2; ; n++ {
		r.emitOnce(fmt.Sprintf("eval/%d#0", n), IterationStart, IterationData{n})
		if err := p.evaluate(ctx, r, n); err != nil {
			return final{}, err
		}
		if p.accepted {
			return p.final(), nil
		}
		if n-1 >= p.c.Accept.MaxIters {
			return final{}, fmt.Errorf("score %d of at least %d after %d evaluations", p.last.Score, p.c.Accept.MinScore, p.c.Accept.MaxIters)
		}
		p.revising = true
		if err := p.gate(ctx, r, n); err != nil {
			return final{}, err
		}
		if p.stopped {
			return p.final(), nil
		}
		if err := p.revise(ctx, r, n); err != nil {
			return final{}, err
		}
	}
}

func (p *evaluator) final() final { return final{*p.draft, p.c.Producer} }

func (p *evaluator) take(e *entry, iteration int) {
	p.draft, p.iteration = ptr(e.response()), iteration
}

// produce has the producer work.
func (p *evaluator) produce(ctx context.Context, r *run, key string, source any, input func() (string, error)) (*entry, error) {
	e, err := r.work(ctx, unit{key: key, agent: p.c.Producer, lane: LaneMain, input: input, earlier: p.earlier(p.c.Producer), source: source})
	if err == nil {
		p.producer = append(p.producer, key)
	}
	return e, err
}

// earlier lists the units of an agent so far, in the order of their execution.
func (p *evaluator) earlier(agent string) []string {
	if p.c.Producer != p.c.Judge.Agent {
		if agent == p.c.Producer {
			return slices.Clone(p.producer)
		}
		return slices.Clone(p.judge)
	}
	var keys []string // one agent does both, in turn
	judged := slices.Clone(p.judge)
	for i, key := range p.producer {
		keys = append(keys, key)
		n := fmt.Sprintf("eval/%d#", i+2)
		for len(judged) > 0 && strings.HasPrefix(judged[0], n) {
			keys, judged = append(keys, judged[0]), judged[1:]
		}
	}
	return keys
}

// evaluate has the draft judged, once more where the answer cannot be read.
func (p *evaluator) evaluate(ctx context.Context, r *run, n int) error {
	for k := range 2 {
		key := fmt.Sprintf("eval/%d#%d", n, k)
		e, err := r.work(ctx, unit{
			key: key, agent: p.c.Judge.Agent, lane: LaneMain, earlier: p.earlier(p.c.Judge.Agent), source: p.c.Judge.Input, data: UnitData{Iteration: &n},
			read: func(text string) (json.RawMessage, error) {
				read, err := readEvaluation(text)
				if err != nil {
					return nil, err
				}
				return json.Marshal(read)
			},
			input: func() (string, error) { return p.judgeInput(r, k > 0) },
		})
		if err != nil {
			return err
		}
		p.judge = append(p.judge, key)
		if e.result.Value == nil {
			continue
		}
		p.last = &evaluation{}
		if err := json.Unmarshal(e.result.Value, p.last); err != nil {
			return fmt.Errorf("read the evaluation of %s: %w", key, err)
		}
		p.iteration = n
		p.accepted = p.last.Score >= p.c.Accept.MinScore
		p.history = append(p.history, p.historyEntry(n))
		return nil
	}
	return &unusableAnswer{p.judge[len(p.judge)-2:], fmt.Errorf("evaluation %d could not be read after 2 tries", n)}
}

func (p *evaluator) judgeInput(r *run, again bool) (string, error) {
	switch {
	case again:
		return evaluateAgainText(*p.draft), nil
	case p.c.Judge.Input == nil:
		return evaluatorText(*p.draft), nil
	}
	scope := merge(template.Scope{"draft": template.Str(*p.draft)}, r.base)
	return r.render("/pattern/config/evaluator/input", *p.c.Judge.Input, scope)
}

func (p *evaluator) historyEntry(n int) spec.Map[any] {
	e := p.last
	return spec.Map[any]{
		{Name: "iteration", Value: n}, {Name: "score", Value: e.Score}, {Name: "issues", Value: e.Issues}, {Name: "fixes", Value: e.Fixes},
		{Name: "draft_preview", Value: beginning(*p.draft, 100)}, {Name: "draft", Value: *p.draft},
		{Name: "evaluation", Value: spec.Map[any]{
			{Name: "score", Value: e.Score}, {Name: "issues", Value: e.Issues}, {Name: "fixes", Value: e.Fixes},
			{Name: "feedback", Value: strings.Join(e.Issues, "; ")},
		}},
	}
}

// gate lets a person stop before a revision.
func (p *evaluator) gate(ctx context.Context, r *run, n int) error {
	if p.c.Gate == nil {
		return nil
	}
	index := n - 2
	scope := merge(template.Scope{
		"iteration_index": template.Int(index), "iterations": value(p.history), "current_draft": template.Str(*p.draft),
		"current_evaluation": p.evaluationValue(),
	}, r.base)
	err := p.askPerson(ctx, r, prompt{
		unit: fmt.Sprintf("gate/%d", n), ask: p.c.Gate, pointer: "/pattern/config/review_gate", scope: scope,
		place: HITLState{IterationIndex: &index},
	})
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(*p.answer)) {
	case "stop", "abort", "end":
		p.stopped = true
	}
	return nil
}

func (p *evaluator) evaluationValue() template.Value {
	return value(spec.Map[any]{{Name: "score", Value: p.last.Score}, {Name: "issues", Value: p.last.Issues}, {Name: "fixes", Value: p.last.Fixes}})
}

func (p *evaluator) revise(ctx context.Context, r *run, n int) error {
	e, err := p.produce(ctx, r, fmt.Sprintf("revise/%d", n), p.c.RevisePrompt, func() (string, error) {
		if p.c.RevisePrompt == nil {
			return reviseText(*p.draft, *p.last), nil
		}
		scope := merge(template.Scope{"draft": template.Str(*p.draft), "iteration": template.Int(n), "evaluation": p.evaluationValue()}, r.base, p.answerScope())
		return r.render("/pattern/config/revise_prompt", *p.c.RevisePrompt, scope)
	})
	if err != nil {
		return err
	}
	p.take(e, n+1)
	p.revising, p.revised = false, true
	return nil
}

func (p *evaluator) state() spec.Map[any] {
	if p.draft == nil {
		return spec.Map[any]{}
	}
	state := spec.Map[any]{
		{Name: "current_iteration", Value: p.iteration}, {Name: "current_draft", Value: *p.draft}, {Name: "iteration_history", Value: p.history},
		{Name: "final_score", Value: 0}, {Name: "accepted", Value: p.accepted},
	}
	if p.last != nil {
		state = state.With("final_score", p.last.Score)
	}
	switch {
	case p.revising:
		state = state.With("pending_revision", true)
	case p.revised && p.c.Gate != nil:
		state = state.With("pending_revision", false)
	}
	return p.withQuestion(state)
}

func (p *evaluator) scope() template.Scope {
	scope := template.Scope{
		"iterations": template.Int(len(p.history)), "final_score": template.Int(0), "min_score": template.Int(p.c.Accept.MinScore),
		"max_iters": template.Int(p.c.Accept.MaxIters), "history": value(p.history),
		"last_evaluation": value(spec.Map[any]{{Name: "score", Value: 0}, {Name: "issues", Value: []string{}}, {Name: "fixes", Value: []string{}}}),
	}
	if p.last != nil {
		scope["final_score"], scope["last_evaluation"] = template.Int(p.last.Score), p.evaluationValue()
	}
	if p.stopped {
		scope["early_termination"], scope["termination_reason"] = template.Bool(true), template.Str("user_requested_at_resume")
	}
	return scope
}
