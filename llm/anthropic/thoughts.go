package anthropic

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// refusesThoughts reports a server that does not take thoughts back: they were
// another model's or another account's.
func refusesThoughts(err error) bool {
	var refused *llm.ProviderError
	if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
		return false
	}
	text := strings.ToLower(refused.Message)
	return strings.Contains(text, "thinking") && (strings.Contains(text, "signature") || strings.Contains(text, "block"))
}

// withoutThoughts is a transcript without the thoughts in it, and whether it
// had any that would be sent.
func withoutThoughts(messages []session.Message) ([]session.Message, bool) {
	had := false
	kept := slices.Clone(messages)
	for i, m := range kept {
		kept[i].Content = slices.DeleteFunc(slices.Clone(m.Content), func(p session.Part) bool {
			thought := p.Type == session.PartReasoning && p.Signature != "" || p.Type == "redacted_thinking"
			had = had || thought && m.Role == session.RoleAssistant
			return thought
		})
	}
	return kept, had
}
