package agui_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/protocol/protocoltest"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// agents are one agent, and its subagent.
var agents = protocoltest.Agents{
	"cook":   {Name: "cook", Model: "m", Tools: []string{tool.AskPersonName}},
	"helper": {Name: "helper", Model: "m", Subagents: []string{"cook"}},
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
	m := &model{seen: make(chan struct{})}
	s := protocoltest.Start(t, m, agents)
	see := func(line string) {
		if strings.Contains(line, "void words") {
			close(m.seen)
		}
	}
	key := s.Key("default", apikey.Read, apikey.Write)
	want := []string{"user go", "reasoning valid thought", "assistant valid words"}
	for _, again := range []bool{false, true} { // the same run again shows the same
		status, body := s.Do("POST", "/agui/helper", key, runInput("thread", "run"), see)
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
	s := protocoltest.Start(t, asking{}, agents, tool.AskPerson())
	key := s.Key("default", apikey.Read, apikey.Write)
	body := runInput("thread", "run")
	for _, salt := range []string{"none", "a little"} {
		_, events := s.Do("POST", "/agui/helper", key, body)
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
		if status, refused := s.Do("POST", "/agui/helper", key, strings.ReplaceAll(runInput("thread", "other"), "m-thread", "m-other")); status != 409 || !strings.Contains(refused, waits[0].ID) {
			t.Errorf("another message: %d %s", status, refused)
		}
		resume := `"resume":[{"interruptId":"` + waits[0].ID + `","status":"resolved","payload":"` + salt + `"}],"state":{}`
		body = strings.Replace(runInput("thread", "run "+salt), `"state":{}`, resume, 1)
	}
	for range 2 { // again, it is harmless
		if _, events := s.Do("POST", "/agui/helper", key, body); !strings.Contains(events, "helper heard cook heard") || !strings.Contains(events, `"type":"success"`) || !strings.Contains(events, "a little") {
			t.Errorf("at the end: %s", events)
		}
	}
}

func TestRun_refuses(t *testing.T) {
	t.Parallel()
	s := protocoltest.Start(t, &model{}, agents)
	own, reader := s.Key("default", apikey.Read, apikey.Write), s.Key("default", apikey.Read)
	if status, body := s.Do("POST", "/agui/helper", own, runInput("owned", "1")); status != 200 || !strings.Contains(body, "valid words") {
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
		status, body := s.Do("POST", c.path, c.key, c.body)
		if status != c.status || !strings.Contains(body, c.says) || strings.Contains(body, "valid words") {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, body)
		}
	}
	// Another tenant has no such thread: it begins one of its own.
	other := s.Key("other", apikey.Read, apikey.Write)
	if status, body := s.Do("POST", "/agui/helper", other, `{"threadId":"owned","runId":"1","messages":[]}`); status != 422 || strings.Contains(body, "valid words") {
		t.Errorf("another tenant reads a thread: %d %s", status, body)
	}
}
