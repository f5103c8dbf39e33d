package spec

import "github.com/holdfast-dev/holdfast/internal/document"

// PatternType is how the agents of a spec work together.
type PatternType string

// The patterns.
const (
	ChainPattern        PatternType = "chain"
	WorkflowPattern     PatternType = "workflow"
	RoutingPattern      PatternType = "routing"
	ParallelPattern     PatternType = "parallel"
	EvaluatorPattern    PatternType = "evaluator_optimizer"
	OrchestratorPattern PatternType = "orchestrator_workers"
	GraphPattern        PatternType = "graph"
)

// Pattern is a type and its config: of the pointers the one of the type is
// set. A config of another shape leaves all nil; Check says what is wrong
// with it.
type Pattern struct {
	Type         PatternType
	Chain        *Chain
	Workflow     *Workflow
	Routing      *Routing
	Parallel     *Parallel
	Evaluator    *Evaluator
	Orchestrator *Orchestrator
	Graph        *Graph

	misfit *misfit
}

// misfit is a config that is not of its type's shape.
type misfit struct {
	config  Map[any]
	missing []string
	foreign Map[PatternType] // keys of other types
	own     *document.Node   // what is left without them
}

// MarshalJSON writes the type and its config.
func (p Pattern) MarshalJSON() ([]byte, error) {
	return marshal(Map[any]{{"type", p.Type}, {"config", p.config()}})
}

func (p Pattern) config() any {
	switch {
	case p.misfit != nil:
		return p.misfit.config
	case p.Chain != nil:
		return p.Chain
	case p.Workflow != nil:
		return p.Workflow
	case p.Routing != nil:
		return p.Routing
	case p.Parallel != nil:
		return p.Parallel
	case p.Evaluator != nil:
		return p.Evaluator
	case p.Orchestrator != nil:
		return p.Orchestrator
	case p.Graph != nil:
		return p.Graph
	}
	return Map[any]{}
}

// Step is one call of an agent, or one question to a person where Ask is set.
type Step struct {
	Agent         string   `json:"agent"`
	Input         string   `json:"input,omitempty"`
	Vars          Map[any] `json:"vars,omitempty"`
	ToolOverrides []string `json:"tool_overrides,omitempty"`
	Ask           *Ask     `json:"-"`
}

// MarshalJSON writes the agent's step or the question.
func (s Step) MarshalJSON() ([]byte, error) {
	type plain Step
	return marshalOr(s.Ask, plain(s))
}

func marshalOr(ask *Ask, step any) ([]byte, error) {
	if ask != nil {
		step = ask
	}
	return marshal(step)
}

// Ask is a question to a person. Default is the answer when time is up; with
// no timeout there is no end to wait for.
type Ask struct {
	Prompt         string  `json:"prompt"`
	ContextDisplay string  `json:"context_display,omitempty"`
	Default        *string `json:"default,omitempty"`
	TimeoutSeconds int     `json:"timeout_seconds,omitempty"`
	Pattern        *string `json:"-"` // what an answer to a gate must match
}

// MarshalJSON writes the question as a step.
func (a Ask) MarshalJSON() ([]byte, error) {
	type plain Ask
	type validation struct {
		Pattern *string `json:"pattern"`
	}
	out := struct {
		Type string `json:"type"`
		plain
		Validation *validation `json:"validation,omitempty"`
	}{Type: "hitl", plain: plain(a)}
	if a.Pattern != nil {
		out.Validation = &validation{a.Pattern}
	}
	return marshal(out)
}

// Chain is steps one after the other.
type Chain struct {
	Steps []Step `json:"steps"`
}

// Workflow is tasks that depend on each other.
type Workflow struct {
	Tasks []Task `json:"tasks"`
}

// Task is one call of an agent, or one question where Ask is set, once every
// task of Deps is done.
type Task struct {
	ID          string   `json:"id"`
	Agent       string   `json:"agent"`
	Deps        []string `json:"deps,omitempty"`
	Description string   `json:"description,omitempty"` // never sent
	Input       string   `json:"input,omitempty"`
	Ask         *Ask     `json:"-"`
}

// MarshalJSON writes the agent's task or the question.
func (t Task) MarshalJSON() ([]byte, error) {
	if t.Ask != nil {
		type plain Ask
		return marshal(struct {
			ID   string `json:"id"`
			Type string `json:"type"`
			plain
			Deps []string `json:"deps,omitempty"`
		}{t.ID, "hitl", plain(*t.Ask), t.Deps})
	}
	type plain Task
	return marshal(plain(t))
}

// Routing is an agent that chooses which steps to run.
type Routing struct {
	Router Router     `json:"router"`
	Routes Map[Route] `json:"routes"`
}

// Router chooses. Review, where it is set, lets a person overrule it.
type Router struct {
	Agent      string `json:"agent"`
	Input      string `json:"input,omitempty"`
	MaxRetries int    `json:"max_retries"`
	Review     *Ask   `json:"review_router,omitempty"`
}

// Route is the steps of one choice.
type Route struct {
	Then []Step `json:"then,omitempty"`
}

// Parallel is branches at the same time, and what becomes of their results. With
// ForEach, Branches are those of its items.
type Parallel struct {
	Branches []Branch `json:"branches"`
	ForEach  *ForEach `json:"for_each,omitempty"`
	Reduce   *Step    `json:"reduce,omitempty"`
}

// MarshalJSON writes the branches, or what makes them.
func (p Parallel) MarshalJSON() ([]byte, error) {
	type plain Parallel
	if p.ForEach == nil {
		return marshal(plain(p))
	}
	return marshal(struct {
		ForEach *ForEach `json:"for_each"`
		Reduce  *Step    `json:"reduce,omitempty"`
	}{p.ForEach, p.Reduce})
}

// Branch is a chain of its own.
type Branch struct {
	ID    string `json:"id"`
	Steps []Step `json:"steps"`
	Item  any    `json:"-"` // of a ForEach
}

// Evaluator is a draft that is judged and revised until it is good enough. A
// nil RevisePrompt, like a nil Judge.Input, leaves the words to the engine.
type Evaluator struct {
	Producer     string  `json:"producer"`
	Judge        Judge   `json:"evaluator"`
	Accept       Accept  `json:"accept"`
	RevisePrompt *string `json:"revise_prompt,omitempty"`
	Gate         *Ask    `json:"review_gate,omitempty"`
}

// Judge is the agent that gives the scores.
type Judge struct {
	Agent string  `json:"agent"`
	Input *string `json:"input,omitempty"`
}

// Accept is when a draft is good enough, and when to give up.
type Accept struct {
	MinScore int `json:"min_score"`
	MaxIters int `json:"max_iters"`
}

// Orchestrator is an agent that makes a plan, and workers that carry it out.
type Orchestrator struct {
	Planner             Planner `json:"orchestrator"`
	Worker              Worker  `json:"worker_template"`
	DecompositionReview *Ask    `json:"decomposition_review,omitempty"`
	ReduceReview        *Ask    `json:"reduce_review,omitempty"`
	Reduce              *Step   `json:"reduce,omitempty"`
	Writeup             *Step   `json:"writeup,omitempty"`
}

// Planner makes the plan.
type Planner struct {
	Agent  string `json:"agent"`
	Limits Limits `json:"limits,omitzero"`
}

// Limits bound the workers. A nil field is no bound.
type Limits struct {
	MaxWorkers *int `json:"max_workers,omitempty"`
	MaxRounds  *int `json:"max_rounds,omitempty"`
}

// Worker is the agent every task of a plan is given to.
type Worker struct {
	Agent string   `json:"agent"`
	Tools []string `json:"tools,omitempty"`
}

// Graph is nodes that lead to each other. The first is where it starts.
type Graph struct {
	MaxIterations int       `json:"max_iterations"`
	Nodes         Map[Node] `json:"nodes"`
	Edges         []Edge    `json:"edges"`
}

// Node is one call of an agent, or one question where Ask is set. A nil Input
// leaves the words to the engine.
type Node struct {
	Agent string  `json:"agent"`
	Input *string `json:"input,omitempty"`
	Ask   *Ask    `json:"-"`
}

// MarshalJSON writes the agent's node or the question.
func (n Node) MarshalJSON() ([]byte, error) {
	type plain Node
	return marshalOr(n.Ask, plain(n))
}

// Edge leads from a node to the one of To, or to that of the first Choice
// whose condition is true. Without either it ends the run.
type Edge struct {
	From   string   `json:"from"`
	To     []string `json:"to,omitempty"`
	Choose []Choice `json:"choose,omitempty"`
}

// Choice is a condition and where it leads.
type Choice struct {
	When string `json:"when"`
	To   string `json:"to"`
}
