package crashtest

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/tool"
)

// Tool is a tool that only records its start and end.
type Tool struct {
	Worker *Worker
	About  tool.Spec
	Takes  time.Duration
}

// Spec describes the tool.
func (e Tool) Spec() tool.Spec { return e.About }

// Call records its start and end.
func (e Tool) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	if err := e.Worker.Began(c.ID); err != nil {
		return tool.Result{}, err
	}
	select {
	case <-time.After(e.Takes): // its work
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	}
	if err := e.Worker.Ended(c.ID); err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Content: "did " + c.ID + " with " + string(c.Arguments)}, nil
}

// Model is a model whose process can be killed at the start and at the end of an
// answer.
type Model struct {
	llm.Model
	Worker *Worker

	// Key returns the key of an answer from its text so far. Empty: not known
	// yet.
	Key func(r llm.Request, text string) string
}

// Infer asks the model.
func (m Model) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	begun, tell := false, emit
	if emit != nil {
		tell = func(d llm.Delta) {
			if key := m.Key(r, d.Text); key != "" && !begun {
				begun = true
				m.Worker.Point("answer began: " + key)
			}
			emit(d)
		}
	}
	response, err := m.Model.Infer(ctx, r, tell)
	if err == nil {
		m.Worker.Point("answer arrived: " + m.Key(r, response.Content.Text()))
	}
	return response, err
}
