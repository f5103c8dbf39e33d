package holdfast

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// SystemPrompt returns the prompt in force, followed by the texts of the
// capabilities and skills that the definition lists.
func (rt *Runtime) SystemPrompt(s session.Session) string {
	def := s.Definition()
	parts := []string{s.SystemPrompt()}
	for _, name := range def.Capabilities {
		parts = append(parts, rt.config.Capabilities[name].Prompt)
	}
	for _, name := range def.Skills {
		parts = append(parts, rt.config.Skills[name])
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return strings.TrimSpace(p) == "" })
	return strings.Join(parts, "\n\n")
}
