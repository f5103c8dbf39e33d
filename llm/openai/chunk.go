package openai

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/holdfast-dev/holdfast/llm/internal/wire"
)

// chunk is an event of a stream or a whole answer: only one name differs.
type chunk struct {
	Model   wire.String     `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        int           `json:"index"`
	Delta        *messageDelta `json:"delta"`
	Message      *messageDelta `json:"message"`
	FinishReason wire.String   `json:"finish_reason"`
	Usage        *usage        `json:"usage"` // some servers put it here
}

type messageDelta struct {
	Content          mixedContent    `json:"content"`
	Refusal          wire.String     `json:"refusal"`
	Reasoning        wire.String     `json:"reasoning"`         // OpenRouter, Ollama, vLLM
	ReasoningContent wire.String     `json:"reasoning_content"` // DeepSeek, LM Studio, older vLLM
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ToolCalls        []callPiece     `json:"tool_calls"`
}

type callPiece struct {
	Index    *int        `json:"index"`
	ID       wire.String `json:"id"`
	Function struct {
		Name      wire.String `json:"name"`
		Arguments arguments   `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	Prompt        wire.Count `json:"prompt_tokens"`
	Completion    wire.Count `json:"completion_tokens"`
	PromptDetails struct {
		Cached     wire.Count `json:"cached_tokens"`
		CacheWrite wire.Count `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning wire.Count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
	CacheHit wire.Count `json:"prompt_cache_hit_tokens"` // DeepSeek
	Cost     float64    `json:"cost"`
}

// decode reads a chunk. A field of an unexpected type counts as missing: it must
// not lose an answer.
func decode(raw []byte) (chunk, error) {
	var c chunk
	err := json.Unmarshal(raw, &c)
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) && mistyped.Field != "" {
		err = nil
	}
	return c, err
}

// mixedContent is a string or, at some servers, a list of parts, some of them
// reasoning.
type mixedContent struct{ text, thoughts string }

// UnmarshalJSON takes any JSON value and never fails.
func (p *mixedContent) UnmarshalJSON(data []byte) error {
	*p = mixedContent{}
	if json.Unmarshal(data, &p.text) == nil {
		return nil
	}
	var parts []struct {
		Type     wire.String  `json:"type"`
		Text     wire.String  `json:"text"`
		Thinking mixedContent `json:"thinking"`
	}
	if json.Unmarshal(data, &parts) != nil {
		return nil
	}
	var text, thoughts strings.Builder
	for _, part := range parts {
		text.WriteString(string(part.Text))
		thoughts.WriteString(part.Thinking.text)
	}
	p.text, p.thoughts = text.String(), thoughts.String()
	return nil
}

// arguments is a piece of the JSON text of a call's arguments. Some servers send
// the object itself.
type arguments string

// UnmarshalJSON takes any JSON value and never fails.
func (a *arguments) UnmarshalJSON(data []byte) error {
	var text string
	switch {
	case json.Unmarshal(data, &text) == nil: // null too, as nothing
		*a = arguments(text)
	default:
		*a = arguments(data)
	}
	return nil
}
