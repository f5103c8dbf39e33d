package acp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// PlanTool is the name of the tool that NewPlanTool makes.
const PlanTool = "update_plan"

type planArguments struct {
	Entries []planStep `json:"entries" jsonschema:"the whole plan, in order; it replaces the one before"`
}

type planStep struct {
	Content string `json:"content" jsonschema:"what is to be done, in one line"`
	Status  string `json:"status" jsonschema:"pending, in_progress or completed"`
}

// NewPlanTool makes the tool by which an agent shows its plan in the editor.
// The plan is the arguments of its last call: the log keeps it.
func NewPlanTool() (tool.Tool, error) {
	return tool.Func(tool.Spec{
		Name: PlanTool, Effects: tool.Read, Nature: tool.ReadOnly,
		Description: "Show the user your plan, and where you are in it. Call it when work has several steps, and again whenever one begins or ends.",
	}, func(_ context.Context, in planArguments) (string, error) {
		for i, e := range in.Entries {
			if e.Status != "pending" && e.Status != "in_progress" && e.Status != "completed" {
				return "", &session.InvalidError{Field: fmt.Sprintf("entries[%d].status", i), Reason: fmt.Sprintf("%q is not pending, in_progress or completed", e.Status)}
			}
		}
		return "The user sees the plan.", nil
	})
}

// showPlanCall sends the plan that a call of the tool made.
func (v *view) showPlanCall(arguments json.RawMessage) error {
	var in planArguments
	if json.Unmarshal(arguments, &in) != nil {
		return nil // another tool of the same name
	}
	entries := make([]planEntry, len(in.Entries))
	for i, e := range in.Entries {
		entries[i] = planEntry{Content: e.Content, Priority: "medium", Status: e.Status}
	}
	return v.s.update(v.id, planUpdate{"plan", entries})
}
