package spec

import (
	"slices"

	"github.com/holdfast-dev/holdfast/internal/document"
)

func patternField(pat *Pattern) field {
	return func(v value) {
		keys(
			must("type", document.OneOf(patternTypes...)(&pat.Type)),
			must("config", func(v value) { v.Is(document.Map) }),
		)(v)
		config := v.Key("config")
		if config.Node == nil || config.Kind != document.Map || !slices.Contains(patternTypes, pat.Type) {
			return
		}
		fields := configFields(pat)
		if pat.Parallel != nil && config.Get("for_each") != nil {
			fields[0].Required = false // its branches are made
			if config.Get("branches") != nil {
				config.Problem("has both branches and for_each; keep one")
			}
		}
		if pat.misfit = fit(config.Node, fields); pat.misfit != nil {
			config.Node = pat.misfit.own
		}
		keys(fields...)(config)
		if pat.misfit != nil {
			*pat = Pattern{Type: pat.Type, misfit: pat.misfit}
		}
	}
}

var patternTypes = []PatternType{
	ChainPattern, WorkflowPattern, RoutingPattern, ParallelPattern, EvaluatorPattern, OrchestratorPattern, GraphPattern,
}

// fit compares a config with the shape of its type: nil if it has all the
// keys it needs and none of another type. What it has of its own is still
// read, so that a misfit hides no other mistake; the fields are no longer
// required then.
func fit(config *document.Node, fields []document.Key) *misfit {
	m := misfit{own: &document.Node{Kind: document.Map, File: config.File, Line: config.Line}}
	for _, f := range fields {
		if f.Required && config.Get(f.Name) == nil {
			m.missing = append(m.missing, f.Name)
		}
	}
	for _, e := range config.Entries {
		own := slices.ContainsFunc(fields, func(f document.Key) bool { return f.Name == e.Key })
		if owner := ownerOf(e.Key); !own && owner != "" {
			m.foreign = append(m.foreign, Entry[PatternType]{e.Key, owner})
			continue
		}
		m.own.Entries = append(m.own.Entries, e)
	}
	if m.missing == nil && m.foreign == nil {
		return nil
	}
	for i := range fields {
		fields[i].Required = false
	}
	m.config = entriesOf(config)
	return &m
}

// ownerOf is the first type whose config has a key.
func ownerOf(name string) PatternType {
	for _, t := range patternTypes {
		fields := configFields(&Pattern{Type: t})
		if slices.ContainsFunc(fields, func(f document.Key) bool { return f.Name == name }) {
			return t
		}
	}
	return ""
}

// configFields are the keys of a type's config, read into a place made for it.
func configFields(pat *Pattern) []document.Key {
	switch pat.Type {
	case ChainPattern:
		pat.Chain = &Chain{}
		return []document.Key{must("steps", some(1, &pat.Chain.Steps, stepField))}
	case WorkflowPattern:
		pat.Workflow = &Workflow{}
		return []document.Key{must("tasks", some(1, &pat.Workflow.Tasks, taskField))}
	case RoutingPattern:
		pat.Routing = &Routing{}
		return routingFields(pat.Routing)
	case ParallelPattern:
		pat.Parallel = &Parallel{}
		return []document.Key{
			must("branches", some(2, &pat.Parallel.Branches, branchField)),
			may("for_each", document.Ptr(&pat.Parallel.ForEach, forEachField)),
			may("reduce", document.Ptr(&pat.Parallel.Reduce, stepField)),
		}
	case EvaluatorPattern:
		pat.Evaluator = &Evaluator{}
		return evaluatorFields(pat.Evaluator)
	case OrchestratorPattern:
		pat.Orchestrator = &Orchestrator{}
		return orchestratorFields(pat.Orchestrator)
	case GraphPattern:
		pat.Graph = &Graph{MaxIterations: 10}
		return []document.Key{
			may("max_iterations", atLeast(1)(&pat.Graph.MaxIterations)),
			must("nodes", someOf(&pat.Graph.Nodes, nodeField)),
			must("edges", some(1, &pat.Graph.Edges, edgeField)),
		}
	}
	return nil
}

func stepField(s *Step) field {
	return agentOrAsk(&s.Ask, nil,
		must("agent", filled(&s.Agent)),
		may("input", str(&s.Input)),
		may("vars", mapOf(&s.Vars, scalar)),
		may("tool_overrides", document.ListOf(&s.ToolOverrides, filled)),
	)
}

// agentOrAsk takes the keys of an agent's step, or of a question. Both may
// have the shared keys.
func agentOrAsk(ask **Ask, shared []document.Key, agent ...document.Key) field {
	return func(v value) {
		own := agent
		if asks(v.Node) {
			*ask = &Ask{}
			own = askKeys(*ask)
		}
		keys(append(shared, own...)...)(v)
	}
}

// asks tells a question from an agent's step: only questions have a type.
func asks(n *document.Node) bool { return n.Get("type") != nil }

// askField takes a question.
func askField(a *Ask) field { return onlyAsk(keys(askKeys(a)...)) }

// gateField takes a question that may say what its answer must match.
func gateField(a *Ask) field {
	validation := keys(must("pattern", document.Ptr(&a.Pattern, func(s *string) field { return document.Checked(s, checkPattern) })))
	return onlyAsk(keys(append(askKeys(a), may("validation", validation))...))
}

// onlyAsk refuses an agent's step where a person is to be asked.
func onlyAsk(read field) field {
	return func(v value) {
		if v.Kind == document.Map && !asks(v.Node) {
			v.Problem("is not a question to a person; write type: hitl and a prompt")
			return
		}
		read(v)
	}
}

func askKeys(a *Ask) []document.Key {
	var kind string
	return []document.Key{
		must("type", document.OneOf("hitl")(&kind)),
		must("prompt", filled(&a.Prompt)),
		may("context_display", str(&a.ContextDisplay)),
		may("default", document.Ptr(&a.Default, str)),
		may("timeout_seconds", atLeast(0)(&a.TimeoutSeconds)),
	}
}

func taskField(t *Task) field {
	return agentOrAsk(&t.Ask, []document.Key{must("id", filled(&t.ID)), may("deps", unique(&t.Deps, filled))},
		must("agent", filled(&t.Agent)),
		may("description", str(&t.Description)),
		may("input", str(&t.Input)),
	)
}

func routingFields(c *Routing) []document.Key {
	c.Router.MaxRetries = 2
	router := &c.Router
	return []document.Key{
		must("router", keys(
			must("agent", filled(&router.Agent)),
			may("input", str(&router.Input)),
			may("max_retries", atLeast(0)(&router.MaxRetries)),
			may("review_router", document.Ptr(&router.Review, askField)),
		)),
		must("routes", someOf(&c.Routes, func(route *Route) field {
			return keys(may("then", document.ListOf(&route.Then, stepField)))
		})),
	}
}

func branchField(b *Branch) field {
	return keys(
		must("id", filled(&b.ID)),
		must("steps", some(1, &b.Steps, stepField)),
	)
}

func evaluatorFields(c *Evaluator) []document.Key {
	c.Accept.MaxIters = 3
	return []document.Key{
		must("producer", filled(&c.Producer)),
		must("evaluator", keys(
			must("agent", filled(&c.Judge.Agent)),
			may("input", document.Ptr(&c.Judge.Input, str)),
		)),
		must("accept", keys(
			must("min_score", document.Int(0, 100)(&c.Accept.MinScore)),
			may("max_iters", atLeast(1)(&c.Accept.MaxIters)),
		)),
		may("revise_prompt", document.Ptr(&c.RevisePrompt, str)),
		may("review_gate", document.Ptr(&c.Gate, gateField)),
	}
}

func orchestratorFields(c *Orchestrator) []document.Key {
	limits := &c.Planner.Limits
	return []document.Key{
		must("orchestrator", keys(
			must("agent", filled(&c.Planner.Agent)),
			may("limits", keys(
				may("max_workers", document.Ptr(&limits.MaxWorkers, atLeast(1))),
				may("max_rounds", document.Ptr(&limits.MaxRounds, atLeast(1))),
			)),
		)),
		must("worker_template", keys(
			must("agent", filled(&c.Worker.Agent)),
			may("tools", document.ListOf(&c.Worker.Tools, filled)),
		)),
		may("decomposition_review", document.Ptr(&c.DecompositionReview, gateField)),
		may("reduce_review", document.Ptr(&c.ReduceReview, gateField)),
		may("reduce", document.Ptr(&c.Reduce, stepField)),
		may("writeup", document.Ptr(&c.Writeup, stepField)),
	}
}

func nodeField(n *Node) field {
	return agentOrAsk(&n.Ask, nil, must("agent", filled(&n.Agent)), may("input", document.Ptr(&n.Input, str)))
}

func edgeField(e *Edge) field {
	return func(v value) {
		keys(
			must("from", filled(&e.From)),
			may("to", document.ListOf(&e.To, filled)),
			may("choose", document.ListOf(&e.Choose, func(c *Choice) field {
				return keys(must("when", filled(&c.When)), must("to", filled(&c.To)))
			})),
		)(v)
		if v.Get("to") != nil && v.Get("choose") != nil {
			v.Problem("has both to and choose; keep one")
		}
	}
}
