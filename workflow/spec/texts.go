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
	return withoutName(err)
}

// withoutName leaves the name of the text out of a template's error: its
// pointer gives it.
func withoutName(err error) error {
	var wrong *template.Error
	if !errors.As(err, &wrong) || wrong.Line == 0 {
		return err
	}
	return fmt.Errorf("%s (line %d, column %d of the text)", wrong.Reason, wrong.Line, wrong.Column)
}

// Texts are all templates and conditions of a spec. The prompt of an agent is
// none, except the producer's, which is the request for the first draft.
func (s *Spec) Texts() []Text {
	var all []Text
	add := func(pointer string, kind TextKind, text string) {
		if text != "" {
			all = append(all, Text{pointer, kind, text})
		}
	}
	if e := s.Pattern.Evaluator; e != nil {
		producer, _ := s.Agents.Get(e.Producer)
		add(document.Pointer("/agents", e.Producer, "prompt"), TemplateText, producer.Prompt)
		add(configPointer+"/revise_prompt", TemplateText, valueOr(e.RevisePrompt, ""))
	}
	for _, step := range s.Pattern.steps() {
		if step.Ask != nil {
			add(step.pointer+"/prompt", QuestionText, step.Ask.Prompt)
			add(step.pointer+"/context_display", QuestionText, step.Ask.ContextDisplay)
		}
		add(step.pointer+"/input", TemplateText, step.Input)
	}
	if g := s.Pattern.Graph; g != nil {
		for i, e := range g.Edges {
			for j, c := range e.Choose {
				add(document.Pointer(configPointer, "edges", i, "choose", j, "when"), ConditionText, c.When)
			}
		}
	}
	for i, a := range s.Outputs.Artifacts {
		p := document.Pointer("/outputs/artifacts", i)
		add(p+"/path", TemplateText, a.Path)
		add(p+"/from", TemplateText, a.From)
	}
	return all
}
