package tool

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// remote is a tool that this program never runs itself.
type remote struct{ spec Spec }

// Client makes a tool that the caller's own program carries out: a call waits
// until the caller sends its result.
func Client(t session.ClientTool) Tool {
	return remote{Spec{Name: t.Name, Description: t.Description, Schema: t.Schema, Runner: ByClient, Parallel: true}}
}

// Question is what an agent asks a person.
type Question struct {
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"` // none: any text answers it
}

// Check refuses a question that cannot be answered.
func (q Question) Check() error {
	if strings.TrimSpace(q.Question) == "" {
		return errors.New("the question is empty")
	}
	if slices.ContainsFunc(q.Options, func(o string) bool { return strings.TrimSpace(o) == "" }) {
		return errors.New("an option is empty")
	}
	return nil
}

const questionSchema = `{"type":"object","properties":{` +
	`"question":{"type":"string","description":"what the user is asked, in full: nothing else is shown"},` +
	`"options":{"type":"array","items":{"type":"string"},"description":"the answers to choose from; leave them out where any text will do"}},` +
	`"required":["question"],"additionalProperties":false}`

// AskPersonName is the name of the tool that AskPerson makes.
const AskPersonName = "request_user_input"

// AskPerson makes the tool by which an agent asks its user a question. The call
// waits until a person answers.
func AskPerson() Tool {
	return remote{Spec{
		Name: AskPersonName, Schema: json.RawMessage(questionSchema), Runner: ByPerson, Parallel: true, Effects: Read,
		Description: "Ask the user something that you cannot find out and cannot decide yourself. " +
			"The work rests until the answer is there, which may take long: ask once, for all you need to know.",
	}}
}

func (t remote) Spec() Spec { return t.spec }

// Call refuses: the agent loop makes a pending call instead.
func (t remote) Call(context.Context, Call) (Result, error) {
	return Result{}, errors.New("this program does not run it: the call waits for a response")
}
