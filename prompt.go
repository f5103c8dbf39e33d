package holdfast

import (
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

// SystemPrompt returns the prompt in force, followed by the texts of the
// capabilities and skills that the definition lists, and by its memory blocks.
func (rt *Runtime) SystemPrompt(ctx context.Context, s session.Session) (string, error) {
	def := s.Definition()
	parts := []string{s.SystemPrompt()}
	for _, name := range def.Capabilities {
		parts = append(parts, rt.config.Capabilities[name].Prompt)
	}
	for _, name := range def.Skills {
		parts = append(parts, rt.config.Skills[name])
	}
	h := rt.memory(s.Info())
	h.now = &s
	blocks, err := h.Blocks(ctx)
	if err != nil {
		return "", err
	}
	parts = append(parts, memory.Prompt(blocks))
	parts = slices.DeleteFunc(parts, func(p string) bool { return strings.TrimSpace(p) == "" })
	return strings.Join(parts, "\n\n"), nil
}
