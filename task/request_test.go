package task

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

func TestRetryPause_doublesWithinBounds(t *testing.T) {
	down := &llm.TransientError{Err: errors.New("down")}
	for attempt, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second} {
		for range 100 {
			got, again := retryPause(attempt, down)
			if !again || got < want*3/4 || got > want*5/4 {
				t.Fatalf("attempt %d: %v, %v; want %v give or take a quarter", attempt, got, again, want)
			}
		}
	}
	if _, again := retryPause(5, down); again {
		t.Error("it is tried a seventh time")
	}
	if got, again := retryPause(0, &llm.TransientError{After: 90 * time.Second, Err: errors.New("later")}); got != 90*time.Second || !again {
		t.Errorf("a server that asked for 90 s got %v", got)
	}
	for _, err := range []error{
		errors.New("down"), &llm.ProviderError{Status: 503}, &llm.TransientError{Err: &llm.ProviderError{Status: 429, Code: "billing_hard_limit"}},
		&llm.TransientError{Err: &llm.ProviderError{Status: 402}},
	} {
		if _, again := retryPause(0, err); again {
			t.Errorf("%v is tried again", err)
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
		if got := tooLong(&providerError{c.err}); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}
