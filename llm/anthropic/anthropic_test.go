package anthropic_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/anthropic"
	"github.com/holdfast-dev/holdfast/session"
)

// serve is a server and a model on it.
func serve(t *testing.T, c provtest.Config, m anthropic.Config) (*provtest.Server, *anthropic.Model) {
	t.Helper()
	server := provtest.Anthropic(c)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m.Model, m.Client = "claude-x", &http.Client{Transport: transport}
	if m.URL == "" {
		m.URL = server.URL
	} else {
		m.URL = server.URL + m.URL
	}
	model, err := anthropic.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return server, model
}

// sent is the body of the only request that r becomes.
func sent(t *testing.T, m anthropic.Config, r llm.Request) map[string]any {
	t.Helper()
	server, model := serve(t, provtest.Config{}, m)
	if _, err := model.Infer(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	return server.Requests()[0].JSON()
}

func hi() llm.Request {
	return llm.Request{Messages: []session.Message{user("1", "hi")}}
}

func user(id, text string) session.Message {
	return session.Message{ID: id, Role: session.RoleUser, Content: session.Text(text)}
}

// same compares a value with JSON.
func same(t *testing.T, got any, want string) {
	t.Helper()
	var decoded any
	if err := json.Unmarshal([]byte(want), &decoded); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, decoded) {
		raw, err := json.MarshalIndent(got, "", " ")
		t.Errorf("got %s, %v\nwant %s", raw, err, want)
	}
}

func TestInfer_sendsTheTranscript(t *testing.T) {
	t.Parallel()
	r := llm.Request{System: "Be brief.", Messages: []session.Message{
		{ID: "1", Role: session.RoleSystem, Content: session.Text("House rules.")},
		{ID: "2", Role: session.RoleUser, Content: session.Content{
			{Type: session.PartText, Text: "See:"}, {Type: session.PartText, Text: " \n"},
			{Type: session.PartImage, Data: "iVBORw0KGgo="},
			{Type: session.PartImage, URL: "https://example.org/a.jpg"},
			{Type: session.PartImage, Data: "SUkqAA==", MediaType: "image/tiff", Name: "t.tiff"},
			{Type: session.PartFile, Data: "JVBERi0=", MediaType: "application/pdf", Name: "a.pdf"},
			{Type: session.PartFile, Data: "aGVsbG8=", MediaType: "text/plain"},
			{Type: session.PartAudio, Data: "UklGRg==", MediaType: "audio/wav"},
		}},
		user("3", "Well?"),
		{ID: "4", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"a":1}`)}, {ID: "functions.look:1", Name: "look"}},
			Content: session.Content{
				{Type: session.PartReasoning, Text: "sealed", Signature: "sig"}, {Type: session.PartReasoning, Text: "another provider's"},
				{Type: "redacted_thinking", Raw: json.RawMessage(`{"type":"redacted_thinking","data":"xyz"}`)},
				{Type: "hologram", Raw: json.RawMessage(`{"type":"hologram"}`)}, {Type: session.PartText, Text: "Let me look."},
			}},
		{ID: "5", Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: "c1", Content: "seen"}},
		{ID: "6", Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: "functions.look:1", IsError: true}},
		{ID: "7", Role: session.RoleDeveloper, Content: session.Text("Now in French.")},
		user("8", "and?"),
		{ID: "9", Role: session.RoleAssistant, Content: session.Text(" ")},
		user("10", ""),
		{ID: "11", Role: session.RoleAssistant, Content: session.Text("cut off in the mid")},
	}}
	got := sent(t, anthropic.Config{}, r)
	same(t, got["system"], `"Be brief.\n\nHouse rules.\n\nNow in French."`)
	same(t, got["messages"], `[
		{"role":"user","content":[
			{"type":"text","text":"See:"},
			{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},
			{"type":"image","source":{"type":"url","url":"https://example.org/a.jpg"}},
			{"type":"text","text":"[image \"t.tiff\" left out: it cannot be sent to this model]"},
			{"type":"document","title":"a.pdf","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}},
			{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hello"}},
			{"type":"text","text":"[audio left out: it cannot be sent to this model]"},
			{"type":"text","text":"Well?"}]},
		{"role":"assistant","content":[
			{"type":"thinking","thinking":"sealed","signature":"sig"},
			{"type":"redacted_thinking","data":"xyz"},
			{"type":"text","text":"Let me look."},
			{"type":"tool_use","id":"c1","name":"look","input":{"a":1}},
			{"type":"tool_use","id":"call_1","name":"look","input":{}}]},
		{"role":"user","content":[
			{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"seen"}]},
			{"type":"tool_result","tool_use_id":"call_1","is_error":true},
			{"type":"text","text":"and?"},
			{"type":"text","text":"(nothing)"}]},
		{"role":"assistant","content":[{"type":"text","text":"cut off in the mid"}]},
		{"role":"user","content":[{"type":"text","text":"(continue)"}]}]`)
	// Tools that nobody offers any more are named, because they were used.
	same(t, got["tools"], `[{"name":"look","input_schema":{"type":"object","properties":{}}}]`)
	same(t, got["tool_choice"], `{"type":"none"}`)
}

func TestInfer_sendsParamsToolsAndShape(t *testing.T) {
	t.Parallel()
	most, warm, top := 99, 0.5, 0.9
	r := hi()
	r.Params = session.ModelParams{MaxOutputTokens: &most, Temperature: &warm, TopP: &top, Stop: []string{"END", " "}, Options: session.Values{
		"top_k": json.RawMessage(`5`), "cache_control": json.RawMessage(`{"type":"ephemeral"}`), "tools": json.RawMessage(`[{"type":"web_search_20250305","name":"web_search"}]`),
	}}
	r.Tools = []llm.Tool{{Name: "look", Description: "looks", Schema: json.RawMessage(`{"type":"object","required":["a"]}`)}, {Name: "bare"}}
	r.ResponseFormat = &session.ResponseFormat{Type: "json_schema", Schema: json.RawMessage(`{"type":"object"}`)}
	got := sent(t, anthropic.Config{}, r)
	delete(got, "messages")
	same(t, got, `{
		"model":"claude-x","stream":true,"max_tokens":99,"temperature":0.5,"top_p":0.9,"stop_sequences":["END"],"top_k":5,"cache_control":{"type":"ephemeral"},
		"tools":[
			{"name":"look","description":"looks","input_schema":{"type":"object","required":["a"]}},
			{"name":"bare","input_schema":{"type":"object","properties":{}}},
			{"type":"web_search_20250305","name":"web_search"}],
		"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}`)
}

func TestInfer_alwaysHasALimit(t *testing.T) {
	t.Parallel()
	if got := sent(t, anthropic.Config{}, hi())["max_tokens"]; got != float64(anthropic.DefaultMaxTokens) {
		t.Errorf("got %v", got)
	}
	if got := sent(t, anthropic.Config{MaxTokens: 64000}, hi())["max_tokens"]; got != float64(64000) {
		t.Errorf("got %v", got)
	}
	r := hi() // room to think comes on top
	r.Params.Options = session.Values{"thinking": json.RawMessage(`{"type":"enabled","budget_tokens":10000}`)}
	if got := sent(t, anthropic.Config{}, r)["max_tokens"]; got != float64(anthropic.DefaultMaxTokens+10000) {
		t.Errorf("got %v", got)
	}
	r = hi()
	r.ResponseFormat = &session.ResponseFormat{Type: "json_object"}
	same(t, sent(t, anthropic.Config{}, r)["system"], `"Answer with a single JSON object and nothing else."`)
}

func TestInfer_headersAndAddress(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/", "/v1", "/v1/"} {
		server, model := serve(t, provtest.Config{Key: "sk-0123456789"}, anthropic.Config{URL: path, Key: "sk-0123456789", Header: http.Header{"Anthropic-Beta": {"b1"}}})
		if _, err := model.Infer(t.Context(), hi(), nil); err != nil {
			t.Errorf("%q: %v", path, err)
			continue
		}
		h := server.Requests()[0].Header
		if h.Get("X-Api-Key") != "sk-0123456789" || h.Get("Anthropic-Version") != "2023-06-01" || h.Get("Anthropic-Beta") != "b1" {
			t.Errorf("sent %v", h)
		}
	}
}

func TestInfer_refusesWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	server, model := serve(t, provtest.Config{}, anthropic.Config{})
	for field, change := range map[string]func(*llm.Request){
		"modelParams.options.system": func(r *llm.Request) { r.Params.Options = session.Values{"system": json.RawMessage(`"x"`)} },
		"modelParams.options.tools":  func(r *llm.Request) { r.Params.Options = session.Values{"tools": json.RawMessage(`7`)} },
		"responseFormat.type":        func(r *llm.Request) { r.ResponseFormat = &session.ResponseFormat{Type: "yaml"} },
		"responseFormat.schema":      func(r *llm.Request) { r.ResponseFormat = &session.ResponseFormat{Type: "json_schema"} },
		"messages":                   func(r *llm.Request) { r.Messages = nil },
	} {
		r := hi()
		change(&r)
		_, err := model.Infer(t.Context(), r, nil)
		var invalid *session.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if n := server.Calls().Received; n != 0 {
		t.Errorf("%d of them were asked", n)
	}
}

// What the provider wrote goes back to it word for word, seals included, also
// after the session has kept it.
func TestInfer_answersCanBeSentBack(t *testing.T) {
	t.Parallel()
	events := []string{
		`{"type":"message_start","message":{"model":"claude-x-1","content":[],"usage":{"input_tokens":5,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"I think"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"sig=="}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"hidden"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"query\":"}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"tea\"}"}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"url":"u"}]}}`,
		`{"type":"something_new","index":9}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"text","text":"So "}}`,
		`{"type":"content_block_delta","index":4,"delta":{"type":"text_delta","text":"it is."}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":20}}`,
		`{"type":"message_stop"}`,
	}
	_, model := serve(t, provtest.Config{Replies: []provtest.Reply{{Events: events}}}, anthropic.Config{})
	got, err := model.Infer(t.Context(), hi(), nil)
	if err != nil || got.Content.Text() != "So it is." || got.Model != "anthropic/claude-x-1" || got.Usage != (session.Usage{Input: 5, Output: 20}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	kept, err := session.JSON(got.Content) // as a store would
	if err != nil {
		t.Fatal(err)
	}
	var content session.Content
	if err := json.Unmarshal(kept, &content); err != nil {
		t.Fatal(err)
	}
	r := hi()
	r.Messages = append(r.Messages, session.Message{ID: "2", Role: session.RoleAssistant, Content: content}, user("3", "why?"))
	same(t, sent(t, anthropic.Config{}, r)["messages"].([]any)[1], `{"role":"assistant","content":[
		{"type":"thinking","thinking":"I think","signature":"sig=="},
		{"type":"redacted_thinking","data":"hidden"},
		{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"tea"}},
		{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"url":"u"}]},
		{"type":"text","text":"So it is."}]}`)
}

func TestInfer_thoughtsOfAnotherModelAreForgotten(t *testing.T) {
	t.Parallel()
	refuse := func(message string) func(provtest.Request) provtest.Reply {
		return func(r provtest.Request) provtest.Reply {
			if bytes.Contains(r.Body, []byte(`"thinking"`)) || bytes.Contains(r.Body, []byte(`"redacted_thinking"`)) {
				return provtest.Reply{Status: 400, Body: `{"type":"error","error":{"type":"invalid_request_error","message":"` + message + `"}}`}
			}
			return provtest.Reply{Text: []string{"fine"}}
		}
	}
	r := hi()
	r.Messages = append(r.Messages, session.Message{ID: "2", Role: session.RoleAssistant, Content: session.Content{
		{Type: session.PartReasoning, Text: "hm", Signature: "another model's"},
		{Type: "redacted_thinking", Raw: json.RawMessage(`{"type":"redacted_thinking","data":"x"}`)},
		{Type: session.PartText, Text: "yes"},
	}}, user("3", "why?"))
	server, model := serve(t, provtest.Config{Choose: refuse("messages.1.content.0: Invalid `signature` in `thinking` block")}, anthropic.Config{})
	got, err := model.Infer(t.Context(), r, nil)
	if err != nil || got.Content.Text() != "fine" || server.Calls().Received != 2 || len(r.Messages[1].Content) != 3 {
		t.Errorf("got %+v, %v after %d requests", got, err, server.Calls().Received)
	}
	server, model = serve(t, provtest.Config{Choose: refuse("max_tokens is too large")}, anthropic.Config{})
	if _, err := model.Infer(t.Context(), r, nil); err == nil || server.Calls().Received != 1 {
		t.Errorf("%v after %d requests", err, server.Calls().Received)
	}
}

func TestInfer_unusualStreams(t *testing.T) {
	t.Parallel()
	end := `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`
	for name, c := range map[string]struct {
		events []string
		want   session.Content
		calls  int
	}{
		"no block announced":     {[]string{`{"type":"content_block_delta","index":0,"delta":{"text":"ok"}}`, end}, session.Text("ok"), 0},
		"no reason to stop":      {[]string{`{"type":"content_block_delta","index":0,"delta":{"text":"ok"}}`, `{"type":"message_stop"}`}, session.Text("ok"), 0},
		"blocks out of order":    {[]string{`{"type":"content_block_delta","index":1,"delta":{"text":"b"}}`, `{"type":"content_block_delta","index":0,"delta":{"thinking":"a"}}`, end}, session.Content{{Type: session.PartReasoning, Text: "a"}, {Type: session.PartText, Text: "b"}}, 0},
		"a call without a name":  {[]string{`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"x","input":{"a":1}}}`, end}, nil, 1},
		"a block that is none":   {[]string{`{"type":"content_block_start","index":0,"content_block":7}`, `{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"ok"}}`, end}, session.Text("ok"), 0},
		"a type of the sessions": {[]string{`{"type":"content_block_start","index":0,"content_block":{"type":"image"}}`, end}, nil, 0},
		"usage and stop mangled": {[]string{`{"type":"content_block_delta","index":0,"delta":{"text":"ok"}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":"none"}`}, session.Text("ok"), 0},
	} {
		_, model := serve(t, provtest.Config{Replies: []provtest.Reply{{Events: c.events}}}, anthropic.Config{})
		got, err := model.Infer(t.Context(), hi(), nil)
		if err != nil || !reflect.DeepEqual(got.Content, c.want) || len(got.ToolCalls) != c.calls {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
