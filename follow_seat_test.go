package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// typist is a model that a test types for: every word it is given is streamed,
// "!" breaks the attempt off, "." ends the answer.
type typist struct {
	words chan string
	typed chan struct{} // one for each word that was streamed
}

func newTypist() *typist { return &typist{words: make(chan string), typed: make(chan struct{}, 1000)} }

func (m *typist) Infer(ctx context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	text := ""
	for {
		select {
		case <-ctx.Done():
			return llm.Response{}, ctx.Err()
		case word := <-m.words:
			switch word {
			case "!":
				return llm.Response{}, &llm.TransientError{Err: errors.New("broken off")}
			case ".":
				return llm.Response{Content: session.Text(text), FinishReason: "stop"}, nil
			}
			text += word
			emit(llm.Delta{Text: word})
			m.typed <- struct{}{}
		}
	}
}

// say types words and waits until they were streamed.
func (m *typist) say(words ...string) {
	for _, word := range words {
		m.words <- word
		if word != "!" && word != "." {
			<-m.typed
		}
	}
}

// seat is somebody who follows a session, an update at a time: nothing more
// happens there until the next is asked for.
type seat struct {
	t    *testing.T
	next func() (holdfast.Update, error, bool)
}

func (h *house) follow(id string, after int64) *seat {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second) // only so that a test that fails ends
	next, stop := iter.Pull2(h.Follow(ctx, id, after))
	h.t.Cleanup(func() {
		cancel()
		stop()
	})
	return &seat{t: h.t, next: next}
}

// line is an update in a few words.
func sessionQueue(u holdfast.Update) string {
	switch {
	case u.Record != nil && u.Delta == nil && u.Dropped == nil:
		if m, ok := u.Record.Change.(session.MessageAdded); ok {
			return fmt.Sprintf("%s: %s", m.Message.Role, m.Message.Content.Text())
		}
		return u.Record.Change.Kind()
	case u.Delta != nil && u.Record == nil && u.Dropped == nil:
		return fmt.Sprintf("…%s%s", u.Delta.Text, u.Delta.Reasoning)
	case u.Dropped != nil && u.Record == nil && u.Delta == nil:
		return fmt.Sprintf("dropped %d", u.Dropped.Number)
	}
	return fmt.Sprintf("bad update %+v", u)
}

// sees fails unless these are the next updates.
func (s *seat) sees(want ...string) {
	s.t.Helper()
	for i, w := range want {
		u, err, ok := s.next()
		if err != nil || !ok {
			s.t.Fatalf("update %d: ended with %v, want %q", i, err, w)
		}
		if got := sessionQueue(u); got != w {
			s.t.Fatalf("update %d is %q, want %q", i, got, w)
		}
	}
}

func openTypist(t *testing.T, adjust func(*holdfast.Config)) (*house, *typist) {
	t.Helper()
	m := newTypist()
	return open(t, func(c *holdfast.Config) {
		retries := 3
		c.Models, c.ModelRetries = llm.Map{"demo": m}, &retries
		c.Backoff = func(int) time.Duration { return time.Nanosecond }
		if adjust != nil {
			adjust(c)
		}
	}), m
}
