package agui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/tool"
)

// agents has one agent, and its subagent.
type agents struct{}

func (agents) Names() []string { return []string{"helper"} }
func (agents) Get(name string) (session.Definition, error) {
	if name == "cook" {
		return session.Definition{Name: "cook", Model: "m", Tools: []string{tool.AskPersonName}}, nil
	}
	if name != "helper" {
		return session.Definition{}, &session.NotFoundError{What: "agent", ID: name}
	}
	return session.Definition{Name: "helper", Model: "m", Subagents: []string{"cook"}}, nil
}

// model answers. With a channel, its first attempt fails after the reader has
// seen the words of it.
type model struct {
	seen  chan struct{}
	asked atomic.Int32
}

func (m *model) Infer(ctx context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if m.asked.Add(1) == 1 && m.seen != nil {
		emit(llm.Delta{Reasoning: "void thought"})
		emit(llm.Delta{Text: "void words"})
		select {
		case <-m.seen:
			return llm.Response{}, &llm.TransientError{Err: errors.New("it broke")}
		case <-ctx.Done():
			return llm.Response{}, ctx.Err()
		}
	}
	emit(llm.Delta{Reasoning: "valid thought"})
	emit(llm.Delta{Text: "valid words"})
	content := session.Content{{Type: session.PartReasoning, Text: "valid thought"}, {Type: session.PartText, Text: "valid words"}}
	return llm.Response{Content: content, FinishReason: "stop"}, nil
}

// site is a server with the agent.
type site struct {
	t     *testing.T
	model *model
	url   string
	keys  *apikey.Keys
}

func newSite(t *testing.T, m *model) site {
	t.Helper()
	return newSiteOf(t, m, m)
}

func newSiteOf(t *testing.T, m *model, answers llm.Model) site {
	t.Helper()
	tools, err := tool.NewSet(tool.AskPerson())
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"m": answers}, DefaultModel: "m", Tools: tools, Definitions: agents{}, Backoff: func(int) time.Duration { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	keys := apikey.New(rt, nil)
	s, err := server.New(server.Config{Runtime: rt, Keys: keys, Agents: agents{}})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() { s.Close(); h.Close() })
	return site{t, m, h.URL, keys}
}

func (s site) key(tenant string, scopes ...apikey.Scope) string {
	s.t.Helper()
	_, secret, err := s.keys.Create(s.t.Context(), apikey.Key{Tenant: tenant, Scopes: scopes}, "test")
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

func (s site) post(path, key, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var b strings.Builder
	for in := bufio.NewReader(response.Body); ; {
		line, err := in.ReadString('\n')
		b.WriteString(line)
		if strings.Contains(line, "void words") {
			close(s.model.seen)
		}
		if err == io.EOF {
			return response.StatusCode, b.String()
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

type message struct{ ID, Role, Content string }

// reduce builds the messages of a client from the events of a run, as clients
// do: a snapshot keeps reasoning that the client has, unless it has some itself.
func reduce(t *testing.T, body string) (messages []message, last string) {
	t.Helper()
	messages = []message{{"m-thread", "user", "go"}}
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type, MessageID, Role, Delta string
			Messages                     []message
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		at := slices.IndexFunc(messages, func(m message) bool { return m.ID == e.MessageID })
		switch last = e.Type; e.Type {
		case "TEXT_MESSAGE_START", "REASONING_MESSAGE_START":
			if at < 0 {
				messages = append(messages, message{e.MessageID, e.Role, ""})
			}
		case "TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT":
			if at < 0 {
				t.Fatalf("%s of a message that is not there: %s", e.Type, body)
			}
			messages[at].Content += e.Delta
		case "MESSAGES_SNAPSHOT":
			thought := slices.ContainsFunc(e.Messages, func(m message) bool { return m.Role == "reasoning" })
			kept := e.Messages
			for _, m := range messages {
				if m.Role == "reasoning" && !thought {
					kept = append(kept, m)
				}
			}
			messages = kept
		}
		checkTakenBack(t, messages)
	}
	return messages, last
}

// checkTakenBack looks at what a client shows at any moment.
func checkTakenBack(t *testing.T, messages []message) {
	t.Helper()
	shown := ""
	for _, m := range messages {
		if strings.Contains(m.Content, "void") && strings.Contains(m.Content, "valid") {
			t.Errorf("an answer is added to one that was taken back: %q", m.Content)
		}
		shown += m.Content
	}
	if strings.Contains(shown, "void words") && strings.Contains(shown, "valid words") {
		t.Errorf("words that were taken back are shown beside the others: %q", shown)
	}
}

func runInput(thread, run string) string {
	return `{"threadId":"` + thread + `","runId":"` + run + `","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[{"id":"m-` + thread + `","role":"user","content":"go"}]}`
}

// What was streamed of an attempt that failed is taken back, and what is thought
// next is not added to it.
func TestRun_takesBackWhatFailed(t *testing.T) {
	t.Parallel()
	s := newSite(t, &model{seen: make(chan struct{})})
	key := s.key("default", apikey.Read, apikey.Write)
	want := []string{"user go", "reasoning valid thought", "assistant valid words"}
	for _, again := range []bool{false, true} { // the same run again shows the same
		status, body := s.post("/agui/helper", key, runInput("thread", "run"))
		messages, last := reduce(t, body)
		var said []string
		for _, m := range messages {
			said = append(said, m.Role+" "+m.Content)
		}
		if status != 200 || last != "RUN_FINISHED" || !slices.Equal(said, want) {
			t.Errorf("again %v: %d %q\n%s", again, status, said, body)
		}
		if strings.Contains(body, "void") == again {
			t.Errorf("again %v: the attempt that failed: %s", again, body)
		}
		if starts, ends := strings.Count(body, "_START\""), strings.Count(body, "_END\""); starts != ends {
			t.Errorf("%d begin and %d end: %s", starts, ends, body)
		}
	}
}

// asking is a model of an agent whose subagent asks twice.
type asking struct{}

func (asking) Infer(_ context.Context, r llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	results := 0
	for _, m := range r.Messages {
		if m.ToolResult != nil {
			results++
		}
	}
	call := func(name, arguments string) (llm.Response, error) {
		return llm.Response{ToolCalls: []session.ToolCall{{ID: "c1", Name: name, Arguments: json.RawMessage(arguments)}}}, nil
	}
	last := r.Messages[len(r.Messages)-1]
	switch {
	case r.Agent == "cook" && results < 2:
		return call(tool.AskPersonName, `{"question":"How much salt?"}`)
	case r.Agent == "helper" && results == 0:
		return call("spawn_subagent", `{"subagent":"cook","prompt":"soup"}`)
	}
	return llm.Response{Content: session.Text(r.Agent + " heard " + last.ToolResult.Content), FinishReason: "stop"}, nil
}

// What a subagent waits for is responded to through the runs of the thread.
func TestRun_respondsToASubagent(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, nil, asking{})
	key := s.key("default", apikey.Read, apikey.Write)
	body := runInput("thread", "run")
	for _, salt := range []string{"none", "a little"} {
		_, events := s.post("/agui/helper", key, body)
		var end struct {
			Outcome struct {
				Type       string
				Interrupts []struct{ ID, Reason, Message, SubagentRunID string }
			}
		}
		last := events[strings.LastIndex(events, "data: ")+len("data: "):]
		if err := json.Unmarshal([]byte(last), &end); err != nil {
			t.Fatal(err, events)
		}
		waits := end.Outcome.Interrupts
		if len(waits) != 1 || waits[0].Reason != "input_required" || !strings.Contains(waits[0].Message, "How much salt?") || !strings.HasPrefix(waits[0].ID, waits[0].SubagentRunID+"/") {
			t.Fatalf("the run ends with %s", last)
		}
		if status, refused := s.post("/agui/helper", key, strings.ReplaceAll(runInput("thread", "other"), "m-thread", "m-other")); status != 409 || !strings.Contains(refused, waits[0].ID) {
			t.Errorf("another message: %d %s", status, refused)
		}
		resume := `"resume":[{"interruptId":"` + waits[0].ID + `","status":"resolved","payload":"` + salt + `"}],"state":{}`
		body = strings.Replace(runInput("thread", "run "+salt), `"state":{}`, resume, 1)
	}
	for range 2 { // again, it is harmless
		if _, events := s.post("/agui/helper", key, body); !strings.Contains(events, "helper heard cook heard") || !strings.Contains(events, `"type":"success"`) || !strings.Contains(events, "a little") {
			t.Errorf("at the end: %s", events)
		}
	}
}

func TestRun_refuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, &model{})
	own, reader := s.key("default", apikey.Read, apikey.Write), s.key("default", apikey.Read)
	if status, body := s.post("/agui/helper", own, runInput("owned", "1")); status != 200 || !strings.Contains(body, "valid words") {
		t.Fatalf("%d %s", status, body)
	}
	with := func(field string) string { return strings.Replace(runInput("x", "1"), `"state":{}`, field, 1) }
	for _, c := range []struct {
		path, key, body string
		status          int
		says            string
	}{
		{"/agui/helper", "wrong", runInput("x", "1"), 401, ""},
		{"/agui/helper", reader, runInput("x", "1"), 403, "write"},
		{"/agui/nobody", own, runInput("x", "1"), 404, "nobody"},
		{"/agui/helper/more", own, runInput("x", "1"), 404, "/agui/helper/more"},
		{"/agui/helper", own, `{"threadId":"x","runId":"1","messages":[]}`, 422, "begins with a message"},
		{"/agui/helper", own, with(`"parentRunId":"0"`), 422, "parentRunId"},
		{"/agui/helper", own, with(`"temperature":1`), 422, "temperature"},
		{"/agui/helper", own, with(`"state":[]`), 422, "state"},
		{"/agui/helper", own, with(`"state":{"a//b":1}`), 422, "a//b"},
		{"/agui/helper", own, with(`"protocolVersion":"2.0"`), 422, "protocolVersion"},
		{"/agui/helper", own, strings.Replace(runInput("x", "1"), `"tools":[]`, `"tools":[{"name":"t","metadata":{"a":1}}]`, 1), 422, "metadata"},
		{"/agui/helper", own, strings.Replace(runInput("x", "1"), `"content":"go"`, `"content":[{"type":"hologram"}]`, 1), 422, "hologram"},
	} {
		status, body := s.post(c.path, c.key, c.body)
		if status != c.status || !strings.Contains(body, c.says) || strings.Contains(body, "valid words") {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, body)
		}
	}
	// Another tenant has no such thread: it begins one of its own.
	other := s.key("other", apikey.Read, apikey.Write)
	if status, body := s.post("/agui/helper", other, `{"threadId":"owned","runId":"1","messages":[]}`); status != 422 || strings.Contains(body, "valid words") {
		t.Errorf("another tenant reads a thread: %d %s", status, body)
	}
}
