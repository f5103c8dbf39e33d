package task

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

const searchTool = "tool_search"

type toolQuery struct {
	Query string `json:"query" jsonschema:"words that the tool's name or description holds"`
}

// searchTool finds deferred tools; those it finds are offered from then on.
func (r *Run) searchTool() tool.Tool {
	t, err := tool.Func(tool.Spec{
		Name: searchTool, Nature: tool.Idempotent, Effects: tool.Read,
		Description: "Find further tools by words of their names and descriptions. What is found can be called from the next turn on.",
	}, func(ctx context.Context, q toolQuery) (string, error) {
		tools, err := r.catalogue(ctx)
		if err != nil {
			return "", err
		}
		var found []string
		lines := []string{}
		for _, t := range tools {
			spec := t.Spec()
			if spec.Deferred && matches(spec.Name+" "+spec.Description, q.Query) {
				found = append(found, spec.Name)
				lines = append(lines, spec.Name+": "+spec.Description)
			}
		}
		if len(found) == 0 {
			return "no tool fits", nil
		}
		return strings.Join(lines, "\n"), r.append(ctx, edit{state: func(s *session.TaskState) {
			for _, name := range found {
				s.Tools.Found = s.Tools.Found.With(name)
			}
		}})
	})
	if err != nil {
		panic("task: " + err.Error()) // its arguments are a struct
	}
	return t
}

// matches reports a text that holds any of the words.
func matches(text, words string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(strings.Fields(strings.ToLower(words)), func(w string) bool { return strings.Contains(text, w) })
}
