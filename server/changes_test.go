package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// asked is a model that keeps every request. It calls a tool before each answer.
type asked struct {
	mu       sync.Mutex
	requests []llm.Request
}

func (m *asked) Infer(_ context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, r)
	if last := r.Messages[len(r.Messages)-1]; last.ToolResult == nil {
		call := session.ToolCall{ID: fmt.Sprint("call", len(m.requests)), Name: "weather", Arguments: json.RawMessage(`{"place":"Rome"}`)}
		return llm.Response{ToolCalls: []session.ToolCall{call}, FinishReason: "tool_calls"}, nil
	}
	return llm.Response{Content: session.Text("sunny"), FinishReason: "stop"}, nil
}

func (*asked) Cost(session.Usage) session.Cost { return 0 }

type sentRequest struct {
	Step, Steps   int
	Model, System string
	Messages      []session.Message
	Tools         []llm.Tool
	Params        session.ModelParams
}

func TestSentRequest_isWhatTheModelGot(t *testing.T) {
	t.Parallel()
	model := &asked{}
	tools, err := tool.NewSet(tool.Fake("weather", "The weather of a place.", "clear"))
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t, func(c *holdfast.Config, _ *server.Config) {
		c.Models = llm.Map{offline.Name: model, "other": model}
		c.Tools = tools
	})
	at := "/v1/sessions/" + n.create(request{body: map[string]any{"definition": map[string]any{"name": "guide", "systemPrompt": "Be kind."}}}).ID
	say := func(text string) {
		want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": text}}), 200)
	}
	say("one") // version 2
	want[turn](t, n.do("POST", at+"/actions/ChangeSystemPrompt", request{body: map[string]any{"text": "Be brief."}}), 200)
	want[turn](t, n.do("POST", at+"/actions/ChangeModel", request{body: map[string]any{"model": "other", "params": map[string]any{"temperature": 0.5}}}), 200)
	say("two")                                                                                                            // version 5
	want[turn](t, n.do("POST", at+"/rewind", request{body: map[string]any{"to": 2}}), 200)                                // version 6
	say("three")                                                                                                          // version 7
	want[turn](t, n.do("POST", at+"/actions/ChangeSystemPrompt", request{body: map[string]any{"text": "Be long."}}), 200) // later changes do not matter

	for i, place := range []struct {
		version int64
		step    int
	}{{2, 1}, {2, 2}, {5, 1}, {5, 2}, {7, 1}, {7, 2}} {
		got := want[sentRequest](t, n.do("GET", fmt.Sprintf("%s/versions/%d/request?step=%d", at, place.version, place.step), request{}), 200)
		sent := model.requests[i]
		if got.Step != place.step || got.Steps != 2 || got.Model != sent.Model || got.System != sent.System || !reflect.DeepEqual(got.Params, sent.Params) {
			t.Errorf("version %d, step %d: %+v, want %+v", place.version, place.step, got, sent)
		}
		if a, b := asJSON(t, got.Messages), asJSON(t, sent.Messages); a != b {
			t.Errorf("version %d, step %d: messages\n%s, want\n%s", place.version, place.step, a, b)
		}
		if len(got.Tools) != len(sent.Tools) || got.Tools[0].Name != "weather" {
			t.Errorf("version %d, step %d: tools %v, want %v", place.version, place.step, got.Tools, sent.Tools)
		}
	}
	// The last is the default; a version in which nothing was asked shows what would be.
	if got := want[sentRequest](t, n.do("GET", at+"/versions/2/request", request{}), 200); got.Step != 2 {
		t.Errorf("step %d, want the last", got.Step)
	}
	got := want[sentRequest](t, n.do("GET", at+"/versions/3/request", request{}), 200)
	if got.Step != 0 || got.Steps != 0 || got.System != "Be brief." || len(got.Messages) != 4 {
		t.Errorf("%+v", got)
	}
	refused(t, n.do("GET", at+"/versions/2/request?step=3", request{}), 404, "not_found")
	refused(t, n.do("GET", at+"/versions/1/request?step=1", request{}), 404, "not_found")
	refused(t, n.do("GET", at+"/versions/99/request", request{}), 422, "invalid")
}

func TestChanges_pagesAndKinds(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	at := "/v1/sessions/" + n.create(request{}).ID
	for i := range 3 {
		want[turn](t, n.do("POST", at+"/messages", request{body: map[string]any{"text": fmt.Sprint("message ", i)}}), 200)
	}
	type page struct {
		Items []session.LogEntry
		Next  int64
	}
	all := want[page](t, n.do("GET", at+"/log", request{}), 200)
	if len(all.Items) < 10 || all.Next != 0 || all.Items[0].Seq != 1 {
		t.Fatalf("%d changes, next %d", len(all.Items), all.Next)
	}
	var read []session.LogEntry
	for after := int64(0); ; {
		p := want[page](t, n.do("GET", fmt.Sprintf("%s/log?limit=4&after=%d", at, after), request{}), 200)
		read = append(read, p.Items...)
		if after = p.Next; after == 0 {
			break
		}
	}
	if asJSON(t, read) != asJSON(t, all.Items) {
		t.Errorf("pages have %d changes, want %d", len(read), len(all.Items))
	}
	messages := want[page](t, n.do("GET", at+"/log?kind=message_added&limit=5", request{}), 200)
	rest := want[page](t, n.do("GET", fmt.Sprintf("%s/log?kind=message_added&after=%d", at, messages.Next), request{}), 200)
	if len(messages.Items) != 5 || len(rest.Items) != 1 || rest.Items[0].Change.Kind() != "message_added" {
		t.Errorf("%d and %d messages, want 5 and 1", len(messages.Items), len(rest.Items))
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
