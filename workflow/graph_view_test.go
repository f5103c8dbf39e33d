package workflow_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// graph is the run as it is drawn now.
func (s *scene) graph() *workflow.Graph {
	s.Helper()
	got, err := s.rt.Get(s.Context(), s.id, holdfast.Whole(), holdfast.WithTail())
	if err != nil {
		s.Fatal(err)
	}
	g, err := workflow.RunGraph(got)
	if err != nil {
		s.Fatal(err)
	}
	return g
}

// wantGraph compares the nodes, "id unit status", with a × and the visits where
// there are several, and the edges.
func wantGraph(t *testing.T, g *workflow.Graph, nodes, edges string) {
	t.Helper()
	var have, lead []string
	for _, n := range g.Nodes {
		text := fmt.Sprintf("%s %s %s", n.ID, n.Unit, n.Status)
		if n.Visits > 1 {
			text += fmt.Sprintf(" ×%d", n.Visits)
		}
		have = append(have, text)
	}
	for _, e := range g.Edges {
		text := e.From + " > " + e.To
		if e.Label != "" {
			text += " (" + e.Label + ")"
		}
		if e.Back {
			text += " back"
		}
		lead = append(lead, text)
	}
	if got := strings.Join(have, ", "); got != nodes {
		t.Errorf("the nodes are\n%s\nwant\n%s", got, nodes)
	}
	if got := strings.Join(lead, ", "); got != edges {
		t.Errorf("the edges are\n%s\nwant\n%s", got, edges)
	}
	wantArranged(t, g)
}

// wantArranged checks that nodes do not overlap, lie inside the graph, and stand
// to the right of those that lead to them.
func wantArranged(t *testing.T, g *workflow.Graph) {
	t.Helper()
	x, taken := map[string]int{}, map[[2]int]string{}
	for _, n := range g.Nodes {
		at := [2]int{n.X, n.Y}
		if other, ok := taken[at]; ok {
			t.Errorf("%s and %s are both at %v", other, n.ID, at)
		}
		taken[at], x[n.ID] = n.ID, n.X
		if n.X < 0 || n.Y < 0 || n.X+g.NodeWidth > g.Width || n.Y+g.NodeHeight > g.Height {
			t.Errorf("%s at %v is outside %d×%d", n.ID, at, g.Width, g.Height)
		}
	}
	for _, e := range g.Edges {
		if !e.Back && x[e.To] < x[e.From]+g.NodeWidth {
			t.Errorf("the edge from %s to %s does not lead to the right", e.From, e.To)
		}
	}
}

func TestRunGraph_showsHowFarEachNodeIs(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		if input(r) == "fails" {
			return llm.Response{}, broken
		}
		return echo(r)
	})
	text := head + `
agents: {a: {prompt: A.}}
pattern: {type: workflow, config: {tasks: [{id: top, agent: a, input: x}, {id: left, agent: a, input: fails, deps: [top]},
  {id: ask, type: hitl, prompt: "ok?", deps: [left]}, {id: end, agent: a, deps: [ask, top]}]}}`
	edges := "task/top > task/left, task/left > task/ask, task/ask > task/end, task/top > task/end"
	wantGraph(t, workflow.SpecGraph(load(t, text, nil)),
		"task/top task/top ahead, task/left task/left ahead, task/ask task/ask ahead, task/end task/end ahead", edges)
	if _, err := s.start(text); !errors.Is(err, broken) {
		t.Fatalf("the run ended with %v", err)
	}
	wantGraph(t, s.graph(), "task/top task/top finished, task/left task/left failed, task/ask task/ask ahead, task/end task/end ahead", edges)
	s.actor.answer = echo
	s.pauses("ok?")(s.resume(workflow.ResumeOptions{}))
	g := s.graph()
	wantGraph(t, g, "task/top task/top finished, task/left task/left finished, task/ask task/ask waiting, task/end task/end ahead", edges)
	if ask := g.Nodes[2]; ask.Kind != workflow.NodePerson || g.Nodes[0].Kind != workflow.NodeAgent || g.Nodes[0].Agent != "a" {
		t.Errorf("the nodes are %+v", g.Nodes)
	}
}

func TestRunGraph_ofLoops(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{
		"maker": {"one", "two", "three"},
		"judge": {`{"score": 60}`, "so so", `{"score": 70}`, `{"score": 80}`},
	}))
	text := evaluating("3", "")
	edges := "draft > eval, eval > revise (score below 80), revise > eval back"
	wantGraph(t, workflow.SpecGraph(load(t, text, nil)), "draft draft ahead, eval eval/2#0 ahead, revise revise/2 ahead", edges)
	s.completes("three")(s.start(text))
	wantGraph(t, s.graph(), "draft draft finished, eval eval/4#0 finished ×4, revise revise/3 finished ×2", edges)

	s = newScene(t, lines(map[string][]string{"a": {"no", "yes"}, "b": {"b"}}))
	s.pauses("ok?")(s.start(head + `
agents: {a: {prompt: A.}, b: {prompt: B.}}
pattern: {type: graph, config: {nodes: {check: {agent: a}, mend: {agent: b}, ask: {type: hitl, prompt: "ok?"}},
  edges: [{from: check, choose: [{when: "{{ nodes.check.response == 'no' }}", to: mend}, {when: else, to: ask}]}, {from: mend, to: [check]}]}}`))
	wantGraph(t, s.graph(), "node/check node/check@2 finished ×2, node/mend node/mend@1 finished, node/ask node/ask@1 waiting",
		"node/check > node/mend ({{ nodes.check.response == 'no' }}), node/check > node/ask (else), node/mend > node/check back")
}

func TestRunGraph_ofRoutesBranchesAndWorkers(t *testing.T) {
	t.Parallel()
	s := newScene(t, lines(map[string][]string{"r": {`{"route": "b"}`}, "w": {"done"}}))
	s.pauses("ok?")(s.start(head + `
agents: {r: {prompt: R.}, w: {prompt: W.}}
pattern: {type: routing, config: {router: {agent: r, input: x, review_router: {type: hitl, prompt: "ok?"}},
  routes: {a: {then: [{agent: w, input: a}]}, b: {then: [{agent: w, input: b}, {agent: w, input: c}]}}}}`))
	s.completes("done")(s.answer("approved"))
	wantGraph(t, s.graph(), "router router#0 finished, router/review router/review finished, route/a/step/0 route/a/step/0 ahead, "+
		"route/b/step/0 route/b/step/0 finished, route/b/step/1 route/b/step/1 finished",
		"router > router/review, router/review > route/a/step/0 (a), route/b/step/0 > route/b/step/1, router/review > route/b/step/0 (b)")

	s = newScene(t, echo)
	s.pauses("ok?")(s.start(head + `
agents: {w: {prompt: W.}}
pattern: {type: parallel, config: {branches: [{id: l, steps: [{agent: w, input: a}, {type: hitl, prompt: "ok?"}]}, {id: r, steps: [{agent: w, input: b}]}], reduce: {agent: w, input: c}}}`))
	g := s.graph()
	wantGraph(t, g, "branch/l/step/0 branch/l/step/0 finished, branch/l/step/1 branch/l/step/1 waiting, branch/r/step/0 branch/r/step/0 finished, reduce reduce ahead",
		"branch/l/step/0 > branch/l/step/1, branch/l/step/1 > reduce, branch/r/step/0 > reduce")
	if g.Nodes[0].Group != "branch/l" || g.Nodes[0].Label != "l step/0" || g.Nodes[2].Label != "r" || g.Nodes[3].Group != "" {
		t.Errorf("the nodes are %+v", g.Nodes)
	}

	text := head + `
agents: {p: {prompt: P.}, w: {prompt: W.}}
pattern: {type: orchestrator_workers, config: {orchestrator: {agent: p}, worker_template: {agent: w}, reduce: {agent: p, input: r}, reduce_review: {type: hitl, prompt: "ok?"}}}`
	wantGraph(t, workflow.SpecGraph(load(t, text, nil)), "plan plan#0 ahead, worker/0 worker/0 ahead, reduce/review reduce/review ahead, reduce reduce ahead",
		"plan > worker/0, worker/0 > reduce/review, reduce/review > reduce")
	s = newScene(t, lines(map[string][]string{"p": {`[{"task": "x"}, {"task": "y"}]`}, "w": {"done"}}))
	s.pauses("ok?")(s.start(text))
	wantGraph(t, s.graph(), "plan plan#0 finished, worker/0 worker/0 finished, worker/1 worker/1 finished, reduce/review reduce/review waiting, reduce reduce ahead",
		"plan > worker/0, plan > worker/1, worker/0 > reduce/review, worker/1 > reduce/review, reduce/review > reduce")
}

// TestSpecGraph_arrangesAnyGraph checks the layout of random graphs with loops.
func TestSpecGraph_arrangesAnyGraph(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rnd.IntN(30)
		made := randomGraph(rnd, n, rnd.IntN(3*n))
		g := workflow.SpecGraph(made)
		wantArranged(t, g)
		if again := workflow.SpecGraph(made); !reflect.DeepEqual(g, again) {
			t.Fatalf("seed %d: the same graph was arranged in two ways", seed)
		}
		if len(g.Nodes) != n {
			t.Errorf("seed %d: there are %d nodes, want %d", seed, len(g.Nodes), n)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func randomGraph(rnd *rand.Rand, nodes, edges int) *spec.Spec {
	g := &spec.Graph{MaxIterations: 1}
	name := func(i int) string { return fmt.Sprintf("n%d", i) }
	for i := range nodes {
		g.Nodes = append(g.Nodes, spec.Entry[spec.Node]{Name: name(i), Value: spec.Node{Agent: "a"}})
	}
	for range edges {
		g.Edges = append(g.Edges, spec.Edge{From: name(rnd.IntN(nodes)), To: []string{name(rnd.IntN(nodes))}})
	}
	return &spec.Spec{Pattern: spec.Pattern{Type: spec.GraphPattern, Graph: g}}
}

func BenchmarkSpecGraph(b *testing.B) {
	made := randomGraph(rand.New(rand.NewPCG(1, 1)), 2000, 4000)
	for b.Loop() {
		workflow.SpecGraph(made)
	}
}

func TestGraph_text(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.pauses("ok?")(s.start(head + `
agents: {a: {prompt: A.}}
pattern: {type: graph, config: {nodes: {'say "hi"': {agent: a}, b\c: {type: hitl, prompt: "ok?"}, end: {agent: a}},
  edges: [{from: 'say "hi"', choose: [{when: 1 < 2, to: b\c}]}, {from: b\c, choose: [{when: 2 < 1, to: 'say "hi"'}, {when: else, to: end}]}]}}`))
	g := s.graph()
	mermaid := `flowchart LR
    n0["say #34;hi#34;<br/>a<br/>finished"]
    n1{{"b#92;c<br/>a person<br/>waiting"}}
    n2["end<br/>a"]
    n0 -->|"1 #60; 2"| n1
    n1 -->|"2 #60; 1"| n0
    n1 -->|"else"| n2
    classDef waiting fill:#fdf0c4,stroke:#8a6100
    class n1 waiting
    classDef finished fill:#d3f2d9,stroke:#1a7431
    class n0 finished
`
	if got := g.Mermaid(); got != mermaid {
		t.Errorf("Mermaid says\n%s\nwant\n%s", got, mermaid)
	}
	dot := `digraph {
    rankdir=LR
    node [shape=box, style="rounded,filled", fillcolor=white]
    "node/say \"hi\"" [label="say \"hi\"\na\nfinished", fillcolor="#d3f2d9", color="#1a7431"]
    "node/b\\c" [label="b\\c\na person\nwaiting", shape=hexagon, style=filled, fillcolor="#fdf0c4", color="#8a6100"]
    "node/end" [label="end\na"]
    "node/say \"hi\"" -> "node/b\\c" [label="1 < 2"]
    "node/b\\c" -> "node/say \"hi\"" [label="2 < 1", constraint=false]
    "node/b\\c" -> "node/end" [label="else"]
}
`
	if got := g.Dot(); got != dot {
		t.Errorf("Dot says\n%s\nwant\n%s", got, dot)
	}
}
