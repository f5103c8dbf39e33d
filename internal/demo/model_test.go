package demo

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// A tool is called once; with its result the model answers.
func TestModel_goesOnWhereItWas(t *testing.T) {
	t.Parallel()
	asked := []session.Message{{Role: session.RoleUser, Content: session.Text("What is 17 % of 4,230?")}}
	var words strings.Builder
	first, err := Model{}.Infer(t.Context(), llm.Request{Messages: asked}, func(d llm.Delta) { words.WriteString(d.Text + d.Reasoning) })
	if err != nil || len(first.ToolCalls) != 1 || first.ToolCalls[0].Name != "calculator" || first.FinishReason != "tool_calls" {
		t.Fatalf("%+v, %v", first, err)
	}
	if words.String() != "Better computed than guessed." {
		t.Errorf("streamed %q", words.String())
	}
	ran := slices.Concat(asked, []session.Message{{Role: session.RoleTool, ToolResult: &session.ToolResult{ToolName: "calculator", Content: "719.1"}}})
	second, err := Model{}.Infer(t.Context(), llm.Request{Messages: ran}, nil)
	if err != nil || len(second.ToolCalls) != 0 || !strings.Contains(second.Content.Text(), "719.1") {
		t.Errorf("%+v, %v", second, err)
	}
	other, err := Model{}.Infer(t.Context(), llm.Request{Messages: []session.Message{{Role: session.RoleUser, Content: session.Text("What else?")}}}, nil)
	if err != nil || !strings.Contains(other.Content.Text(), "What else?") || other.Usage.Output == 0 {
		t.Errorf("%+v, %v", other, err)
	}
}
