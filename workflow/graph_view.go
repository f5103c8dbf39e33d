package workflow

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Graph is a spec or a run to draw: what is done in which order. All lengths are
// in the same unit, a pixel say; nodes have one size.
type Graph struct {
	Pattern    spec.PatternType `json:"pattern"`
	Nodes      []GraphNode      `json:"nodes"`
	Edges      []GraphEdge      `json:"edges"`
	Width      int              `json:"width"`
	Height     int              `json:"height"`
	NodeWidth  int              `json:"nodeWidth"`
	NodeHeight int              `json:"nodeHeight"`
}

// GraphNode is a place of the spec at which an agent works or a person is asked.
// Its id stays the same while the run goes on.
type GraphNode struct {
	ID     string     `json:"id"`
	Label  string     `json:"label"`
	Kind   NodeKind   `json:"kind"`
	Agent  string     `json:"agent,omitempty"`
	Group  string     `json:"group,omitempty"` // of nodes that belong together: a branch, a route, all workers
	Status NodeStatus `json:"status"`
	Unit   string     `json:"unit"`             // the last that began here; where none did, the first that will
	Visits int        `json:"visits,omitempty"` // how many units began here
	X      int        `json:"x"`                // of the left upper corner
	Y      int        `json:"y"`
}

// GraphEdge leads from a node to one that comes after it.
type GraphEdge struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Label string `json:"label,omitempty"` // when it is taken
	Back  bool   `json:"back,omitempty"`  // it leads back: it closes a loop
}

// NodeKind is who works at a node.
type NodeKind string

// The kinds.
const (
	NodeAgent  NodeKind = "agent"
	NodePerson NodeKind = "person"
)

// NodeStatus is how far a node has come.
type NodeStatus string

// The statuses. A node that was interrupted reads as running: the session's
// lease says whether somebody works on the run.
const (
	NodeAhead    NodeStatus = "ahead" // not begun
	NodeRunning  NodeStatus = "running"
	NodeWaiting  NodeStatus = "waiting" // for a response
	NodeFinished NodeStatus = "finished"
	NodeFailed   NodeStatus = "failed" // it may be taken up again
)

// SpecGraph returns the graph of a spec: what a run of it may do. The workers of
// a plan, which is yet to be made, are one node; the items of a list have one
// branch.
func SpecGraph(s *spec.Spec) *Graph {
	pattern := s.Pattern
	if p := pattern.Parallel; p != nil && p.ForEach != nil {
		pattern.Parallel = &spec.Parallel{Branches: []spec.Branch{p.ForEach.Each()}, ForEach: p.ForEach, Reduce: p.Reduce}
	}
	return drawGraph(pattern, newIndex(), nil, 0)
}

// RunGraph returns the graph of a run with how far each node has come. The
// session must be whole, as for Project.
func RunGraph(s session.Session) (*Graph, error) {
	if err := checkRun(s); err != nil {
		return nil, err
	}
	r, err := readRun(s)
	if err != nil {
		return nil, err
	}
	waits := map[string]bool{}
	for _, p := range waitingCalls(s) {
		waits[p.Unit] = true
	}
	workers := 0
	if c := r.spec.Pattern.Orchestrator; c != nil {
		p := newOrchestrator(c)
		_, _ = p.run(context.Background(), r) // how far it comes does not matter
		workers = len(p.tasks)
	}
	return drawGraph(r.spec.Pattern, r.index, waits, workers), nil
}

// drawing makes a graph of a pattern and of what a run has done.
type drawing struct {
	*Graph
	x     *index
	waits map[string]bool // units that wait for a response
}

func drawGraph(p spec.Pattern, x *index, waits map[string]bool, workers int) *Graph {
	d := drawing{&Graph{Pattern: p.Type, Nodes: []GraphNode{}, Edges: []GraphEdge{}}, x, waits}
	switch {
	case p.Chain != nil:
		d.steps("", "", "", p.Chain.Steps)
	case p.Workflow != nil:
		d.tasks(p.Workflow)
	case p.Routing != nil:
		d.routing(p.Routing)
	case p.Parallel != nil:
		d.parallel(p.Parallel)
	case p.Evaluator != nil:
		d.evaluator(p.Evaluator)
	case p.Orchestrator != nil:
		d.orchestrator(p.Orchestrator, workers)
	case p.Graph != nil:
		d.graph(p.Graph)
	}
	d.arrange()
	return d.Graph
}

// node adds a place and returns its id. Units names the units of the place, in
// the order in which they begin; it has one for every number from 0.
func (d drawing) node(n GraphNode, ask *spec.Ask, units func(i int) string) string {
	if n.Kind = NodeAgent; ask != nil {
		n.Kind, n.Agent = NodePerson, ""
	}
	n.Unit, n.Status = units(0), NodeAhead
	for {
		unit := units(n.Visits)
		status := d.status(unit)
		if status == NodeAhead {
			break
		}
		n.Unit, n.Status = unit, status
		n.Visits++
	}
	d.Nodes = append(d.Nodes, n)
	return n.ID
}

// place adds a place of one unit, which is its id too.
func (d drawing) place(unit, label, group, agent string, ask *spec.Ask) string {
	return d.node(GraphNode{ID: unit, Label: label, Group: group, Agent: agent}, ask, func(i int) string {
		if i > 0 {
			return ""
		}
		return unit
	})
}

// status returns how far a unit or a question of the spec has come.
func (d drawing) status(unit string) NodeStatus {
	if q := d.x.questions[unit]; q != nil {
		if q.answer == nil {
			return NodeWaiting
		}
		return NodeFinished
	}
	e := d.x.units[unit]
	switch {
	case e == nil:
		return NodeAhead
	case e.done:
		return NodeFinished
	case d.waits[unit]:
		return NodeWaiting
	case e.failure != nil:
		return NodeFailed
	}
	return NodeRunning
}

func (d drawing) edge(from, to, label string) {
	if from != "" {
		d.Edges = append(d.Edges, GraphEdge{From: from, To: to, Label: label})
	}
}

// steps adds steps one after the other and returns the first and the last.
func (d drawing) steps(prefix, label, group string, steps []spec.Step) (first, last string) {
	for i, s := range steps {
		name := fmt.Sprintf("step/%d", i)
		text := label + " " + name
		switch {
		case label == "":
			text = name
		case len(steps) == 1:
			text = label
		}
		id := d.place(prefix+name, text, group, s.Agent, s.Ask)
		if d.edge(last, id, ""); first == "" {
			first = id
		}
		last = id
	}
	return first, last
}

func (d drawing) tasks(w *spec.Workflow) {
	for _, layer := range w.Layers() {
		for _, i := range layer {
			t := w.Tasks[i]
			id := d.place(UnitKey("task/", t.ID, ""), t.ID, "", t.Agent, t.Ask)
			for _, dep := range t.Deps {
				d.edge(UnitKey("task/", dep, ""), id, "")
			}
		}
	}
}

func (d drawing) routing(p *spec.Routing) {
	at := d.node(GraphNode{ID: "router", Label: "router", Agent: p.Router.Agent}, nil, numbered("router#%d"))
	at = d.review(at, "router/review", p.Router.Review)
	for _, route := range p.Routes {
		group := UnitKey("route/", route.Name, "")
		if first, _ := d.steps(UnitKey("route/", route.Name, "/"), route.Name, group, route.Value.Then); first != "" {
			d.edge(at, first, route.Name)
		}
	}
}

// review adds a question about what comes before it, where there is one, and
// returns what leads on.
func (d drawing) review(before, unit string, ask *spec.Ask) string {
	if ask == nil {
		return before
	}
	id := d.place(unit, "review", "", "", ask)
	d.edge(before, id, "")
	return id
}

func (d drawing) parallel(p *spec.Parallel) {
	var ends []string
	for _, b := range p.Branches {
		_, last := d.steps(UnitKey("branch/", b.ID, "/"), b.ID, UnitKey("branch/", b.ID, ""), b.Steps)
		ends = append(ends, last)
	}
	if p.Reduce != nil {
		d.join(ends, d.place("reduce", "reduce", "", p.Reduce.Agent, p.Reduce.Ask))
	}
}

func (d drawing) join(from []string, to string) {
	for _, id := range from {
		d.edge(id, to, "")
	}
}

// evaluator draws the judgement and the revision once each: they are a loop.
func (d drawing) evaluator(p *spec.Evaluator) {
	draft := d.place("draft", "draft", "", p.Producer, nil)
	judge := d.node(GraphNode{ID: "eval", Label: "judge", Agent: p.Judge.Agent}, nil, d.evaluations())
	d.edge(draft, judge, "")
	at, below := judge, fmt.Sprintf("score below %d", p.Accept.MinScore)
	if p.Gate != nil {
		at = d.node(GraphNode{ID: "gate", Label: "gate"}, p.Gate, func(i int) string { return fmt.Sprintf("gate/%d", i+2) })
		d.edge(judge, at, below)
		below = ""
	}
	revise := d.node(GraphNode{ID: "revise", Label: "revise", Agent: p.Producer}, nil, func(i int) string { return fmt.Sprintf("revise/%d", i+2) })
	d.edge(at, revise, below)
	d.edge(revise, judge, "")
}

// evaluations names the units that judge: each evaluation has one, or two where
// the first could not be read.
func (d drawing) evaluations() func(i int) string {
	var units []string
	for n := 2; d.status(fmt.Sprintf("eval/%d#0", n)) != NodeAhead; n++ {
		for k := 0; d.status(fmt.Sprintf("eval/%d#%d", n, k)) != NodeAhead; k++ {
			units = append(units, fmt.Sprintf("eval/%d#%d", n, k))
		}
	}
	return func(i int) string {
		switch {
		case i < len(units):
			return units[i]
		case i == 0:
			return "eval/2#0"
		}
		return ""
	}
}

// orchestrator draws the workers of a plan, or one for all where there is none.
func (d drawing) orchestrator(p *spec.Orchestrator, workers int) {
	at := d.node(GraphNode{ID: "plan", Label: "plan", Agent: p.Planner.Agent}, nil, numbered("plan#%d"))
	at = d.review(at, "plan/review", p.DecompositionReview)
	var ends []string
	for i := range max(1, workers) {
		unit := fmt.Sprintf("worker/%d", i)
		label := unit
		if workers == 0 {
			label = "workers"
		}
		id := d.place(unit, label, "workers", p.Worker.Agent, nil)
		d.edge(at, id, "")
		ends = append(ends, id)
	}
	if p.ReduceReview != nil && p.Reduce != nil {
		review := d.place("reduce/review", "review", "", "", p.ReduceReview)
		d.join(ends, review)
		ends = []string{review}
	}
	for _, closing := range []struct {
		unit string
		step *spec.Step
	}{{"reduce", p.Reduce}, {"writeup", p.Writeup}} {
		if closing.step != nil {
			id := d.place(closing.unit, closing.unit, "", closing.step.Agent, closing.step.Ask)
			d.join(ends, id)
			ends = []string{id}
		}
	}
}

func (d drawing) graph(g *spec.Graph) {
	ids := make(map[string]string, len(g.Nodes)) // by name
	for _, n := range g.Nodes {
		ids[n.Name] = UnitKey("node/", n.Name, "")
		d.node(GraphNode{ID: ids[n.Name], Label: n.Name, Agent: n.Value.Agent}, n.Value.Ask, func(i int) string {
			return UnitKey("node/", n.Name, fmt.Sprintf("@%d", i+1))
		})
	}
	lead := func(from, to, when string) {
		if ids[from] != "" && ids[to] != "" { // Check reports others
			d.edge(ids[from], ids[to], when)
		}
	}
	for _, e := range g.Edges {
		for _, to := range e.To {
			lead(e.From, to, "")
		}
		for _, c := range e.Choose {
			lead(e.From, c.To, c.When)
		}
	}
}

// numbered names the units of a place whose tries are counted from 0.
func numbered(format string) func(i int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}
