package spec

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
)

const configPointer = "/pattern/config"

// pattern looks at what the parts of a pattern say of each other.
func (c *checker) pattern() {
	switch p := c.spec.Pattern; {
	case p.misfit != nil:
		c.misfit(p)
	case p.Chain != nil:
		c.steps(configPointer+"/steps", p.Chain.Steps)
	case p.Workflow != nil:
		c.workflow(p.Workflow)
	case p.Routing != nil:
		c.agent(configPointer+"/router/agent", p.Routing.Router.Agent)
		for _, route := range p.Routing.Routes {
			at := document.Pointer(configPointer+"/routes", route.Name)
			if len(route.Value.Then) == 0 {
				c.add(at, "give it steps under then, or leave the route out", "the route %q has no steps", route.Name)
			}
			c.steps(at+"/then", route.Value.Then)
		}
	case p.Parallel != nil:
		c.parallel(p.Parallel)
	case p.Evaluator != nil:
		c.agent(configPointer+"/producer", p.Evaluator.Producer)
		c.agent(configPointer+"/evaluator/agent", p.Evaluator.Judge.Agent)
	case p.Orchestrator != nil:
		c.orchestrator(p.Orchestrator)
	case p.Graph != nil:
		c.graph(p.Graph)
	}
}

func (c *checker) misfit(p Pattern) {
	if len(p.misfit.config) == 0 {
		c.add(configPointer, "write "+strings.Join(p.misfit.missing, ", ")+" under config", "the config is empty")
		return
	}
	for _, name := range p.misfit.missing {
		c.add(configPointer, "write "+name+" under config", "the config has no %s, which the pattern %s needs", name, p.Type)
	}
	for _, f := range p.misfit.foreign {
		c.add(document.Pointer(configPointer, f.Name), fmt.Sprintf("leave it out, or write type: %s", f.Value),
			"the pattern %s has no %s; %s has", p.Type, f.Name, f.Value)
	}
}

// agent reports a name that is no agent's.
func (c *checker) agent(p, name string) {
	if c.spec.Agents.Has(name) {
		return
	}
	names := c.spec.Agents.Names()
	c.add(p, suggestion(name, names, "add it under agents, or use one of "+strings.Join(names, ", ")), "there is no agent %q", name)
}

func (c *checker) steps(p string, steps []Step) {
	for i, s := range steps {
		c.step(document.Pointer(p, i), &s)
	}
}

func (c *checker) step(p string, s *Step) {
	if s == nil || s.Ask != nil {
		return
	}
	c.agent(p+"/agent", s.Agent)
	for i, name := range s.ToolOverrides {
		if !c.spec.Tools.Has(name) {
			c.add(document.Pointer(p+"/tool_overrides", i), "add it under tools", "the tool %q is not under tools", name)
		}
	}
}

func (c *checker) parallel(cfg *Parallel) {
	seen := map[string]bool{}
	for i, b := range cfg.Branches {
		at := document.Pointer(configPointer+"/branches", i)
		if seen[b.ID] {
			c.add(at+"/id", "give it an id of its own", "the branch id %q is there twice", b.ID)
		}
		seen[b.ID] = true
		c.steps(at+"/steps", b.Steps)
	}
	c.step(configPointer+"/reduce", cfg.Reduce)
}

func (c *checker) orchestrator(cfg *Orchestrator) {
	c.agent(configPointer+"/orchestrator/agent", cfg.Planner.Agent)
	if rounds := cfg.Planner.Limits.MaxRounds; rounds != nil && *rounds != 1 {
		c.add(configPointer+"/orchestrator/limits/max_rounds", "write 1, or leave it out", "%d rounds are asked for, and there is one plan and one round", *rounds)
	}
	c.agent(configPointer+"/worker_template/agent", cfg.Worker.Agent)
	c.step(configPointer+"/reduce", cfg.Reduce)
	c.step(configPointer+"/writeup", cfg.Writeup)
}

func (c *checker) workflow(cfg *Workflow) {
	ids := map[string]bool{}
	for i, t := range cfg.Tasks {
		at := document.Pointer(configPointer+"/tasks", i)
		if ids[t.ID] {
			c.add(at+"/id", "give it an id of its own", "the task id %q is there twice", t.ID)
		}
		ids[t.ID] = true
		if t.Ask == nil {
			c.agent(at+"/agent", t.Agent)
		}
	}
	before := len(c.issues)
	for i, t := range cfg.Tasks {
		for j, dep := range t.Deps {
			if !ids[dep] {
				c.add(document.Pointer(document.Pointer(configPointer+"/tasks", i)+"/deps", j), suggestion(dep, cfg.ids(), "add the task, or leave it out of deps"), "there is no task %q", dep)
			}
		}
	}
	if len(c.issues) > before {
		return // what hangs on nothing would look like a cycle
	}
	if _, cycle := cfg.layers(); cycle != nil {
		c.add(configPointer+"/tasks", "leave out one of these dependencies", "these tasks wait for each other: %s", strings.Join(cycle, " → "))
	}
}

func (c *checker) graph(cfg *Graph) {
	reached := map[string]bool{}
	leads := map[string][]string{}
	for i, e := range cfg.Edges {
		at := document.Pointer(configPointer+"/edges", i)
		c.node(at+"/from", e.From, cfg)
		if len(e.To) > 1 {
			c.add(at+"/to", "keep one, or use choose with conditions", "the edge from %q has %d targets, and a run is in one node at a time", e.From, len(e.To))
		}
		for j, to := range e.To {
			c.node(document.Pointer(at+"/to", j), to, cfg)
			leads[e.From] = append(leads[e.From], to)
		}
		for j, choice := range e.Choose {
			c.node(document.Pointer(at+"/choose", j)+"/to", choice.To, cfg)
			leads[e.From] = append(leads[e.From], choice.To)
		}
	}
	queue, ends := []string{cfg.Nodes[0].Name}, false
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if !reached[name] {
			reached[name] = true
			queue = append(queue, leads[name]...)
		}
	}
	for _, n := range cfg.Nodes {
		at := document.Pointer(configPointer+"/nodes", n.Name)
		if n.Value.Ask == nil {
			c.agent(at+"/agent", n.Value.Agent)
		}
		ends = ends || len(leads[n.Name]) == 0
		if !reached[n.Name] {
			c.add(at, "add an edge that leads to it, or leave it out", "the node %q is not reached from the first, %q", n.Name, cfg.Nodes[0].Name)
		}
	}
	if !ends {
		c.add(configPointer+"/edges", "leave one node without edges: the run ends there", "every node leads to another, so the run has no end")
	}
}

func (c *checker) node(p, name string, cfg *Graph) {
	if !cfg.Nodes.Has(name) {
		names := cfg.Nodes.Names()
		c.add(p, suggestion(name, names, "add it under nodes, or use one of "+strings.Join(names, ", ")), "there is no node %q", name)
	}
}
