package task

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

func TestBackoff_doublesWithinBounds(t *testing.T) {
	for attempt, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second} {
		for range 100 {
			if got := backoff(attempt); got < want*3/4 || got > want*5/4 {
				t.Fatalf("attempt %d: %v; want %v give or take a quarter", attempt, got, want)
			}
		}
	}
}

func TestTooLong_typedAndByTheProvidersWords(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&session.ContextLengthError{Model: "m"}, true},
		{&llm.ProviderError{Status: 413}, true},
		{&llm.ProviderError{Status: 400, Code: "context_length_exceeded"}, true},
		{&llm.ProviderError{Status: 400, Message: "prompt is too long: 210000 tokens > 200000 maximum"}, true},
		{&llm.ProviderError{Status: 400, Message: "unknown parameter"}, false},
		{&llm.ProviderError{Status: 500, Message: "context length"}, false},
		{errors.New("prompt is too long"), false},
	} {
		if got := llm.TooLong(&providerError{c.err}); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
