package anthropic

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// refusesThinking reports that a server refused earlier thinking, because it is
// from another model or account.
func refusesThinking(err error) bool {
	var refused *llm.ProviderError
	if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
		return false
	}
	text := strings.ToLower(refused.Message)
	return strings.Contains(text, "thinking") && (strings.Contains(text, "signature") || strings.Contains(text, "block"))
}

// withoutThinking removes thinking from a transcript and reports whether any of
// it would have been sent.
func withoutThinking(messages []session.Message) ([]session.Message, bool) {
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
