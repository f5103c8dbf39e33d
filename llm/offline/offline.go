// Package offline is a model that needs no key, no network and no weights. It
// repeats the last message and counts the messages, so that you can try
// everything around a model.
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

// Name is the model's name in definitions.
const Name = "offline/echo"

// Model answers offline. The zero value answers at once.
type Model struct {
	// Pace is the pause between two streamed words.
	Pace time.Duration
}

// WorksOffline makes the model an llm.Offline.
func (Model) WorksOffline() {}

// Cost returns 0.
func (Model) Cost(session.Usage) session.Cost { return 0 }

// Infer repeats the last user message and counts the messages so far.
func (m Model) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	last, count := "", 0
	for _, message := range r.Messages {
		if message.Role == session.RoleUser {
			last, count = message.Content.Text(), count+1
		}
	}
	answer := fmt.Sprintf("You said: %s", shorten(last, 400))
	if count <= 1 {
		answer += "\nI am the offline model: I only repeat, but this session is real and saved."
	} else {
		answer += fmt.Sprintf("\nThat was message %d of this session.", count)
	}
	if err := Stream(ctx, answer, m.Pace, func(word string) {
		if emit != nil {
			emit(llm.Delta{Text: word})
		}
	}); err != nil {
		return llm.Response{}, err
	}
	return llm.Response{
		Content: session.Text(answer), FinishReason: "stop", Model: Name,
		Usage: session.Usage{Input: Tokens(r), Output: int64(len(answer)+3) / 4},
	}, nil
}

// Stream says a text word by word, with a pause between two of them.
func Stream(ctx context.Context, text string, pace time.Duration, say func(word string)) error {
	if text == "" {
		return ctx.Err()
	}
	for i, word := range strings.SplitAfter(text, " ") {
		if i > 0 && pace > 0 {
			timer := time.NewTimer(pace)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		say(word)
	}
	return nil
}

// Tokens estimates how many tokens a request has: four bytes each.
func Tokens(r llm.Request) int64 {
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
