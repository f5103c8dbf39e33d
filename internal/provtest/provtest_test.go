package provtest_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// post sends a body and is the status and the answer.
func post(t *testing.T, url, body string, header map[string]string) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	for k, v := range header {
		r.Header.Set(k, v)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	return response.StatusCode, string(raw), err
}

func TestOpenAI_refusesWhatTheRealOneRefuses(t *testing.T) {
	t.Parallel()
	server := provtest.OpenAI(provtest.Config{})
	t.Cleanup(server.Close)
	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}}]}`
	for want, body := range map[string]string{
		"could not parse":                 `{`,
		"must provide a model":            `{"messages":[]}`,
		"too short - 'messages'":          `{"model":"m","messages":[]}`,
		"Unrecognized request argument":   `{"model":"m","messages":[{"role":"user","content":"a"}],"frobnicate":1}`,
		"role \\\"robot\\\" is unknown":   `{"model":"m","messages":[{"role":"robot","content":"a"}]}`,
		"must be followed by tool":        `{"model":"m","messages":[{"role":"user","content":"a"},` + call + `,{"role":"user","content":"b"}]}`,
		"have no tool message":            `{"model":"m","messages":[{"role":"user","content":"a"},` + call + `]}`,
		"must be a response to":           `{"model":"m","messages":[{"role":"tool","tool_call_id":"a","content":"b"}]}`,
		"either content or tool calls":    `{"model":"m","messages":[{"role":"assistant","content":""}]}`,
		"arguments are no JSON object":    `{"model":"m","messages":[` + strings.Replace(call, `"{}"`, `"{"`, 1) + `]}`,
		"does not match the pattern":      `{"model":"m","messages":[` + strings.Replace(call, `"name":"x"`, `"name":"x y"`, 1) + `]}`,
		"invalid part of type image_url":  `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,!"}}]}]}`,
		"json_schema.schema":              `{"model":"m","messages":[{"role":"user","content":"a"}],"response_format":{"type":"json_schema","json_schema":{"name":"n"}}}`,
		"type is not":                     `{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"x","parameters":{}}}]}`,
		"only allowed when 'stream'":      `{"model":"m","messages":[{"role":"user","content":"a"}],"stream_options":{}}`,
		"expected an integer of at least": `{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":0}`,
	} {
		status, answer, err := post(t, server.URL+"/chat/completions", body, nil)
		if err != nil || status != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%s: got %d %s, %v", want, status, answer, err)
		}
	}
	if calls := server.Calls(); calls.Refused != calls.Received || calls.Answered != 0 {
		t.Errorf("counts %+v", calls)
	}
}

func TestAnthropic_refusesWhatTheRealOneRefuses(t *testing.T) {
	t.Parallel()
	server := provtest.Anthropic(provtest.Config{})
	t.Cleanup(server.Close)
	with := func(messages string) string {
		return `{"model":"m","max_tokens":5,"tools":[{"name":"x","input_schema":{"type":"object"}}],"messages":[` + messages + `]}`
	}
	hi := `{"role":"user","content":"hi"}`
	call := `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]}`
	result := `{"type":"tool_result","tool_use_id":"a","content":"r"}`
	for want, body := range map[string]string{
		"max_tokens: Field required":     `{"model":"m","messages":[` + hi + `]}`,
		"at least one message":           with(``),
		"roles must alternate":           with(hi + `,` + hi),
		"but messages.0 is assistant":    with(call),
		"must end with a user message":   with(hi + `,{"role":"assistant","content":"a"}`),
		"non-empty content":              with(`{"role":"user","content":[]}`),
		"invalid block of type text":     with(`{"role":"user","content":[{"type":"text","text":" "}]}`),
		"without `tool_result` blocks":   with(hi + `,` + call + `,` + hi),
		"unexpected `tool_use_id`":       with(`{"role":"user","content":[` + result + `]}`),
		"content.1: unexpected":          with(hi + `,` + call + `,{"role":"user","content":[{"type":"text","text":"t"},` + result + `]}`),
		"or the id is not unique":        with(hi + `,` + call + `,{"role":"user","content":[` + result + `]},` + call + `,{"role":"user","content":[` + result + `]}`),
		"thinking.signature":             with(hi + `,{"role":"assistant","content":[{"type":"thinking","thinking":"t"}]},` + hi),
		"must define tools":              `{"model":"m","max_tokens":5,"messages":[` + hi + `,` + call + `,{"role":"user","content":[` + result + `]}]}`,
		"input_schema.type":              `{"model":"m","max_tokens":5,"tools":[{"name":"x"}],"messages":[` + hi + `]}`,
		"must be greater than":           `{"model":"m","max_tokens":5,"thinking":{"type":"enabled","budget_tokens":5},"messages":[` + hi + `]}`,
		"system: text":                   `{"model":"m","max_tokens":5,"system":" ","messages":[` + hi + `]}`,
		"Unrecognized request":           `{"model":"m","max_tokens":5,"stop":["x"],"messages":[` + hi + `]}`,
		"must contain non-whitespace\"":  `{"model":"m","max_tokens":5,"stop_sequences":[" "],"messages":[` + hi + `]}`,
		"a json_schema with a schema is": `{"model":"m","max_tokens":5,"output_config":{"format":{"type":"json_schema"}},"messages":[` + hi + `]}`,
	} {
		status, answer, err := post(t, server.URL+"/v1/messages", body, nil)
		if err != nil || status != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%s: got %d %s, %v", want, status, answer, err)
		}
	}
	if status, answer, err := post(t, server.URL+"/v1/messages", with(hi), map[string]string{"Anthropic-Version": ""}); status != http.StatusBadRequest || !strings.Contains(answer, "anthropic-version") {
		t.Errorf("got %d %s, %v", status, answer, err)
	}
	if status, answer, err := post(t, server.URL+"/v1/messages", with(hi+`,`+call+`,{"role":"user","content":[`+result+`,{"type":"text","text":"t"}]}`), nil); status != http.StatusOK {
		t.Errorf("a good one is refused: %d %s, %v", status, answer, err)
	}
}

func TestServer_countsWholeAnswersOnly(t *testing.T) {
	t.Parallel()
	server := provtest.OpenAI(provtest.Config{Replies: []provtest.Reply{
		{Status: 500}, {Text: []string{"cut"}, CutAfter: 50}, {Cut: true}, {Text: []string{"not cut"}, CutAfter: 1 << 20}, {Text: []string{"whole"}, Whole: true},
	}})
	t.Cleanup(server.Close)
	body := `{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true}`
	for range 7 {
		_, _, _ = post(t, server.URL+"/chat/completions", body, nil) // most of them break, as they should
	}
	if calls := server.Calls(); calls != (provtest.Calls{Received: 7, Answered: 4}) {
		t.Errorf("counts %+v", calls)
	}
	for i, r := range server.Requests() {
		if r.N != i || r.Turn != i || string(r.Body) != body {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

// A test may kill the process that asks and still know what it was told.
func TestServer_servesAnotherProcess(t *testing.T) {
	if url := os.Getenv("PROVTEST_CHILD"); url != "" {
		body := `{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true}`
		_, answer, err := post(t, url+"/chat/completions", body, nil)
		if err != nil || !strings.Contains(answer, "hello") {
			t.Fatal(answer, err)
		}
		_, _, _ = post(t, url+"/chat/completions", body, nil) // never answered
		return
	}
	t.Parallel()
	asked := make(chan struct{}, 1)
	server := provtest.OpenAI(provtest.Config{Choose: func(r provtest.Request) provtest.Reply {
		if r.Turn == 0 {
			return provtest.Reply{Text: []string{"hello"}}
		}
		asked <- struct{}{}
		return provtest.Reply{Text: []string{"half"}, HangAfter: 20}
	}})
	t.Cleanup(server.Close)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServer_servesAnotherProcess$")
	child.Env = append(os.Environ(), "PROVTEST_CHILD="+server.URL)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Error("the child did not ask twice")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var killed *exec.ExitError
	if err := child.Wait(); !errors.As(err, &killed) {
		t.Errorf("the child ended with %v", err)
	}
	want := provtest.Calls{Received: 2, Answered: 1}
	if got := server.Calls(); got != want {
		t.Errorf("counts %+v", got)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(server.URL, "/v1")+"/provtest/calls", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var told provtest.Calls
	if err := json.NewDecoder(response.Body).Decode(&told); err != nil || told != want {
		t.Errorf("told %+v, %v", told, err)
	}
}
