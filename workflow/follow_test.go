package workflow_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// slow is a model that streams a piece and answers once it may.
type slow struct{ may chan struct{} }

func (m slow) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	text := "re: " + input(r)
	emit(llm.Delta{Text: text})
	select {
	case <-m.may:
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	}
	return llm.Response{Content: session.Text(text), FinishReason: "stop"}, nil
}

// The answers of branches that work at the same time are followed while none of
// them has ended.
func TestFollow_branchesThatAnswerAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	model := slow{may: make(chan struct{})}
	s.host.Models = func(spec.Model) (string, llm.Model, error) { return "slow", model, nil }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var followed sync.WaitGroup
	shown, ended := map[string]string{}, []string{}
	follow := func(id string) {
		for u, err := range s.rt.Follow(ctx, id, 0) {
			switch {
			case err != nil:
				t.Error(err)
			case u.Delta != nil:
				shown[u.Delta.Unit] += u.Delta.Text
				if len(shown) == 2 && len(ended) == 0 {
					close(model.may)
				}
			case u.Dropped != nil:
				t.Errorf("dropped: %+v", u.Dropped)
			}
			if u.Record == nil {
				continue
			}
			switch c := u.Record.Change.(type) {
			case session.UnitAdvanced:
				if _, ok := c.Change.(session.InferenceAnswered); ok {
					ended = append(ended, c.Unit)
				}
			case session.WorkflowRowChanged:
				if c.Workflow.Status == string(workflow.StatusCompleted) {
					return
				}
			}
		}
	}
	s.host.OnEvent = func(e workflow.Event) {
		if e.Type == workflow.WorkflowStart {
			followed.Go(func() { follow(e.SessionID) })
		}
	}
	_, err := s.start(head + `
agents: {a: {prompt: A}, b: {prompt: B}}
pattern: {type: parallel, config: {branches: [{id: one, steps: [{agent: a, input: x}]}, {id: two, steps: [{agent: b, input: y}]}]}}
`)
	if err != nil {
		t.Fatal(err)
	}
	followed.Wait()
	slices.Sort(ended)
	units := strings.Join(ended, " ")
	for _, unit := range ended {
		if !strings.HasPrefix(shown[unit], "re: ") {
			t.Errorf("of %s was shown %q", unit, shown[unit])
		}
	}
	if len(ended) != 2 || len(shown) != 2 {
		t.Errorf("answered: %s; shown: %v", units, shown)
	}
}
