package spec_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

const examples = "../../examples/workflows"

func loadExamples(t *testing.T) map[string]*spec.Spec {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	all := map[string]*spec.Spec{}
	for _, path := range paths {
		s, err := spec.Loader{}.Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(path)] = s
	}
	return all
}

func TestExamples_areCleanAndListed(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(examples, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	keys := spec.Env{Getenv: func(name string) string { return "set" }}
	for name, s := range loadExamples(t) {
		if issues := spec.Check(s, keys); issues != nil {
			t.Errorf("%s: %+v", name, issues)
		}
		if s.Warnings != nil {
			t.Errorf("%s: %+v", name, s.Warnings)
		}
		if snap, err := s.Snapshot(); err != nil || snap.Absent != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("%s is not in the README", name)
		}
	}
}

func TestExamples_showEveryPatternTwiceAndEveryPlaceOfAQuestion(t *testing.T) {
	t.Parallel()
	count := map[spec.PatternType]int{}
	var places []string
	for _, s := range loadExamples(t) {
		count[s.Pattern.Type]++
		places = append(places, questions(s.Pattern)...)
	}
	for _, p := range []spec.PatternType{
		spec.ChainPattern, spec.WorkflowPattern, spec.RoutingPattern, spec.ParallelPattern, spec.EvaluatorPattern, spec.OrchestratorPattern, spec.GraphPattern,
	} {
		if count[p] < 2 {
			t.Errorf("%s has %d examples", p, count[p])
		}
	}
	slices.Sort(places)
	got := strings.Join(slices.Compact(places), ", ")
	want := "branch step, chain step, decomposition review, orchestrator reduce, parallel reduce, reduce review, review gate, route step, router review, task, node, writeup"
	if sorted(got) != sorted(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func sorted(names string) string {
	list := strings.Split(names, ", ")
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// questions are the places of a pattern where a person is asked.
func questions(p spec.Pattern) []string {
	var places []string
	note := func(place string, asks ...*spec.Ask) {
		if slices.ContainsFunc(asks, func(a *spec.Ask) bool { return a != nil }) {
			places = append(places, place)
		}
	}
	steps := func(place string, list []spec.Step) {
		for _, s := range list {
			note(place, s.Ask)
		}
	}
	one := func(place string, s *spec.Step) {
		if s != nil {
			note(place, s.Ask)
		}
	}
	switch {
	case p.Chain != nil:
		steps("chain step", p.Chain.Steps)
	case p.Workflow != nil:
		for _, task := range p.Workflow.Tasks {
			note("task", task.Ask)
		}
	case p.Routing != nil:
		note("router review", p.Routing.Router.Review)
		for _, r := range p.Routing.Routes {
			steps("route step", r.Value.Then)
		}
	case p.Parallel != nil:
		for _, b := range p.Parallel.Branches {
			steps("branch step", b.Steps)
		}
		one("parallel reduce", p.Parallel.Reduce)
	case p.Evaluator != nil:
		note("review gate", p.Evaluator.Gate)
	case p.Orchestrator != nil:
		note("decomposition review", p.Orchestrator.DecompositionReview)
		note("reduce review", p.Orchestrator.ReduceReview)
		one("orchestrator reduce", p.Orchestrator.Reduce)
		one("writeup", p.Orchestrator.Writeup)
	case p.Graph != nil:
		for _, n := range p.Graph.Nodes {
			note("node", n.Value.Ask)
		}
	}
	return places
}
