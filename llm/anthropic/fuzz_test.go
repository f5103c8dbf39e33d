package anthropic_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"testing"
	"testing/iotest"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/anthropic"
	"github.com/holdfast-dev/holdfast/session"
)

// canned answers every request with the same bytes, without a network.
type canned struct{ body io.Reader }

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(c.body), Request: r}, nil
}

func hear(body io.Reader, emit func(llm.Delta)) (llm.Response, error) {
	model, err := anthropic.New(anthropic.Config{Model: "m", Client: &http.Client{Transport: canned{body}}})
	if err != nil {
		return llm.Response{}, err
	}
	return model.Infer(context.Background(), hi(), emit)
}

// Whatever a server says, the answer is one a session can keep or a typed
// error, and it does not depend on how the bytes arrive.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":-1}}}\n\n" +
			"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\",\"input\":{}}}\n\n" +
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\n" +
			"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":5}}\n\n",
		"data: {\"type\":\"content_block_start\",\"index\":-1,\"content_block\":{\"type\":\"server_tool_use\",\"input\":7}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
		`{"type":"message","content":[{"type":"text","text":"x"},{"type":"thinking","thinking":"y"},{"type":"zzz"}],"stop_reason":"end_turn"}`,
		`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`, "data: [DONE]\n\n", "\xef\xbb\xbf{}", "<html>",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		whole, err := hear(bytes.NewReader(body), nil)
		pieces, err2 := hear(iotest.OneByteReader(bytes.NewReader(body)), func(llm.Delta) {})
		if !reflect.DeepEqual(whole, pieces) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("in one piece %+v, %v\nin many %+v, %v", whole, err, pieces, err2)
		}
		if err != nil {
			var told *llm.ProviderError
			if !errors.As(err, &told) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		s, err := session.New(session.Identity{ID: "s", AgentID: "0b9e7c3e-1d1f-4c56-9c1c-0f1a2b3c4d5e", Tenant: "t"}, session.Definition{Name: "d"}, session.Seed{}, time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		m := session.Message{ID: "m", Role: session.RoleAssistant, Content: whole.Content, ToolCalls: whole.ToolCalls}
		if _, err := s.With(time.Unix(2, 0), session.MessageAdded{Message: m}); err != nil {
			t.Fatalf("a session refuses %+v: %v", whole, err)
		}
		if u := whole.Usage; min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning) < 0 {
			t.Fatalf("usage %+v", u)
		}
	})
}
