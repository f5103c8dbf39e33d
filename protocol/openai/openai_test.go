package openai_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/protocol/protocoltest"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// node is a server under test.
type node struct {
	*protocoltest.Site
	t   *testing.T
	key string
}

func newNode(t *testing.T, model llm.Model, tools ...tool.Tool) *node {
	t.Helper()
	s := protocoltest.Start(t, model, nil, tools...)
	return &node{s, t, s.Key("default", apikey.Read, apikey.Write)}
}

// do sends a request and returns the status and the body.
func (n *node) do(method, path, key, body string) (int, []byte) {
	n.t.Helper()
	status, text := n.Do(method, "/openai/v1"+path, key, body)
	return status, []byte(text)
}

// event is what the tests look at of an event.
type event struct {
	Type     string
	Number   int64 `json:"sequence_number"`
	Item     *item
	ItemID   string `json:"item_id"`
	Delta    string
	Response *response
}

type item struct {
	ID, Type, Status, Name string
	Content                []struct{ Text string }
	Output, Error          *string
}

type response struct {
	ID, Status string
	Output     []item
}

// events sends a request for a stream and reads it to its end.
func (n *node) events(method, path, body string) []event {
	n.t.Helper()
	status, data := n.do(method, path, n.key, body)
	if status != http.StatusOK {
		n.t.Fatalf("%s %s: %d %s", method, path, status, data)
	}
	var list []event
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e event
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				n.t.Fatal(err)
			}
			list = append(list, e)
		}
	}
	return list
}

// said joins the words of a stream, each with the item it belongs to.
func said(list []event) string {
	var b strings.Builder
	last := ""
	for _, e := range list {
		if e.Delta == "" {
			continue
		}
		if e.ItemID != last {
			fmt.Fprintf(&b, "[%s]", e.ItemID)
			last = e.ItemID
		}
		b.WriteString(e.Delta)
	}
	return b.String()
}

// shout is a tool that the server runs.
type shout struct{}

func (shout) Spec() tool.Spec {
	return tool.Spec{Name: "shout", Description: "shouts", Nature: tool.ReadOnly}
}
func (shout) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Content: "LOUD"}, nil
}

// A reader that comes back with the number of any event gets exactly the events
// after it.
func TestStream_goesOnBehindEveryEvent(t *testing.T) {
	t.Parallel()
	n := newNode(t, scripted.New(
		scripted.Reply{Reasoning: "thinking", Text: "first the tool", ToolCalls: []session.ToolCall{{ID: "c", Name: "shout", Arguments: []byte(`{}`)}}},
		scripted.Reply{Text: "ünd then the answer"},
	), shout{})
	all := n.events("POST", "/responses", `{"model":"agent/helper","input":"go","stream":true}`)
	id := all[0].Response.ID
	final := all[len(all)-1].Response
	if final == nil || final.Status != "completed" {
		t.Fatalf("the stream ends with %+v", all[len(all)-1])
	}
	types := []string{}
	for _, i := range final.Output {
		types = append(types, i.Type)
	}
	if got := strings.Join(types, " "); got != "reasoning message mcp_call message" {
		t.Errorf("the output is %s", got)
	}
	for i, e := range all {
		rest := n.events("GET", fmt.Sprintf("/responses/%s?stream=true&starting_after=%d", id, e.Number), "")
		if said(rest) != said(all[i+1:]) {
			t.Errorf("after event %d (%s) came %q instead of %q", i, e.Type, said(rest), said(all[i+1:]))
		}
		if len(rest) > 0 && rest[len(rest)-1].Type != "response.completed" {
			t.Errorf("after event %d the stream ends with %s", i, rest[len(rest)-1].Type)
		}
	}
	// In the middle of a piece, too: another node may send other pieces.
	whole := n.events("GET", "/responses/"+id+"?stream=true", "")
	if said(whole) != said(all) {
		t.Errorf("read again it says %q instead of %q", said(whole), said(all))
	}
}

// Words of an attempt that failed are no part of the response, and a reader that
// has them gets the whole answer.
func TestStream_dropsWordsOfAFailedAttempt(t *testing.T) {
	t.Parallel()
	n := newNode(t, &protocoltest.FailingModel{})
	all := n.events("POST", "/responses", `{"model":"m","input":"go","stream":true}`)
	final := all[len(all)-1].Response
	if final == nil || len(final.Output) != 1 || final.Output[0].Content[0].Text != "valid words" {
		t.Fatalf("the response is %+v", final)
	}
	for _, e := range all {
		if e.Delta == "void words" {
			rest := n.events("GET", fmt.Sprintf("/responses/%s?stream=true&starting_after=%d", final.ID, e.Number), "")
			if got := said(rest); !strings.HasSuffix(got, "]valid words") {
				t.Errorf("a reader of void words gets %q", got)
			}
		}
	}
}

// A request without a key, without the scope or of another tenant gets an error in
// the vendor's shape and nothing else.
func TestRoutes_haveTheKeysAndTenantsOfTheAPI(t *testing.T) {
	t.Parallel()
	n := newNode(t, scripted.New(scripted.Reply{Text: "secret"}))
	status, body := n.do("POST", "/responses", n.key, `{"model":"m","input":"go"}`)
	var made response
	if err := json.Unmarshal(body, &made); err != nil || status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	conversation := "conv_" + strings.Split(made.ID, "_")[1]
	reader, other := n.Key("default", apikey.Read), n.Key("other", apikey.Read, apikey.Write)
	cases := []struct {
		method, path, key, body string
		status                  int
	}{
		{"POST", "/responses", "wrong", `{}`, 401},
		{"POST", "/responses", reader, `{"model":"m","input":"go"}`, 403},
		{"POST", "/chat/completions", reader, `{"model":"m","messages":[]}`, 403},
		{"GET", "/responses/" + made.ID, other, "", 404},
		{"GET", "/responses/" + made.ID + "?stream=true", other, "", 404},
		{"GET", "/responses/" + made.ID + "/input_items", other, "", 404},
		{"POST", "/responses/" + made.ID + "/cancel", other, "", 404},
		{"DELETE", "/responses/" + made.ID, other, "", 404},
		{"POST", "/responses", other, `{"model":"m","input":"go","previous_response_id":"` + made.ID + `"}`, 404},
		{"POST", "/responses", other, `{"model":"m","input":"go","conversation":"` + conversation + `"}`, 404},
		{"GET", "/conversations/" + conversation, other, "", 404},
		{"POST", "/conversations/" + conversation, other, `{"metadata":{}}`, 404},
		{"DELETE", "/conversations/" + conversation, other, "", 404},
		{"GET", "/conversations/" + conversation + "/items", other, "", 404},
		{"POST", "/conversations/" + conversation + "/items", other, `{"items":[]}`, 404},
		{"GET", "/nothing", n.key, "", 404},
		{"POST", "/responses", n.key, `{"model":"m","input":"go","top_logprobs":3}`, 400},
		{"POST", "/responses", n.key, `{"model":"m"}`, 400},
		{"POST", "/responses", n.key, `[]`, 400},
		{"POST", "/chat/completions", n.key, `{"model":"m","messages":[{"role":"user","content":"x"}],"n":2}`, 400},
	}
	for _, c := range cases {
		status, body := n.do(c.method, c.path, c.key, c.body)
		var e struct {
			Error *struct{ Message, Type string }
		}
		if err := json.Unmarshal(body, &e); err != nil || status != c.status || e.Error == nil || e.Error.Message == "" || e.Error.Type == "" {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
		if strings.Contains(string(body), "secret") {
			t.Errorf("%s %s shows what was said: %s", c.method, c.path, body)
		}
	}
	if status, body := n.do("GET", "/responses/"+made.ID, n.key, ""); status != 200 || !strings.Contains(string(body), "secret") {
		t.Errorf("after that the response is %d %s", status, body)
	}
}
