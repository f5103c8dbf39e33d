package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/protocol/acp"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

// message is what the program writes.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Params struct {
		Update struct {
			Kind    string `json:"sessionUpdate"`
			Content struct {
				Text string `json:"text"`
			} `json:"content"`
			MessageID string `json:"messageId"`
			ModeID    string `json:"currentModeId"`
		} `json:"update"`
	} `json:"params"`
}

// editor is the other end of a connection.
type editor struct {
	t    *testing.T
	in   *io.PipeWriter
	got  chan message
	over chan error
	text strings.Builder // of the agent's messages so far
	ids  []string        // of those messages
}

func newRuntime(t *testing.T, model llm.Model, tools ...tool.Tool) *holdfast.Runtime {
	t.Helper()
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := holdfast.New(holdfast.Config{
		Store: inmem.New(inmem.Config{}), Models: llm.Map{"m": model}, DefaultModel: "m", Tools: set, Backoff: func(int) time.Duration { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func connect(t *testing.T, rt *holdfast.Runtime) *editor {
	t.Helper()
	in, theirs := io.Pipe()
	ours, out := io.Pipe()
	e := &editor{t: t, in: theirs, got: make(chan message, 1000), over: make(chan error, 1)}
	var read sync.WaitGroup
	read.Go(func() {
		lines := bufio.NewScanner(ours)
		for lines.Scan() {
			var m message
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Errorf("%s: %v", lines.Text(), err)
			}
			e.got <- m
		}
	})
	go func() {
		err := acp.Serve(t.Context(), acp.Config{
			In: in, Out: out, Sessions: rt, Version: "test",
			Open: func(context.Context, acp.Folder) (acp.Workspace, error) {
				return acp.Workspace{Sessions: rt, Definition: session.Definition{Name: "a"}, Modes: true}, nil
			},
		})
		e.over <- errors.Join(err, out.Close())
		read.Wait()
	}()
	return e
}

func (e *editor) send(line string) {
	e.t.Helper()
	if _, err := io.WriteString(e.in, line+"\n"); err != nil {
		e.t.Fatal(err)
	}
}

// until reads messages up to one that matches.
func (e *editor) until(what string, match func(message) bool) message {
	e.t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case m := <-e.got:
			if u := m.Params.Update; u.Kind == "agent_message_chunk" {
				e.text.WriteString(u.Content.Text)
				e.ids = append(e.ids, u.MessageID)
			}
			if match(m) {
				return m
			}
		case <-late:
			e.t.Fatalf("%s did not come; the text so far is %q", what, e.text.String())
		}
	}
}

func (e *editor) answer(id string) message {
	e.t.Helper()
	return e.until("the answer to "+id, func(m message) bool { return m.Method == "" && string(m.ID) == id })
}

// newSession makes a session and returns its id.
func (e *editor) newSession() string {
	e.t.Helper()
	e.send(`{"jsonrpc":"2.0","id":"new","method":"session/new","params":{"cwd":"/","mcpServers":[]}}`)
	var made struct {
		SessionID string `json:"sessionId"`
	}
	m := e.answer(`"new"`)
	if err := json.Unmarshal(m.Result, &made); err != nil || made.SessionID == "" {
		e.t.Fatalf("no session: %+v", m)
	}
	return made.SessionID
}

func (e *editor) prompt(id, text string) {
	e.send(`{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"` + id + `","prompt":[{"type":"text","text":"` + text + `"}]}}`)
}

// close ends the input, as an editor that goes away does.
func (e *editor) close() {
	e.t.Helper()
	if err := e.in.Close(); err != nil {
		e.t.Fatal(err)
	}
	select {
	case err := <-e.over:
		if err != nil {
			e.t.Errorf("Serve ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		e.t.Fatal("Serve did not end")
	}
}

func TestServe_answersWhatIsNoRequestWithAnError(t *testing.T) {
	t.Parallel()
	e := connect(t, newRuntime(t, scripted.New()))
	for line, code := range map[string]int{
		`{"jsonrpc":`: -32700,
		`{"jsonrpc":"2.0","id":1,"method":"session/nothing","params":{}}`:                                          -32601,
		`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":7}}`:                                       -32602,
		`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"none","prompt":[]}}`:             -32002,
		`{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"none","cwd":"/","mcpServers":[]}}`: -32002,
	} {
		e.send(line)
		if m := e.until("an error", func(m message) bool { return m.Error != nil }); m.Error.Code != code {
			t.Errorf("%s: the error is %+v, want the code %d", line, m.Error, code)
		}
	}
	e.send("")
	e.send(`{"jsonrpc":"2.0","method":"$/unknown","params":{}}`) // is ignored
	id := e.newSession()
	e.send(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"` + id + `","prompt":[{"type":"image"}]}}`)
	if m := e.answer("2"); m.Error == nil || !strings.Contains(m.Error.Message, "prompt[0]") {
		t.Errorf("an image without data: %+v", m)
	}
	e.close()
}

// flaky breaks off its first answer, once what it has said of it was read.
type flaky struct {
	broke bool
	read  chan struct{}
}

func (f *flaky) Infer(_ context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if !f.broke {
		f.broke = true
		emit(llm.Delta{Text: "lost"})
		<-f.read
		return llm.Response{}, &llm.TransientError{Err: errors.New("the line broke")}
	}
	emit(llm.Delta{Text: "whole"})
	return llm.Response{Content: session.Text("whole"), FinishReason: "stop"}, nil
}

func TestPrompt_anAnswerThatBrokeOffIsAnotherMessage(t *testing.T) {
	t.Parallel()
	model := &flaky{read: make(chan struct{})}
	e := connect(t, newRuntime(t, model))
	e.prompt(e.newSession(), "hi")
	e.until("the first piece", func(message) bool { return e.text.String() == "lost" })
	close(model.read)
	if m := e.answer("7"); string(m.Result) != `{"stopReason":"end_turn"}` {
		t.Fatalf("the answer is %s %+v", m.Result, m.Error)
	}
	if text := e.text.String(); !strings.Contains(text, "broke off") || !strings.HasSuffix(text, "whole") || e.ids[0] == e.ids[len(e.ids)-1] {
		t.Errorf("the text is %q of %q", text, e.ids)
	}
	e.close()
}

// held answers when it is let go, with half of its answer before.
type held struct{ half, free chan struct{} }

func (h *held) Infer(ctx context.Context, _ llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	emit(llm.Delta{Text: "first "})
	select {
	case h.half <- struct{}{}:
	default:
	}
	select {
	case <-h.free:
	case <-ctx.Done():
		return llm.Response{}, ctx.Err()
	}
	emit(llm.Delta{Text: "second"})
	return llm.Response{Content: session.Text("first second"), FinishReason: "stop"}, nil
}

func TestServe_anEditorThatGoesAwayInterruptsAndLosesNothing(t *testing.T) {
	t.Parallel()
	model := &held{half: make(chan struct{}, 1), free: make(chan struct{})}
	rt := newRuntime(t, model)
	e := connect(t, rt)
	id := e.newSession()
	e.prompt(id, "hi")
	<-model.half
	e.close()
	s, err := rt.Get(t.Context(), id, holdfast.WithTail())
	if err != nil || !s.Running() {
		t.Fatalf("the turn is not there to be continued: %v", err)
	}
	close(model.free)
	e = connect(t, rt)
	e.send(`{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"` + id + `","cwd":"/","mcpServers":[]}}`)
	if m := e.until("the message", func(m message) bool { return m.Params.Update.Kind == "user_message_chunk" }); m.Params.Update.Content.Text != "hi" {
		t.Errorf("the message is %+v", m)
	}
	e.until("the end of the answer", func(message) bool { return strings.Contains(e.text.String(), "second") })
	if e.text.String() != "first second" {
		t.Errorf("the answer is %q", e.text.String())
	}
	e.send(`{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"` + id + `","prompt":[{"type":"text","text":"more"}]}}`)
	e.answer("7") // comes after the turn that was continued
	e.close()
	if s, err = rt.Get(t.Context(), id); err != nil || s.Reply() != "first second" || s.Info().MessageCount != 4 {
		t.Errorf("the session has %d messages and the reply %q, %v", s.Info().MessageCount, s.Reply(), err)
	}
}

func TestPrompt_aModelThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	e := connect(t, newRuntime(t, scripted.New(scripted.Reply{Err: errors.New("no quota")})))
	id := e.newSession()
	e.prompt(id, "hi")
	if m := e.answer("7"); m.Error == nil || m.Error.Code != -32603 || !strings.Contains(m.Error.Message, "no quota") {
		t.Errorf("the answer is %s %+v", m.Result, m.Error)
	}
	e.close()
}

// An editor that cancels a turn while it is asked something dismisses the
// question right after: the turn ends as cancelled, never as one that is over.
func TestCancel_whileSomethingIsAsked(t *testing.T) {
	t.Parallel()
	const turns = 20
	var replies []scripted.Reply
	for range turns {
		ask := session.ToolCall{ID: "c", Name: tool.AskPersonName, Arguments: json.RawMessage(`{"question":"Which?"}`)}
		replies = append(replies, scripted.Reply{ToolCalls: []session.ToolCall{ask}})
	}
	e := connect(t, newRuntime(t, scripted.New(replies...), tool.AskPerson()))
	e.send(`{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{}}}}}`)
	e.answer(`"hi"`)
	id := e.newSession()
	for range turns {
		e.prompt(id, "go")
		asked := e.until("the question", func(m message) bool { return m.Method == "elicitation/create" })
		e.send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"` + id + `"}}` + "\n" +
			`{"jsonrpc":"2.0","id":` + string(asked.ID) + `,"result":{"action":"cancel"}}`)
		if m := e.answer("7"); !strings.Contains(string(m.Result), `"cancelled"`) {
			t.Fatalf("the turn ended with %s %+v", m.Result, m.Error)
		}
	}
	e.close()
}
