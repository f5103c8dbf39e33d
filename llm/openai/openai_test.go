package openai_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
)

// serve is a server and a model on it.
func serve(t *testing.T, c provtest.Config, m openai.Config) (*provtest.Server, *openai.Model) {
	t.Helper()
	server := provtest.OpenAI(c)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m.Model, m.URL, m.Client = "gpt-x", server.URL, &http.Client{Transport: transport}
	model, err := openai.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return server, model
}

// sent is the body of the only request that r becomes.
func sent(t *testing.T, m openai.Config, r llm.Request) map[string]any {
	t.Helper()
	server, model := serve(t, provtest.Config{}, m)
	if _, err := model.Infer(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(server.Requests()); n != 1 {
		t.Fatalf("%d requests", n)
	}
	return server.Requests()[0].JSON()
}

func hi() llm.Request {
	return llm.Request{Messages: []session.Message{{ID: "1", Role: session.RoleUser, Content: session.Text("hi")}}}
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
		{ID: "1", Role: session.RoleDeveloper, Content: session.Text("House rules.")},
		{ID: "2", Role: session.RoleUser, Name: "ann", Content: session.Content{
			{Type: session.PartText, Text: "See:"},
			{Type: session.PartImage, Data: "iVBORw0KGgo=", MediaType: "image/png"},
			{Type: session.PartImage, URL: "https://example.org/a.jpg"},
			{Type: session.PartFile, Data: "JVBERi0=", Name: "a.pdf"},
			{Type: session.PartFile, FileID: "file-1"},
			{Type: session.PartAudio, Data: "UklGRg==", MediaType: "audio/wav"},
			{Type: session.PartAudio, Data: "T2dnUw==", MediaType: "audio/ogg", Name: "b.ogg"},
		}},
		{ID: "3", Role: session.RoleAssistant, Content: session.Content{{Type: session.PartReasoning, Text: "hm"}, {Type: session.PartText, Text: "Let me look."}},
			ToolCalls: []session.ToolCall{{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"a":1}`)}, {ID: "bad id", Name: "no such!", Arguments: json.RawMessage(`{}`)}}},
		{ID: "4", Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: "c1", Content: "seen"}},
		{ID: "5", Role: session.RoleTool, ToolResult: &session.ToolResult{CallID: "bad id", Content: "unknown tool", IsError: true}},
		{ID: "6", Role: session.RoleAssistant},
		{ID: "7", Role: session.RoleUser, Content: session.Text("and?")},
	}}
	same(t, sent(t, openai.Config{}, r)["messages"], `[
		{"role":"system","content":"Be brief."},
		{"role":"system","content":"House rules."},
		{"role":"user","name":"ann","content":[
			{"type":"text","text":"See:"},
			{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},
			{"type":"image_url","image_url":{"url":"https://example.org/a.jpg"}},
			{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}},
			{"type":"file","file":{"file_id":"file-1"}},
			{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},
			{"type":"text","text":"[audio \"b.ogg\" left out: it cannot be sent to this model]"}]},
		{"role":"assistant","content":"Let me look.","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"look","arguments":"{\"a\":1}"}},
			{"id":"call_1","type":"function","function":{"name":"no_such_","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"seen"},
		{"role":"tool","tool_call_id":"call_1","content":"unknown tool"},
		{"role":"user","content":"and?"}]`)
}

func TestInfer_sendsParamsToolsAndShape(t *testing.T) {
	t.Parallel()
	most, warm, top := 99, 0.5, 0.9
	r := hi()
	r.Params = session.ModelParams{MaxOutputTokens: &most, Temperature: &warm, TopP: &top, Stop: []string{"END"}, Options: session.Values{
		"reasoning_effort": json.RawMessage(`"low"`), "temperature": json.RawMessage(`0.1`),
	}}
	r.Tools = []llm.Tool{{Name: "look", Description: "looks", Schema: json.RawMessage(`{"type":"object","required":["a"]}`)}, {Name: "bare"}}
	r.ResponseFormat = &session.ResponseFormat{Type: "json_schema", Name: "my shape", Strict: true, Schema: json.RawMessage(`{"type":"object"}`)}
	got := sent(t, openai.Config{}, r)
	delete(got, "messages")
	same(t, got, `{
		"model":"gpt-x","stream":true,"stream_options":{"include_usage":true},
		"max_tokens":99,"temperature":0.1,"top_p":0.9,"stop":["END"],"reasoning_effort":"low",
		"tools":[
			{"type":"function","function":{"name":"look","description":"looks","parameters":{"type":"object","required":["a"]}}},
			{"type":"function","function":{"name":"bare","parameters":{"type":"object","properties":{}}}}],
		"response_format":{"type":"json_schema","json_schema":{"name":"my_shape","strict":true,"schema":{"type":"object"}}}}`)
}

func TestInfer_refusesWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	server, model := serve(t, provtest.Config{}, openai.Config{})
	for field, change := range map[string]func(*llm.Request){
		"modelParams.options.stream": func(r *llm.Request) { r.Params.Options = session.Values{"stream": json.RawMessage(`false`)} },
		"modelParams.options.model":  func(r *llm.Request) { r.Params.Options = session.Values{"model": json.RawMessage(`"x"`)} },
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

// refusing answers like a server that does not know a part of the protocol.
func refusing(field, body string) func(provtest.Request) provtest.Reply {
	return func(r provtest.Request) provtest.Reply {
		if _, has := r.JSON()[field]; has {
			return provtest.Reply{Status: 400, Body: body}
		}
		return provtest.Reply{Text: []string{"fine"}, Usage: provtest.Usage{Input: 1, Output: 2}}
	}
}

func TestInfer_learnsTheServersDialect(t *testing.T) {
	t.Parallel()
	most := 10
	for name, c := range map[string]struct{ field, body, instead string }{
		"no streams":     {"stream", `{"error":{"message":"Your organization must be verified to stream this model.","param":"stream","code":"unsupported_value"}}`, ""},
		"no streams too": {"stream", `{"detail":"streaming is not supported"}`, ""},
		"no usage":       {"stream_options", `{"error":"Extra inputs are not permitted: stream_options"}`, "stream"},
		"new limit":      {"max_tokens", `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","code":"unsupported_parameter","param":"max_tokens"}}`, "max_completion_tokens"},
	} {
		server, model := serve(t, provtest.Config{Choose: refusing(c.field, c.body)}, openai.Config{})
		r := hi()
		r.Params.MaxOutputTokens = &most
		for range 3 {
			got, err := model.Infer(t.Context(), r, nil)
			if err != nil || got.Content.Text() != "fine" {
				t.Errorf("%s: got %+v, %v", name, got, err)
			}
		}
		all := server.Requests()
		if len(all) != 4 { // refused once, and never asked so again
			t.Errorf("%s: %d requests", name, len(all))
		}
		if _, has := all[len(all)-1].JSON()[c.instead]; c.instead != "" && !has {
			t.Errorf("%s: %s is missing in %s", name, c.instead, all[len(all)-1].Body)
		}
	}
}

func TestInfer_aRefusedValueIsNotADialect(t *testing.T) {
	t.Parallel()
	most := 10
	server, model := serve(t, provtest.Config{Replies: []provtest.Reply{{Status: 400, Body: `{"error":{"message":"max_tokens is too large: 10","param":"max_tokens"}}`}}}, openai.Config{})
	r := hi()
	r.Params.MaxOutputTokens = &most
	if _, err := model.Infer(t.Context(), r, nil); err == nil || server.Calls().Received != 1 {
		t.Errorf("asked %d times, %v", server.Calls().Received, err)
	}
	// One that refuses everything is not asked for ever.
	server, model = serve(t, provtest.Config{Replies: []provtest.Reply{{Status: 400, Body: `"unsupported stream_options max_tokens stream"`}}}, openai.Config{})
	if _, err := model.Infer(t.Context(), r, nil); err == nil || server.Calls().Received > 4 {
		t.Errorf("asked %d times, %v", server.Calls().Received, err)
	}
}

func TestInfer_reasoningGoesBackWhereItIsWanted(t *testing.T) {
	t.Parallel()
	chunks := []string{
		`{"choices":[{"delta":{"reasoning":"I ","reasoning_details":[{"type":"reasoning.text","index":0,"text":"I ","signature":null}]}}]}`,
		`{"choices":[{"delta":{"reasoning":"see","reasoning_details":[{"type":"reasoning.text","index":0,"text":"see"}]}}]}`,
		`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","index":0,"signature":"seal"},{"type":"reasoning.encrypted","index":1,"data":"xyz"}]}}]}`,
		`{"choices":[{"delta":{"content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.00125}}`,
	}
	router := openai.Config{Provider: "openrouter", TellsCost: true}
	_, model := serve(t, provtest.Config{Replies: []provtest.Reply{{Events: chunks}}}, router)
	got, err := model.Infer(t.Context(), hi(), nil)
	if err != nil || got.Content[0].Text != "I see" || got.Content.Text() != "yes" || got.Cost != 1250 {
		t.Fatalf("got %+v, %v", got, err)
	}
	r := hi()
	r.Messages = append(r.Messages,
		session.Message{ID: "2", Role: session.RoleAssistant, Content: got.Content},
		session.Message{ID: "3", Role: session.RoleUser, Content: session.Text("why?")})
	again := func(c openai.Config) map[string]any {
		server, model := serve(t, provtest.Config{Lax: true}, c)
		if _, err := model.Infer(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		return server.Requests()[0].JSON()["messages"].([]any)[1].(map[string]any)
	}
	same(t, again(router), `{"role":"assistant","content":"yes","reasoning_details":[
		{"type":"reasoning.text","index":0,"text":"I see","signature":"seal"},{"type":"reasoning.encrypted","index":1,"data":"xyz"}]}`)
	same(t, again(openai.Config{}), `{"role":"assistant","content":"yes"}`)
	same(t, again(openai.Config{ReasoningField: "reasoning_content"}), `{"role":"assistant","content":"yes","reasoning_content":"I see"}`)
}

func TestNew_namesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]openai.Config{
		"Config.Model": {},
		"Config.URL":   {Model: "m", URL: "localhost:11434"},
		"Config.Idle":  {Model: "m", Idle: -1},
		"Config":       {Model: "m", Key: "line\nend"},
	} {
		_, err := openai.New(c)
		var invalid *session.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != want || strings.Contains(err.Error(), "line") {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
