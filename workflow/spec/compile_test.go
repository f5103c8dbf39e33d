package spec_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

func TestLoad_compilesEveryTemplateAndCondition(t *testing.T) {
	t.Parallel()
	bad := func(text string) error {
		if strings.Contains(text, "BAD") {
			return errors.New("does not compile")
		}
		return nil
	}
	for name, c := range everyText() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := spec.Source{Path: "demo.yaml", Data: []byte(yamlOf(c.sections...))}
			_, err := spec.Loader{Template: bad, Condition: bad}.Parse(src, nil)
			wrong := refused(t, err)
			got := []string{wrong.Pointer}
			for _, p := range wrong.Also {
				got = append(got, p.Pointer)
			}
			var fails, all []string
			for _, p := range c.pointers {
				p, question := strings.CutPrefix(p, "?")
				if !question {
					fails = append(fails, p)
				}
				all = append(all, p)
			}
			if !slices.Equal(got, fails) {
				t.Errorf("got  %v\nwant %v", got, fails)
			}

			s, err := spec.Loader{Template: bad, Condition: bad, Lenient: true}.Parse(src, nil)
			if err != nil {
				t.Fatal(err)
			}
			got = nil
			for _, w := range s.Warnings {
				got = append(got, w.Pointer)
			}
			slices.Sort(got)
			slices.Sort(all)
			if !slices.Equal(got, all) {
				t.Errorf("warned of %v\nwant      %v", got, all)
			}
		})
	}
}

func TestLoad_aBadTextForAPersonOnlyWarns(t *testing.T) {
	t.Parallel()
	bad := func(string) error { return errors.New("does not compile") }
	src := spec.Source{Path: "demo.yaml", Data: []byte(yamlOf(config("chain", "steps: [{type: hitl, prompt: p, context_display: c}]")))}
	s, err := spec.Loader{Template: bad}.Parse(src, nil)
	if err != nil || len(s.Warnings) != 2 {
		t.Errorf("%v, %v", s, err)
	}
}

func TestLoad_conditionsAreNoTemplates(t *testing.T) {
	t.Parallel()
	src := spec.Source{Path: "demo.yaml", Data: []byte(yamlOf(config("graph", "nodes: {x: {agent: a, input: T}, y: {agent: a}}, edges: [{from: x, choose: [{when: C, to: y}]}]")))}
	var templates, conditions []string
	l := spec.Loader{
		Template:  func(s string) error { templates = append(templates, s); return nil },
		Condition: func(s string) error { conditions = append(conditions, s); return nil },
	}
	if _, err := l.Parse(src, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(templates, []string{"T"}) || !slices.Equal(conditions, []string{"C"}) {
		t.Errorf("templates %q, conditions %q", templates, conditions)
	}
}
