package spec

import "slices"

func patternField(pat *Pattern) field {
	return func(r *reader, p string, n *node) {
		keys(
			must("type", oneOf(patternTypes...)(&pat.Type)),
			must("config", func(r *reader, p string, n *node) { r.is(p, n, object) }),
		)(r, p, n)
		config := n.get("config")
		if config == nil || config.kind != object || !slices.Contains(patternTypes, pat.Type) {
			return
		}
		fields := configFields(pat)
		if pat.misfit = fit(config, fields); pat.misfit != nil {
			config = pat.misfit.own
		}
		keys(fields...)(r, child(p, "config"), config)
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
func fit(config *node, fields []key) *misfit {
	m := misfit{own: &node{kind: object, file: config.file, line: config.line}}
	for _, f := range fields {
		if f.required && config.get(f.name) == nil {
			m.missing = append(m.missing, f.name)
		}
	}
	for _, e := range config.entries {
		own := slices.ContainsFunc(fields, func(f key) bool { return f.name == e.key })
		if owner := ownerOf(e.key); !own && owner != "" {
			m.foreign = append(m.foreign, Entry[PatternType]{e.key, owner})
			continue
		}
		m.own.entries = append(m.own.entries, e)
	}
	if m.missing == nil && m.foreign == nil {
		return nil
	}
	for i := range fields {
		fields[i].required = false
	}
	m.config, _ = config.value().(Map[any])
	return &m
}

// ownerOf is the first type whose config has a key.
func ownerOf(name string) PatternType {
	for _, t := range patternTypes {
		fields := configFields(&Pattern{Type: t})
		if slices.ContainsFunc(fields, func(f key) bool { return f.name == name }) {
			return t
		}
	}
	return ""
}

// configFields are the keys of a type's config, read into a place made for it.
func configFields(pat *Pattern) []key {
	switch pat.Type {
	case ChainPattern:
		pat.Chain = &Chain{}
		return []key{must("steps", some(1, &pat.Chain.Steps, stepField))}
	case WorkflowPattern:
		pat.Workflow = &Workflow{}
		return []key{must("tasks", some(1, &pat.Workflow.Tasks, taskField))}
	case RoutingPattern:
		pat.Routing = &Routing{}
		return routingFields(pat.Routing)
	case ParallelPattern:
		pat.Parallel = &Parallel{}
		return []key{
			must("branches", some(2, &pat.Parallel.Branches, branchField)),
			may("reduce", ptr(&pat.Parallel.Reduce, stepField)),
		}
	case EvaluatorPattern:
		pat.Evaluator = &Evaluator{}
		return evaluatorFields(pat.Evaluator)
	case OrchestratorPattern:
		pat.Orchestrator = &Orchestrator{}
		return orchestratorFields(pat.Orchestrator)
	case GraphPattern:
		pat.Graph = &Graph{MaxIterations: 10}
		return []key{
			may("max_iterations", atLeast(1)(&pat.Graph.MaxIterations)),
			must("nodes", someOf(&pat.Graph.Nodes, nodeField)),
			must("edges", some(1, &pat.Graph.Edges, edgeField)),
		}
	}
	return nil
}

func stepField(s *Step) field {
	return func(r *reader, p string, n *node) {
		if asks(n) {
			ptr(&s.Ask, askField)(r, p, n)
			return
		}
		keys(
			must("agent", filled(&s.Agent)),
			may("input", str(&s.Input)),
			may("vars", mapOf(&s.Vars, scalar)),
			may("tool_overrides", listOf(&s.ToolOverrides, filled)),
		)(r, p, n)
	}
}

// asks tells a question from an agent's step: only questions have a type.
func asks(n *node) bool { return n.get("type") != nil }

// askField takes a question.
func askField(a *Ask) field { return onlyAsk(keys(askKeys(a)...)) }

// gateField takes a question that may say what its answer must match.
func gateField(a *Ask) field {
	validation := keys(must("pattern", ptr(&a.Pattern, checked(checkPattern))))
	return onlyAsk(keys(append(askKeys(a), may("validation", validation))...))
}

// onlyAsk refuses an agent's step where a person is to be asked.
func onlyAsk(read field) field {
	return func(r *reader, p string, n *node) {
		if n.kind == object && !asks(n) {
			r.problem(p, n, "is not a question to a person; write type: hitl and a prompt")
			return
		}
		read(r, p, n)
	}
}

func askKeys(a *Ask) []key {
	var kind string
	return []key{
		must("type", oneOf("hitl")(&kind)),
		must("prompt", filled(&a.Prompt)),
		may("context_display", str(&a.ContextDisplay)),
		may("default", ptr(&a.Default, str)),
		may("timeout_seconds", atLeast(0)(&a.TimeoutSeconds)),
	}
}

func taskField(t *Task) field {
	return func(r *reader, p string, n *node) {
		own := []key{must("id", filled(&t.ID)), may("deps", unique(&t.Deps, filled))}
		if asks(n) {
			t.Ask = &Ask{}
			keys(append(own, askKeys(t.Ask)...)...)(r, p, n)
			return
		}
		keys(append(own,
			must("agent", filled(&t.Agent)),
			may("description", str(&t.Description)),
			may("input", str(&t.Input)),
		)...)(r, p, n)
	}
}

func routingFields(c *Routing) []key {
	c.Router.MaxRetries = 2
	router := &c.Router
	return []key{
		must("router", keys(
			must("agent", filled(&router.Agent)),
			may("input", str(&router.Input)),
			may("max_retries", atLeast(0)(&router.MaxRetries)),
			may("review_router", ptr(&router.Review, askField)),
		)),
		must("routes", someOf(&c.Routes, func(route *Route) field {
			return keys(may("then", listOf(&route.Then, stepField)))
		})),
	}
}

func branchField(b *Branch) field {
	return keys(
		must("id", filled(&b.ID)),
		must("steps", some(1, &b.Steps, stepField)),
	)
}

func evaluatorFields(c *Evaluator) []key {
	c.Accept.MaxIters = 3
	return []key{
		must("producer", filled(&c.Producer)),
		must("evaluator", keys(
			must("agent", filled(&c.Judge.Agent)),
			may("input", ptr(&c.Judge.Input, str)),
		)),
		must("accept", keys(
			must("min_score", within(0, 100)(&c.Accept.MinScore)),
			may("max_iters", atLeast(1)(&c.Accept.MaxIters)),
		)),
		may("revise_prompt", ptr(&c.RevisePrompt, str)),
		may("review_gate", ptr(&c.Gate, gateField)),
	}
}

func orchestratorFields(c *Orchestrator) []key {
	limits := &c.Planner.Limits
	return []key{
		must("orchestrator", keys(
			must("agent", filled(&c.Planner.Agent)),
			may("limits", keys(
				may("max_workers", ptr(&limits.MaxWorkers, atLeast(1))),
				may("max_rounds", ptr(&limits.MaxRounds, atLeast(1))),
			)),
		)),
		must("worker_template", keys(
			must("agent", filled(&c.Worker.Agent)),
			may("tools", listOf(&c.Worker.Tools, filled)),
		)),
		may("decomposition_review", ptr(&c.DecompositionReview, gateField)),
		may("reduce_review", ptr(&c.ReduceReview, gateField)),
		may("reduce", ptr(&c.Reduce, stepField)),
		may("writeup", ptr(&c.Writeup, stepField)),
	}
}

func nodeField(v *Node) field {
	return func(r *reader, p string, n *node) {
		if asks(n) {
			ptr(&v.Ask, askField)(r, p, n)
			return
		}
		keys(
			must("agent", filled(&v.Agent)),
			may("input", ptr(&v.Input, str)),
		)(r, p, n)
	}
}

func edgeField(e *Edge) field {
	return func(r *reader, p string, n *node) {
		keys(
			must("from", filled(&e.From)),
			may("to", listOf(&e.To, filled)),
			may("choose", listOf(&e.Choose, func(c *Choice) field {
				return keys(must("when", filled(&c.When)), must("to", filled(&c.To)))
			})),
		)(r, p, n)
		if n.get("to") != nil && n.get("choose") != nil {
			r.problem(p, n, "has both to and choose; keep one")
		}
	}
}
