// Package offline is a model that needs nothing: no key, no network, no
// weights. It repeats what it was told and says where the session stands, so
// that everything around a model can be tried and seen to work.
package offline

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// Name is how definitions and configurations call the model.
const Name = "offline/echo"

// Model answers offline. The zero value answers at once.
type Model struct {
	// Pace is the pause between two streamed words.
	Pace time.Duration
}

// WorksOffline marks the model as one that never leaves the machine.
func (Model) WorksOffline() {}

// Cost is nothing.
func (Model) Cost(session.Usage) session.Cost { return 0 }

// Infer repeats the last user message and counts the messages so far.
func (m Model) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	said, turns := "", 0
	for _, message := range r.Messages {
		if message.Role == session.RoleUser {
			said, turns = message.Content.Text(), turns+1
		}
	}
	answer := fmt.Sprintf("You said: %s", shorten(said, 400))
	switch {
	case turns <= 1:
		answer += "\nI am the offline model: I only repeat, but this session is real and saved."
	default:
		answer += fmt.Sprintf("\nThat was message %d of this session.", turns)
	}
	for i, word := range strings.SplitAfter(answer, " ") {
		if i > 0 && m.Pace > 0 {
			timer := time.NewTimer(m.Pace)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
		if err := ctx.Err(); err != nil {
			return llm.Response{}, err
		}
		if emit != nil {
			emit(llm.Delta{Text: word})
		}
	}
	return llm.Response{
		Content: session.Text(answer), FinishReason: "stop", Model: Name,
		Usage: session.Usage{Input: tokens(r), Output: int64(len(answer)+3) / 4},
	}, nil
}

// tokens is a rough count: four bytes each.
func tokens(r llm.Request) int64 {
	n := len(r.System)
	for _, m := range r.Messages {
		n += len(m.Content.Text())
		if m.ToolResult != nil {
			n += len(m.ToolResult.Content)
		}
	}
	return int64(n+3) / 4
}

func shorten(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "…"
}
