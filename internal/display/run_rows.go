package display

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// row is a line of a run's drawing: a unit or a question where it stands.
type row struct {
	tie   string // joins it with those that run at the same time
	label string
	agent string
	unit  *unitState // nil: it is ahead
	note  string     // where it leads, or what it waits for
}

const person = "a person"

// rowsOf draws the pattern of a spec with what has happened so far.
func rowsOf(s *spec.Spec, c *RunState) []row {
	switch p := s.Pattern; {
	case p.Chain != nil:
		return c.stepRows("", "step/", p.Chain.Steps)
	case p.Workflow != nil:
		return c.taskRows(p.Workflow)
	case p.Routing != nil:
		return c.routeRows(p.Routing)
	case p.Parallel != nil:
		return c.branchRows(p.Parallel)
	case p.Evaluator != nil:
		return c.draftRows(p.Evaluator)
	case p.Orchestrator != nil:
		return c.workerRows(p.Orchestrator)
	case p.Graph != nil:
		return c.nodeRows(p.Graph)
	}
	return nil
}

// row returns a unit of an agent, or a question where ask is set.
func (c *RunState) row(unit, label, agent string, ask *spec.Ask) row {
	if ask != nil {
		agent = person
	}
	return row{label: label, agent: agent, unit: c.units[unit]}
}

// stepRows returns steps one after the other. Their units have a prefix.
func (c *RunState) stepRows(label, prefix string, steps []spec.Step) []row {
	var rows []row
	for i, s := range steps {
		rows = append(rows, c.row(prefix+strconv.Itoa(i), label+strconv.Itoa(i+1), s.Agent, s.Ask))
	}
	return rows
}

// taskRows returns tasks by layer: those of a layer are tied together.
func (c *RunState) taskRows(w *spec.Workflow) []row {
	var rows []row
	for _, layer := range w.Layers() {
		var members [][]row
		for _, i := range layer {
			t := w.Tasks[i]
			r := c.row("task/"+t.ID, t.ID, t.Agent, t.Ask)
			if len(t.Deps) > 0 {
				r.note = "after " + strings.Join(t.Deps, ", ")
			}
			members = append(members, []row{r})
		}
		rows = append(rows, tied(members)...)
	}
	return rows
}

// tied returns rows that may run at the same time, each member a line or several.
func tied(members [][]row) []row {
	var rows []row
	for i, member := range members {
		first, rest := "├", "│"
		switch {
		case len(members) == 1:
			first, rest = "", ""
		case i == 0:
			first = "┌"
		case i == len(members)-1:
			first, rest = "└", ""
		}
		for j, r := range member {
			if r.tie = rest; j == 0 {
				r.tie = first
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// routeRows returns the router and, once it has chosen, the steps of its route.
func (c *RunState) routeRows(p *spec.Routing) (rows []row) {
	router := row{label: "router", agent: p.Router.Agent, unit: c.last("router#")}
	router.note = strings.Join(p.Routes.Names(), " or ")
	rows = append(rows, router)
	if p.Router.Review != nil {
		rows = append(rows, c.row("router/review", "review", "", p.Router.Review))
	}
	if route, ok := p.Routes.Get(c.route); ok {
		return append(rows, c.stepRows(c.route+" ", "route/"+c.route+"/step/", route.Then)...)
	}
	return rows
}

func (c *RunState) branchRows(p *spec.Parallel) []row {
	var members [][]row
	branches := p.Branches
	if p.ForEach != nil && len(c.units) == 0 {
		branches = []spec.Branch{p.ForEach.Each()}
	}
	for _, b := range branches {
		steps := c.stepRows(b.ID+" ", "branch/"+b.ID+"/step/", b.Steps)
		if len(steps) == 1 {
			steps[0].label = b.ID
		}
		if p.ForEach != nil {
			steps[0].note = eachText(p, b, len(c.units) == 0)
		}
		members = append(members, steps)
	}
	rows := tied(members)
	if p.Reduce != nil {
		rows = append(rows, c.row("reduce", "reduce", p.Reduce.Agent, p.Reduce.Ask))
	}
	return rows
}

// eachText returns the item of a branch or, before a run, which items there are.
func eachText(p *spec.Parallel, b spec.Branch, before bool) string {
	if !before {
		if text, ok := b.Item.(string); ok {
			return text
		}
		raw, err := json.Marshal(b.Item)
		if err != nil {
			return ""
		}
		return string(raw)
	}
	text := "for each of " + terminal.CountOf(len(p.Branches), "item")
	switch each := p.ForEach; {
	case each.File != "":
		return text + " in " + each.File
	case each.Input != "" && len(p.Branches) == 0:
		return "for each item of the input " + each.Input
	case each.Input != "":
		return text + " of the input " + each.Input
	}
	return text
}

// draftRows returns the draft, and each judgement and revision as it comes.
func (c *RunState) draftRows(p *spec.Evaluator) []row {
	rows := []row{c.row("draft", "draft", p.Producer, nil)}
	for n := 2; ; n++ {
		judged := c.last(fmt.Sprintf("eval/%d#", n))
		if judged == nil {
			break
		}
		rows = append(rows, row{label: fmt.Sprintf("judge %d", n-1), agent: p.Judge.Agent, unit: judged})
		if gate := c.units[fmt.Sprintf("gate/%d", n)]; gate != nil {
			rows = append(rows, row{label: fmt.Sprintf("gate %d", n-1), agent: person, unit: gate})
		}
		if revised := c.units[fmt.Sprintf("revise/%d", n)]; revised != nil {
			rows = append(rows, row{label: fmt.Sprintf("revise %d", n-1), agent: p.Producer, unit: revised})
		}
	}
	if len(rows) > 1 {
		return rows
	}
	rows = append(rows, row{
		label: "judge 1", agent: p.Judge.Agent,
		note: fmt.Sprintf("score %d is good enough, %d tries", p.Accept.MinScore, p.Accept.MaxIters),
	})
	if len(c.units) > 0 {
		return rows
	}
	if p.Gate != nil {
		rows = append(rows, row{label: "gate 1", agent: person, note: "where it is not good enough"})
	}
	return append(rows, row{label: "revise 1", agent: p.Producer, note: "where it is not good enough, then judge 2"})
}

// workerRows returns the plan, a line for each of its tasks, and what follows.
func (c *RunState) workerRows(p *spec.Orchestrator) []row {
	rows := []row{{label: "plan", agent: p.Planner.Agent, unit: c.last("plan#")}}
	if p.DecompositionReview != nil {
		rows = append(rows, c.row("plan/review", "review", "", p.DecompositionReview))
	}
	members := make([][]row, c.workers())
	for i := range members {
		r := c.row(fmt.Sprintf("worker/%d", i), fmt.Sprintf("worker %d", i), p.Worker.Agent, nil)
		if r.unit != nil {
			r.note = r.unit.task
		}
		members[i] = []row{r}
	}
	if len(members) == 0 {
		rows = append(rows, row{label: "workers", agent: p.Worker.Agent, note: "as many as the plan has tasks"})
	}
	rows = append(rows, tied(members)...)
	if p.ReduceReview != nil && p.Reduce != nil {
		rows = append(rows, c.row("reduce/review", "review", "", p.ReduceReview))
	}
	for _, step := range []struct {
		unit string
		step *spec.Step
	}{{"reduce", p.Reduce}, {"writeup", p.Writeup}} {
		if step.step != nil {
			rows = append(rows, c.row(step.unit, step.unit, step.step.Agent, step.step.Ask))
		}
	}
	return rows
}

// workers returns how many have begun: they begin in the order of their numbers,
// more or less.
func (c *RunState) workers() int {
	most := 0
	for _, p := range c.order {
		number, _ := strings.CutPrefix(p.unit, "worker/")
		if i, err := strconv.Atoi(number); err == nil {
			most = max(most, i+1)
		}
	}
	return most
}

// nodeRows returns the nodes as written, each with its last visit and where it
// leads.
func (c *RunState) nodeRows(g *spec.Graph) []row {
	var rows []row
	for _, n := range g.Nodes {
		at := c.last("node/" + n.Name + "@")
		r := row{label: n.Name, agent: n.Value.Agent, unit: at, note: leads(g, n.Name, len(c.units) == 0)}
		if n.Value.Ask != nil {
			r.agent = person
		}
		if at != nil {
			if visit := at.unit[strings.LastIndex(at.unit, "@")+1:]; visit != "1" {
				r.label += " ×" + visit
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// leads returns where a node leads and, where it is wanted, on which condition.
func leads(g *spec.Graph, node string, conditions bool) string {
	for _, e := range g.Edges {
		if e.From != node {
			continue
		}
		to := slices.Clone(e.To)
		for _, choice := range e.Choose {
			if conditions {
				choice.To += " (" + choice.When + ")"
			}
			to = append(to, choice.To)
		}
		return "→ " + strings.Join(slices.Compact(to), " or ")
	}
	return "ends here"
}
