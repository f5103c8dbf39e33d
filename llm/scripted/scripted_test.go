package scripted_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/session"
)

func ask(t *testing.T, m *scripted.Model, r llm.Request) (string, error) {
	t.Helper()
	response, err := m.Infer(t.Context(), r, nil)
	return response.Content.Text(), err
}

func TestInfer_cursorIsTheSessions(t *testing.T) {
	m := scripted.New(scripted.Reply{Text: "a"}, scripted.Reply{Text: "b"})
	for inference, want := range map[int]string{0: "a", 1: "b", 2: "b", 99: "b"} {
		for range 2 { // asking twice moves nothing
			if got, err := ask(t, m, llm.Request{Inference: inference}); err != nil || got != want {
				t.Errorf("inference %d: %q, %v", inference, got, err)
			}
		}
	}
	if n := len(m.Requests()); n != 8 {
		t.Errorf("%d requests recorded", n)
	}
}

func TestInfer_emptyScriptAnswersOK(t *testing.T) {
	if got, err := ask(t, scripted.New(), llm.Request{}); err != nil || got != "ok" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestInfer_strictEnds(t *testing.T) {
	m := scripted.NewConfig(scripted.Config{Replies: []scripted.Reply{{Text: "a"}}, Strict: true})
	if _, err := ask(t, m, llm.Request{Inference: 1}); !errors.Is(err, session.ErrScriptExhausted) {
		t.Errorf("got %v", err)
	}
}

func TestInfer_attemptsAndAgents(t *testing.T) {
	boom := errors.New("boom")
	m := scripted.NewConfig(scripted.Config{
		Replies: []scripted.Reply{{Attempts: []scripted.Reply{{Err: boom}, {Text: "second try"}}}},
		Agents:  map[string][]scripted.Reply{"child": {{Text: "mine"}}},
	})
	if _, err := ask(t, m, llm.Request{}); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	for _, attempt := range []int{1, 2} {
		if got, err := ask(t, m, llm.Request{Attempt: attempt}); err != nil || got != "second try" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if got, err := ask(t, m, llm.Request{Agent: "child"}); err != nil || got != "mine" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestInfer_delayEndsWithTheContext(t *testing.T) {
	m := scripted.New(scripted.Reply{Text: "late", Delay: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Infer(ctx, llm.Request{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestInfer_finishReasonFollowsTheReply(t *testing.T) {
	m := scripted.New(scripted.Reply{ToolCalls: []session.ToolCall{{ID: "1", Name: "x"}}}, scripted.Reply{Text: "a", Reasoning: "because"})
	var streamed string
	first, err := m.Infer(t.Context(), llm.Request{}, nil)
	if err != nil || first.FinishReason != "tool_calls" || len(first.ToolCalls) != 1 {
		t.Errorf("got %+v, %v", first, err)
	}
	second, err := m.Infer(t.Context(), llm.Request{Inference: 1}, func(d llm.Delta) { streamed += d.Reasoning + " " + d.Text })
	if err != nil || second.FinishReason != "stop" || streamed != "because a" || len(second.Content) != 2 {
		t.Errorf("got %+v, %v, streamed %q", second, err, streamed)
	}
}
