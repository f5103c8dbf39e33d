package openai

import (
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
)

// dialect holds the parts of the protocol in which servers differ.
type dialect struct {
	stream           bool // answers come in pieces
	usage            bool // the last piece has the usage, if requested
	completionTokens bool // the limit is called max_completion_tokens
	renamed          bool // the other name of the limit has been tried
}

// fallback returns the dialect to try next, if the server refused a part of the
// protocol and not the request itself.
func (d dialect) fallback(err error) (dialect, bool) {
	var refused *llm.ProviderError
	if !errors.As(err, &refused) || refused.Status/100 != 4 && refused.Status != 501 || !unsupported(refused) {
		return d, false
	}
	about := func(field string) bool {
		return refused.Param == field || refused.Param == "" && strings.Contains(refused.Message, field)
	}
	switch {
	case d.usage && (about("stream_options") || about("include_usage")):
		d.usage = false
	case !d.renamed && (about("max_tokens") || about("max_completion_tokens")):
		d.completionTokens, d.renamed = !d.completionTokens, true
	case d.stream && (about("stream") || refused.Param == "" && strings.Contains(strings.ToLower(refused.Message), "streaming")):
		d.stream, d.usage = false, false
	default:
		return d, false
	}
	return d, true
}

// unsupported reports that a server refused a field, and not its value.
func unsupported(e *llm.ProviderError) bool {
	text := strings.ToLower(e.Code + " " + e.Message)
	return slices.ContainsFunc([]string{
		"unsupported", "not support", "unrecognized", "unknown", "extra inputs", "extra fields", "not permitted", "unexpected", "must be verified",
	}, func(word string) bool { return strings.Contains(text, word) })
}
