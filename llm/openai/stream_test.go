package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
)

// canned answers every request with the same bytes, without a network.
type canned struct {
	body  io.Reader
	asked *http.Request
	sent  []byte
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked = r
	var err error
	c.sent, err = io.ReadAll(r.Body)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(c.body), Request: r}, err
}

// hear is what a model makes of a body.
func hear(body io.Reader, emit func(llm.Delta)) (llm.Response, error) {
	model, err := openai.New(openai.Config{Model: "m", Client: &http.Client{Transport: &canned{body: body}}})
	if err != nil {
		return llm.Response{}, err
	}
	return model.Infer(context.Background(), hi(), emit)
}

// events are chunks as a stream carries them.
func events(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		fmt.Fprintf(&b, "data: %s\n\n", c)
	}
	return b.String()
}

// delta is a chunk with a piece of an answer.
func delta(piece string) string { return `{"choices":[{"index":0,"delta":` + piece + `}]}` }

const stop = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

func TestInfer_callsOfRealServers(t *testing.T) {
	t.Parallel()
	oslo := session.ToolCall{ID: "a", Name: "weather", Arguments: json.RawMessage(`{"city":"Oslo"}`)}
	bergen := session.ToolCall{ID: "b", Name: "weather", Arguments: json.RawMessage(`{"city":"Bergen"}`)}
	for name, c := range map[string]struct {
		chunks []string
		want   []session.ToolCall
	}{
		"numbered, in turns": {[]string{
			delta(`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"weather","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"weather","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\""}},{"index":1,"function":{"arguments":"{\"city\":"}}]}`),
			delta(`{"tool_calls":[{"index":1,"function":{"arguments":"\"Bergen\"}"}},{"index":0,"function":{"arguments":":\"Oslo\"}"}}]}`),
			stop,
		}, []session.ToolCall{oslo, bergen}},
		"whole, all numbered 0": {[]string{
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"weather","arguments":"{\"city\":\"Bergen\"}"}}]}`),
			stop,
		}, []session.ToolCall{oslo, bergen}},
		"not numbered": {[]string{
			delta(`{"tool_calls":[{"id":"a","function":{"name":"weather","arguments":"{\"city\":"}}]}`),
			delta(`{"tool_calls":[{"function":{"arguments":"\"Oslo\"}"}}]}`),
			delta(`{"tool_calls":[{"id":"b","function":{"name":"weather","arguments":""}}]}`),
			delta(`{"tool_calls":[{"id":"b","function":{"arguments":"{\"city\":\"Bergen\"}"}}]}`),
			stop,
		}, []session.ToolCall{oslo, bergen}},
		"neither number nor id": {[]string{
			delta(`{"tool_calls":[{"function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}},{"function":{"name":"weather","arguments":"{\"city\":\"Bergen\"}"}}]}`),
			stop,
		}, []session.ToolCall{{Name: "weather", Arguments: oslo.Arguments}, {Name: "weather", Arguments: bergen.Arguments}}},
		"id and name repeated": {[]string{
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":"{\"city\":"}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":"\"Oslo\"}"}}]}`),
			stop,
		}, []session.ToolCall{oslo}},
		"id empty later": {[]string{
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"weather","arguments":"{\"city\":"}}]}`),
			delta(`{"tool_calls":[{"index":0,"id":"","function":{"name":"","arguments":"\"Oslo\"}"}}]}`),
			stop,
		}, []session.ToolCall{oslo}},
		"name in pieces": {[]string{
			delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"weat","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"name":"her","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":\"Oslo\"}"}}]}`),
			stop,
		}, []session.ToolCall{oslo}},
		"arguments as an object": {[]string{
			delta(`{"tool_calls":[{"id":"a","function":{"name":"weather","arguments":{"city":"Oslo"}}}]}`), stop,
		}, []session.ToolCall{oslo}},
		"arguments null, no name": {[]string{
			delta(`{"tool_calls":[{"id":"a","function":{"arguments":null}}]}`), stop,
		}, []session.ToolCall{{ID: "a", Name: "unnamed", Arguments: json.RawMessage(`{}`)}}},
	} {
		for _, ending := range []string{events("[DONE]"), "data: [DONE]", ""} {
			got, err := hear(strings.NewReader(events(c.chunks...)+ending), nil)
			if err != nil || !reflect.DeepEqual(got.ToolCalls, c.want) || got.FinishReason != "tool_calls" {
				t.Errorf("%s: got %+v, %v\nwant %+v", name, got.ToolCalls, err, c.want)
			}
		}
	}
}

func TestInfer_answersOfRealServers(t *testing.T) {
	t.Parallel()
	thought := func(text string) session.Content {
		return session.Content{{Type: session.PartReasoning, Text: "hm"}, {Type: session.PartText, Text: text}}
	}
	for name, c := range map[string]struct {
		body   string
		want   session.Content
		finish string
	}{
		"reasoning":              {events(delta(`{"reasoning":"hm"}`), delta(`{"content":"ok"}`), stop), thought("ok"), "stop"},
		"reasoning_content":      {events(delta(`{"reasoning_content":"hm","content":null}`), delta(`{"content":"ok"}`), stop), thought("ok"), "stop"},
		"both, the same":         {events(delta(`{"reasoning":"hm","reasoning_content":"hm"}`), delta(`{"content":"ok"}`), stop), thought("ok"), "stop"},
		"content in parts":       {events(delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"ok"}]}`), stop), thought("ok"), "stop"},
		"no finish, but done":    {events(delta(`{"content":"ok"}`), "[DONE]"), session.Text("ok"), "stop"},
		"finish, not done":       {events(delta(`{"content":"ok"}`), stop), session.Text("ok"), "stop"},
		"last line unfinished":   {events(delta(`{"content":"ok"}`)) + "data: " + stop, session.Text("ok"), "stop"},
		"no space":               {"data:" + delta(`{"content":"ok"}`) + "\n\ndata:" + stop + "\n\n", session.Text("ok"), "stop"},
		"events with names":      {"event: x\nid: 1\nretry: 5\n" + events(delta(`{"content":"ok"}`), stop), session.Text("ok"), "stop"},
		"an event over lines":    {"data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"ok\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n", session.Text("ok"), "stop"},
		"fields of other types":  {events(`{"model":7,"usage":[],"choices":[{"index":0,"delta":{"content":"ok","role":3},"finish_reason":"stop","logprobs":{}}]}`), session.Text("ok"), "stop"},
		"other choices":          {events(`{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}`), session.Text("ok"), "stop"},
		"refusal":                {events(delta(`{"refusal":"I will not."}`), stop), session.Text("I will not."), "refusal"},
		"filter results first":   {events(`{"choices":[],"prompt_filter_results":[]}`, delta(`{"content":"ok"}`), stop), session.Text("ok"), "stop"},
		"newlines before a body": {"\n\n\n" + `{"choices":[{"message":{"content":"ok"},"finish_reason":"length"}]}`, session.Text("ok"), "length"},
	} {
		got, err := hear(strings.NewReader(c.body), nil)
		if err != nil || !reflect.DeepEqual(got.Content, c.want) || got.FinishReason != c.finish {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestInfer_ownServerAndItsLimit(t *testing.T) {
	t.Parallel()
	fake := &canned{body: strings.NewReader(events(delta(`{"content":"ok"}`), stop))}
	model, err := openai.New(openai.Config{Model: "m", Key: "sk-0123456789", Client: &http.Client{Transport: fake}})
	if err != nil {
		t.Fatal(err)
	}
	most := 5
	r := hi()
	r.Params.MaxOutputTokens = &most
	if _, err := model.Infer(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	if got := fake.asked.URL.String(); got != "https://api.openai.com/v1/chat/completions" || fake.asked.Header.Get("Authorization") != "Bearer sk-0123456789" {
		t.Errorf("asked %s", got)
	}
	if !bytes.Contains(fake.sent, []byte(`"max_completion_tokens":5`)) || bytes.Contains(fake.sent, []byte(`"max_tokens"`)) {
		t.Errorf("sent %s", fake.sent)
	}
}

// Whatever a server says, the answer is one a session can keep or a typed
// error, and it does not depend on how the bytes arrive.
func FuzzStream(f *testing.F) {
	f.Add([]byte(events(delta(`{"content":"ok"}`), stop, "[DONE]")))
	f.Add([]byte(events(delta(`{"reasoning_details":[{"index":0,"text":"a"}],"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}]}`), stop)))
	f.Add([]byte("\xef\xbb\xbf{\"choices\":[{\"message\":{\"content\":\"ok\",\"tool_calls\":[{}]},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":-1}}"))
	f.Add([]byte("data: {\ndata: }\n\n:\r\ndata:[DONE]"))
	f.Add([]byte("<html><title>x"))
	f.Add([]byte(`data: {"error":{"code":502,"message":"x"}}`))
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
