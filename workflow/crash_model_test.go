package workflow_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/crashtest"
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
	case strings.Contains(last.Content, "[ask]") && last.Role == "user":
		reply.Calls = []provtest.Call{
			{ID: "ask-" + key, Name: tool.AskPersonName, Arguments: []string{`{"question":"Which seat?"}`}},
			{ID: "charge-" + key, Name: "charge", Arguments: []string{`{"what":`, `"` + key + `"}`}},
		}
	case strings.Contains(last.Content, "[scan]") && last.Role == "user":
		reply.Calls = []provtest.Call{{ID: "scan-" + key, Name: "scan", Arguments: []string{`{}`}}}
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

// replyToRun answers a request. That it is repeated with another system prompt
// is a fault.
func replyToRun(_ *crashtest.Run, body []byte) (key, detail string, reply provtest.Reply, err error) {
	c, err := readConversation(body)
	if err != nil {
		return "", "", reply, err
	}
	return c.key(), c.System, c.reply(c.key()), nil
}
