package spec

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/workflow/template"
)

// TextKind is what a text of a spec is compiled as.
type TextKind int

// The kinds of texts.
const (
	TemplateText  TextKind = iota // sent or written
	QuestionText                  // a template shown to a person; it never fails a run
	ConditionText                 // the test of a graph's choice
)

// Text is a template or a condition and where it stands.
type Text struct {
	Pointer string
	Kind    TextKind
	Text    string
}

// compile says what is wrong with a text.
func (t Text) compile() error {
	var err error
	if t.Kind == ConditionText {
		_, err = template.CompileCondition(t.Text)
	} else {
		_, err = template.Compile("", t.Text)
	}
	return plainly(err)
}

// plainly is an error of a template without the name of the text, which its
// pointer gives.
func plainly(err error) error {
	var wrong *template.Error
	if !errors.As(err, &wrong) || wrong.Line == 0 {
		return err
	}
	return fmt.Errorf("%s (line %d, column %d of the text)", wrong.Reason, wrong.Line, wrong.Column)
}

// Texts are all templates and conditions of a spec. The prompt of an agent is
// none, except the producer's, which is the request for the first draft.
func (s *Spec) Texts() []Text {
	var t texts
	const config = "/pattern/config"
	switch p := s.Pattern; {
	case p.Chain != nil:
		t.steps(config+"/steps", p.Chain.Steps)
	case p.Workflow != nil:
		for i, task := range p.Workflow.Tasks {
			t.step(document.Pointer(config+"/tasks", i), Step{Input: task.Input, Ask: task.Ask})
		}
	case p.Routing != nil:
		t.add(config+"/router/input", &p.Routing.Router.Input)
		t.ask(config+"/router/review_router", p.Routing.Router.Review)
		for _, route := range p.Routing.Routes {
			t.steps(document.Pointer(config+"/routes", route.Name)+"/then", route.Value.Then)
		}
	case p.Parallel != nil:
		for i, b := range p.Parallel.Branches {
			t.steps(document.Pointer(config+"/branches", i)+"/steps", b.Steps)
		}
		t.maybe(config+"/reduce", p.Parallel.Reduce)
	case p.Evaluator != nil:
		if producer, ok := s.Agents.Get(p.Evaluator.Producer); ok {
			t.add(document.Pointer("/agents", p.Evaluator.Producer)+"/prompt", &producer.Prompt)
		}
		t.add(config+"/evaluator/input", p.Evaluator.Judge.Input)
		t.add(config+"/revise_prompt", p.Evaluator.RevisePrompt)
		t.ask(config+"/review_gate", p.Evaluator.Gate)
	case p.Orchestrator != nil:
		t.ask(config+"/decomposition_review", p.Orchestrator.DecompositionReview)
		t.ask(config+"/reduce_review", p.Orchestrator.ReduceReview)
		t.maybe(config+"/reduce", p.Orchestrator.Reduce)
		t.maybe(config+"/writeup", p.Orchestrator.Writeup)
	case p.Graph != nil:
		t.graph(config, p.Graph)
	}
	for i, a := range s.Outputs.Artifacts {
		p := document.Pointer("/outputs/artifacts", i)
		t.add(p+"/path", &a.Path)
		t.add(p+"/from", &a.From)
	}
	return t
}

type texts []Text

func (t *texts) add(p string, text *string) {
	if text != nil && *text != "" {
		*t = append(*t, Text{p, TemplateText, *text})
	}
}

func (t *texts) ask(p string, a *Ask) {
	if a == nil {
		return
	}
	*t = append(*t, Text{p + "/prompt", QuestionText, a.Prompt})
	if a.ContextDisplay != "" {
		*t = append(*t, Text{p + "/context_display", QuestionText, a.ContextDisplay})
	}
}

func (t *texts) step(p string, s Step) {
	t.ask(p, s.Ask)
	t.add(p+"/input", &s.Input)
}

func (t *texts) maybe(p string, s *Step) {
	if s != nil {
		t.step(p, *s)
	}
}

func (t *texts) steps(p string, steps []Step) {
	for i, s := range steps {
		t.step(document.Pointer(p, i), s)
	}
}

func (t *texts) graph(config string, g *Graph) {
	for _, n := range g.Nodes {
		p := document.Pointer(config+"/nodes", n.Name)
		t.ask(p, n.Value.Ask)
		t.add(p+"/input", n.Value.Input)
	}
	for i, e := range g.Edges {
		for j, c := range e.Choose {
			p := document.Pointer(document.Pointer(config+"/edges", i)+"/choose", j) + "/when"
			*t = append(*t, Text{p, ConditionText, c.When})
		}
	}
}
