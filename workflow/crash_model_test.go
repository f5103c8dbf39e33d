package workflow_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/tool"
)

// conversation is a request as the recorder reads it. What the agent was told
// in the beginning stands apart: it holds notes, which have a time.
type conversation struct {
	System   string
	Tools    []any
	Messages []struct {
		Role    string
		Content string
		Calls   []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
		Result string `json:"tool_call_id"`
	}
}

// readConversation takes a request of the Chat Completions protocol apart.
func readConversation(body []byte) (conversation, error) {
	var c conversation
	if err := json.Unmarshal(body, &c); err != nil {
		return c, err
	}
	if len(c.Messages) > 0 && c.Messages[0].Role == "system" {
		c.System, c.Messages = c.Messages[0].Content, c.Messages[1:]
	}
	if len(c.Messages) == 0 {
		return c, fmt.Errorf("a request without messages: %s", body)
	}
	return c, nil
}

// key names a request by all that it shows of the conversation. So an agent
// that remembers more, less or something else is another request.
func (c conversation) key() string {
	h := sha256.New()
	for _, m := range c.Messages {
		fmt.Fprintf(h, "%q\n", fmt.Sprint(m))
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

var keyPattern = regexp.MustCompile(`key ([0-9a-f]{12})`)

// keyIn is the key of the request that a text answers, "" where it has none.
func keyIn(text string) string {
	if m := keyPattern.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// reply is what the model says: the same to the same request. Every answer
// has the key of its request in it.
func (c conversation) reply(key string) provtest.Reply {
	asked, last := 0, c.Messages[len(c.Messages)-1]
	for _, m := range c.Messages {
		if m.Role == "user" {
			asked++
		}
	}
	n := int64(len(c.Messages))
	reply := provtest.Reply{Text: []string{"Said ", "key " + key, "."}, Pause: time.Millisecond, Usage: provtest.Usage{Input: 100 * n, Output: 10 + n}}
	say := func(text string) { reply.Text = []string{text} }
	role, _, _ := strings.Cut(c.System, "\n")
	switch {
	case strings.Contains(last.Content, "[tools]") && last.Role == "user" && len(c.Tools) > 0:
		for _, name := range []string{"weigh", "stamp"} {
			reply.Calls = append(reply.Calls, provtest.Call{ID: name + "-" + key, Name: name, Arguments: []string{`{"what":`, `"` + key + `"}`}})
		}
	case strings.Contains(last.Content, "[long]"):
		reply.Text = append(reply.Text, strings.Repeat(" and on", 800))
	case role == "You route." && asked > 1:
		say(fmt.Sprintf(`{"route": "billing", "why": "key %s"}`, key))
	case role == "You judge." && asked != 2: // the second answer cannot be read
		say(fmt.Sprintf(`{"score": %d, "issues": ["key %s"], "fixes": []}`, 30*asked, key))
	case role == "You plan." && asked == 2:
		say(fmt.Sprintf(`[{"task": "First, key %[1]s. [tools]"}, {"task": "Second, of %[1]s."}, {"task": "Third, of %[1]s."}]`, key))
	}
	return reply
}

// crashRecorder is the model's server. It knows what each run asked.
type crashRecorder struct {
	server *provtest.Server

	mu   sync.Mutex // guards runs
	runs map[string]*crashRun
}

func newCrashRecorder(t *testing.T) *crashRecorder {
	t.Helper()
	r := &crashRecorder{runs: map[string]*crashRun{}}
	r.server = provtest.OpenAI(provtest.Config{Choose: r.choose})
	t.Cleanup(r.server.Close)
	return r
}

func (r *crashRecorder) add(run *crashRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs[run.job.Session] = run
}

// choose notes which run asks for what, and answers unless the process is to
// die of its question.
func (r *crashRecorder) choose(q provtest.Request) provtest.Reply {
	c, err := readConversation(q.Body)
	if err != nil {
		return provtest.Reply{Status: 400, Body: err.Error()}
	}
	life, err := strconv.Atoi(q.Header.Get(lifeHeader))
	if err != nil {
		return provtest.Reply{Status: 400, Body: err.Error()}
	}
	r.mu.Lock()
	run := r.runs[q.Header.Get(runHeader)]
	r.mu.Unlock()
	if run == nil {
		return provtest.Reply{Status: 400, Body: "nobody knows this run"}
	}
	if !run.asked(ask{life: life, key: c.key(), system: c.System}) {
		return provtest.Reply{Cut: true}
	}
	return c.reply(c.key())
}

// effects are tools whose runs can be counted by other processes: they add a
// line to a file when they begin and when their work is done.
type effects struct {
	file   string
	life   int
	moment func(string)
}

// For are the tools with these names. An agent without a list has none.
func (e effects) For(names []string, _ bool, _ func(string) bool) ([]tool.Tool, error) {
	var tools []tool.Tool
	for _, s := range []tool.Spec{
		{Name: "weigh", Description: "Weighs.", Nature: tool.ReadOnly}, {Name: "stamp", Description: "Stamps.", Nature: tool.Idempotent},
	} {
		if slices.Contains(names, s.Name) {
			tools = append(tools, effect{e, s})
		}
	}
	return tools, nil
}

func (e effects) Close() error { return nil }

type effect struct {
	effects
	spec tool.Spec
}

func (e effect) Spec() tool.Spec { return e.spec }

func (e effect) Call(_ context.Context, c tool.Call) (tool.Result, error) {
	for _, what := range []string{"began", "ended"} {
		if err := e.note(what, c.ID); err != nil {
			return tool.Result{}, err
		}
		e.moment("tool " + what + ": " + c.ID)
	}
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
