package offline_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
)

func said(texts ...string) llm.Request {
	var r llm.Request
	for _, text := range texts {
		r.Messages = append(r.Messages, session.Message{Role: session.RoleUser, Content: session.Text(text)})
	}
	return r
}

func TestInfer_repeatsAndCounts(t *testing.T) {
	var streamed strings.Builder
	got, err := offline.Model{}.Infer(t.Context(), said("one", "two"), func(d llm.Delta) { streamed.WriteString(d.Text) })
	if err != nil {
		t.Fatal(err)
	}
	text := got.Content.Text()
	if !strings.Contains(text, "two") || !strings.Contains(text, "message 2") || streamed.String() != text {
		t.Errorf("answered %q, streamed %q", text, streamed.String())
	}
	if got.Usage.Input == 0 || got.Usage.Output == 0 || got.FinishReason != "stop" {
		t.Errorf("response %+v", got)
	}
	long, err := offline.Model{}.Infer(t.Context(), said(strings.Repeat("é", 5000)), nil)
	if err != nil || len(long.Content.Text()) > 1500 {
		t.Errorf("a long message is repeated whole: %d bytes, %v", len(long.Content.Text()), err)
	}
}

func TestInfer_stopsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	words := 0
	_, err := offline.Model{Pace: time.Hour}.Infer(ctx, said("hi"), func(llm.Delta) {
		words++
		cancel()
	})
	if !errors.Is(err, context.Canceled) || words != 1 {
		t.Errorf("%d words, %v", words, err)
	}
}
