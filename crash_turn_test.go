package holdfast_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// The turn that crashing processes work on: four model calls and five tool
// calls, of every nature, alone and side by side.

var crashAgent = session.Definition{Name: "booker", SystemPrompt: "Book what is asked for.", Model: "recorded"}

// crashTools are the agent's tools.
var crashTools = []tool.Spec{
	{Name: "look_up", Description: "Finds trains.", Nature: tool.ReadOnly},
	{Name: "reserve", Description: "Holds a seat.", Nature: tool.Idempotent, Parallel: true},
	{Name: "charge", Description: "Takes money.", Nature: tool.Once},
	{Name: "mail", Description: "Sends a letter.", Nature: tool.Once, Parallel: true},
}

// crashCalls are the tool calls of each answer; the last one has none.
var crashCalls = [][]provtest.Call{
	{{ID: "find", Name: "look_up", Arguments: []string{`{"to":`, `"Oslo"}`}}, {ID: "hold", Name: "reserve", Arguments: []string{`{"seat":7}`}}},
	{{ID: "pay", Name: "charge", Arguments: []string{`{"amount":`, `40}`}}},
	{{ID: "letter", Name: "mail", Arguments: []string{`{}`}}, {ID: "check", Name: "look_up", Arguments: []string{`{"to":"Oslo"}`}}},
	nil,
}

// callOrigin is the step that asks for a call, and the nature of its tool.
func callOrigin(id string) (step int, nature tool.Nature) {
	for i, calls := range crashCalls {
		for _, call := range calls {
			if call.ID != id {
				continue
			}
			for _, spec := range crashTools {
				if spec.Name == call.Name {
					return i + 1, spec.Nature
				}
			}
		}
	}
	panic("no such call: " + id)
}

// crashReply is the model's answer number step, streamed slowly enough for a
// crash to come in between.
func crashReply(step int) provtest.Reply {
	n := int64(step)
	reply := provtest.Reply{
		Reasoning: []string{"Hm ", fmt.Sprint(step), "."}, Signature: fmt.Sprint("c2VhbA", step),
		Text: []string{"Step ", fmt.Sprint(step), "."}, Calls: crashCalls[step-1], Pause: time.Millisecond,
		Usage: provtest.Usage{Input: 100 * n, Output: 10 * n, CacheRead: n},
	}
	if reply.Calls == nil {
		reply.Text = []string{"All ", "is ", "booked."}
	}
	return reply
}

// lifeHeader says which process of a run makes a request: one that a killed
// process sent may be read when the next is at work.
const lifeHeader = "X-Life"

// crashRecorder has the model servers and knows what each session asked them.
type crashRecorder struct {
	server *provtest.Server

	mu   sync.Mutex // guards runs
	runs map[string]*crashRun
}

// newCrashRecorder starts a server of one protocol.
func newCrashRecorder(t *testing.T, provider string) *crashRecorder {
	t.Helper()
	r := &crashRecorder{runs: map[string]*crashRun{}}
	serve := map[string]func(provtest.Config) *provtest.Server{"openai": provtest.OpenAI, "anthropic": provtest.Anthropic}[provider]
	r.server = serve(provtest.Config{Choose: r.choose})
	t.Cleanup(r.server.Close)
	return r
}

func (r *crashRecorder) add(run *crashRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[run.id] = run
}

// choose notes which session asks for which step, and answers.
func (r *crashRecorder) choose(q provtest.Request) provtest.Reply {
	var body struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal(q.Body, &body); err != nil {
		return provtest.Reply{Status: 400, Body: err.Error()}
	}
	id, step := "", 1
	for _, m := range body.Messages {
		if m.Role == "assistant" {
			step++
		}
		if _, after, ok := bytes.Cut(m.Content, []byte("trip ")); ok && m.Role == "user" && id == "" {
			id, _, _ = strings.Cut(string(after), ".")
		}
	}
	r.mu.Lock()
	run := r.runs[id]
	r.mu.Unlock()
	if run == nil || step > len(crashCalls) {
		return provtest.Reply{Status: 400, Body: fmt.Sprintf("session %q asks for step %d", id, step)}
	}
	life, err := strconv.Atoi(q.Header.Get(lifeHeader))
	if err != nil {
		return provtest.Reply{Status: 400, Body: err.Error()}
	}
	if !run.asked(ask{life, step, strings.ReplaceAll(string(q.Body), id, "ID")}) {
		return provtest.Reply{Cut: true}
	}
	return crashReply(step)
}

// crashPrompt is what the user says in a session.
func crashPrompt(id string) string { return "Please book trip " + id + "." }

// effect is a tool whose runs can be counted by other processes: it adds a
// line to a file when it begins and when its work is done.
type effect struct {
	spec   tool.Spec
	file   string
	life   int
	moment func(string)
}

func (e effect) Spec() tool.Spec { return e.spec }

func (e effect) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	if err := e.note("began", c.ID); err != nil {
		return tool.Result{}, err
	}
	e.moment("tool began: " + c.ID)
	select {
	case <-time.After(8 * time.Millisecond): // its work
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	}
	if err := e.note("ended", c.ID); err != nil {
		return tool.Result{}, err
	}
	e.moment("tool ended: " + c.ID)
	return tool.Result{Content: "did " + c.ID + " with " + string(c.Arguments)}, nil
}

// note writes one line with one system call: it outlives the process.
func (e effect) note(what, call string) (err error) {
	f, err := os.OpenFile(e.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s %d\n", what, call, e.life)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
