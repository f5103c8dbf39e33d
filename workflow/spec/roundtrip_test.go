package spec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// different is the first exported field in which two specs differ.
func different(a, b *spec.Spec) string {
	x, y := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range x.NumField() {
		f := x.Type().Field(i)
		if f.IsExported() && f.Name != "Warnings" && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return fmt.Sprintf("%s: %+v is not %+v", f.Name, x.Field(i), y.Field(i))
		}
	}
	return ""
}

func again(s *spec.Spec) (*spec.Spec, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	src := spec.Source{Path: filepath.Join(filepath.Dir(s.Path()), "again.json"), Data: data, Read: os.ReadFile}
	made, err := spec.Loader{Lenient: true}.Parse(src, nil)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, data)
	}
	return made, nil
}

func TestSpec_writtenAndLoadedAgainIsEqual(t *testing.T) {
	t.Parallel()
	for name, s := range loadExamples(t) {
		made, err := again(s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := different(s, made); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	misfit := load(t, yamlOf(config("chain", "tasks: [{id: x, f: 1.0}]")))
	made, err := again(misfit)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := jsonOf(t, misfit), jsonOf(t, made); a != b {
		t.Errorf("misfit: %s is not %s", a, b)
	}
}

func TestSpec_anyWrittenAndLoadedAgainIsEqual(t *testing.T) {
	t.Parallel()
	property.Check(t, func(t *property.T) {
		s := (&maker{t}).spec()
		made, err := again(s)
		if err != nil {
			t.Fatal(err)
		}
		if d := different(s, made); d != "" {
			t.Fatal(d)
		}
	})
}

// maker draws specs with every part that may be there.
type maker struct{ t *property.T }

func (m *maker) yes() bool { return property.Bool().Draw(m.t, "yes") }

func (m *maker) text() string {
	return property.OneOf(
		property.Map(property.StringN(0, 12), func(s string) string { return strings.ReplaceAll(s, "\x00", "") + "x" }),
		property.SampledFrom([]string{"no", "1e3", "{{ a }}", "<b>&", "é😀", "\u2028x", "- x: |", "\t\n x"}),
	).Draw(m.t, "text")
}

// name is a name that others have too, or any.
func (m *maker) name() string {
	if m.yes() {
		return property.SampledFrom([]string{"a", "b", "c"}).Draw(m.t, "name")
	}
	return property.StringOf("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-", 1, 6).Draw(m.t, "name")
}

func (m *maker) number(least, most int) int {
	return property.IntRange(least, most).Draw(m.t, "number")
}

func maybe[T any](m *maker, draw func() T) *T {
	if !m.yes() {
		return nil
	}
	v := draw()
	return &v
}

func (m *maker) maybeText() string {
	if m.yes() {
		return m.text()
	}
	return ""
}

func (m *maker) scalar() any {
	switch m.number(0, 3) {
	case 0:
		return m.text()
	case 1:
		return property.Int64().Draw(m.t, "integer")
	case 2:
		return property.Float64Range(-1e300, 1e300).Draw(m.t, "float")
	}
	return m.yes()
}

func few[T any](m *maker, least int, draw func() T) []T {
	n := m.number(least, 3)
	if n == 0 {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		list[i] = draw()
	}
	return list
}

func named[T any](m *maker, least int, draw func() T) spec.Map[T] {
	var all spec.Map[T]
	for range m.number(least, 3) {
		all = all.With(m.name(), draw())
	}
	return all
}

func (m *maker) ask() *spec.Ask {
	return &spec.Ask{Prompt: m.text(), ContextDisplay: m.maybeText(), Default: maybe(m, m.maybeText), TimeoutSeconds: m.number(0, 9)}
}

func (m *maker) gate() *spec.Ask {
	a := m.ask()
	if m.yes() {
		pattern := "^a+$"
		a.Pattern = &pattern
	}
	return a
}

func (m *maker) step() spec.Step {
	if m.yes() {
		return spec.Step{Ask: m.ask()}
	}
	return spec.Step{Agent: m.name(), Input: m.maybeText(), Vars: named(m, 0, m.scalar), ToolOverrides: few(m, 0, m.name)}
}

func (m *maker) spec() *spec.Spec {
	s := &spec.Spec{
		Version: property.SampledFrom([]any{int64(0), int64(3), "1.0"}).Draw(m.t, "version"),
		Name:    m.text(), Description: m.maybeText(),
		Runtime: m.runtime(), Agents: named(m, 1, m.agent), Pattern: m.pattern(),
		Inputs: spec.Inputs{Values: named(m, 0, m.scalar), Optional: named(m, 0, func() spec.Var {
			return spec.Var{Type: "number", Description: m.maybeText(), Enum: few(m, 0, m.scalar)}
		})},
		Outputs: spec.Outputs{Artifacts: few(m, 0, func() spec.Artifact { return spec.Artifact{Path: m.text(), From: m.maybeText()} })},
	}
	if m.yes() {
		s.Metadata = &spec.Metadata{Name: m.maybeText(), Labels: named(m, 0, m.maybeText)}
		s.Telemetry = &spec.Telemetry{Redact: spec.Redact{ToolInputs: m.yes(), ToolOutputs: m.yes()}}
		s.Context = &spec.ContextPolicy{Notes: &spec.Notes{File: m.text(), IncludeLast: 2, Format: "json"}, Retrieval: &spec.Retrieval{JITTools: []string{"grep"}}}
		s.Security.Guardrails = &spec.Guardrails{DenyNetwork: m.yes(), AllowTools: []string{}}
		s.Skills = []spec.Skill{{ID: "s", Path: m.text(), PreloadMetadata: m.yes()}}
		s.Tools = spec.Tools{
			Python:        few(m, 0, m.name),
			HTTPExecutors: []spec.HTTPExecutor{{ID: "h", BaseURL: "https://a.org", TimeoutMS: 5, Headers: named(m, 0, m.maybeText), Examples: few(m, 0, m.scalar)}},
			MCP:           []spec.MCPServer{{ID: "c", Command: "x", Args: few(m, 0, m.maybeText)}, {ID: "u", URL: "https://b.org", Headers: named(m, 0, m.maybeText)}},
		}
	}
	return s
}

func (m *maker) runtime() spec.Runtime {
	return spec.Runtime{
		Provider:    m.name(),
		Temperature: maybe(m, func() float64 { return property.Float64Range(0, 2).Draw(m.t, "temperature") }),
		MaxTokens:   maybe(m, func() int { return m.number(1, 1<<40) }),
		Budgets: maybe(m, func() spec.Budgets {
			return spec.Budgets{MaxSteps: maybe(m, func() int { return m.number(1, 9) }), WarnThreshold: maybe(m, func() float64 { return 0 })}
		}),
		FailurePolicy: maybe(m, func() spec.FailurePolicy {
			return spec.FailurePolicy{Retries: maybe(m, func() int { return 0 }), Backoff: maybe(m, func() spec.Backoff { return spec.Jittered })}
		}),
	}
}

func (m *maker) agent() spec.Agent {
	a := spec.Agent{Prompt: m.text(), Provider: m.maybeText(), Inference: maybe(m, func() spec.Inference { return spec.Inference{} })}
	if m.yes() {
		a.Tools = append([]string{}, few(m, 0, m.name)...)
	}
	if m.yes() {
		a.InputSchema = &spec.Schema{Path: m.text()}
		a.OutputSchema = &spec.Schema{Object: spec.Map[any]{{Name: "n", Value: []any{m.scalar(), spec.Map[any]{}}}}}
	}
	return a
}

func (m *maker) pattern() spec.Pattern {
	p := spec.Pattern{Type: property.SampledFrom([]spec.PatternType{
		spec.ChainPattern, spec.WorkflowPattern, spec.RoutingPattern, spec.ParallelPattern, spec.EvaluatorPattern, spec.OrchestratorPattern, spec.GraphPattern,
	}).Draw(m.t, "pattern")}
	switch p.Type {
	case spec.ChainPattern:
		p.Chain = &spec.Chain{Steps: few(m, 1, m.step)}
	case spec.WorkflowPattern:
		p.Workflow = &spec.Workflow{Tasks: few(m, 1, func() spec.Task {
			if m.yes() {
				return spec.Task{ID: m.name(), Ask: m.ask()}
			}
			return spec.Task{ID: m.name(), Agent: m.name(), Deps: []string{"z"}, Description: m.maybeText(), Input: m.maybeText()}
		})}
	case spec.RoutingPattern:
		p.Routing = &spec.Routing{Router: spec.Router{Agent: m.name(), Input: m.maybeText(), MaxRetries: m.number(0, 3)}}
		p.Routing.Routes = named(m, 1, func() spec.Route { return spec.Route{Then: few(m, 0, m.step)} })
		if m.yes() {
			p.Routing.Router.Review = m.ask()
		}
	case spec.ParallelPattern:
		if m.yes() {
			each := &spec.ForEach{Items: append([]any{}, few(m, 0, m.scalar)...), Steps: few(m, 1, m.step)}
			p.Parallel = &spec.Parallel{ForEach: each, Reduce: maybe(m, m.step)}
			for i, item := range each.Items {
				p.Parallel.Branches = append(p.Parallel.Branches, spec.Branch{ID: fmt.Sprint(i), Steps: each.Steps, Item: item})
			}
			break
		}
		p.Parallel = &spec.Parallel{Reduce: maybe(m, m.step), Branches: few(m, 2, func() spec.Branch { return spec.Branch{ID: m.name(), Steps: few(m, 1, m.step)} })}
	case spec.EvaluatorPattern:
		p.Evaluator = &spec.Evaluator{
			Producer: m.name(), Judge: spec.Judge{Agent: m.name(), Input: maybe(m, m.maybeText)},
			Accept: spec.Accept{MinScore: m.number(0, 100), MaxIters: m.number(1, 9)}, RevisePrompt: maybe(m, m.maybeText), Gate: m.gate(),
		}
	case spec.OrchestratorPattern:
		p.Orchestrator = &spec.Orchestrator{
			Planner: spec.Planner{Agent: m.name(), Limits: spec.Limits{MaxWorkers: maybe(m, func() int { return 2 })}},
			Worker:  spec.Worker{Agent: m.name(), Tools: few(m, 0, m.name)}, DecompositionReview: m.gate(), ReduceReview: m.gate(),
			Reduce: maybe(m, m.step), Writeup: maybe(m, m.step),
		}
	case spec.GraphPattern:
		p.Graph = &spec.Graph{MaxIterations: m.number(1, 20), Edges: []spec.Edge{{From: "x", To: few(m, 0, m.name)}, {From: "y", Choose: []spec.Choice{{When: m.text(), To: "x"}}}}}
		p.Graph.Nodes = named(m, 1, func() spec.Node {
			if m.yes() {
				return spec.Node{Ask: m.ask()}
			}
			return spec.Node{Agent: m.name(), Input: maybe(m, m.maybeText)}
		})
	}
	return p
}
