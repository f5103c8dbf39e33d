// Package replay says what a recorded session was told to another model, or to
// the same one again, and compares what comes of it.
//
// Load reads a recording from a store, Parse from a file that "holdfast sessions
// export" has written. A Player sends the user's messages of a recording to a new
// session, a fork where that is possible. The recorded session stays as it was.
//
// No tool does again what it did: a call that is in the recording gets the
// recorded result. A call that is not runs only if its tool is read-only, else the
// model is told that there is no result.
package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// Recording is what was said and done in a session, from a version on.
type Recording struct {
	Session    session.Info
	Definition session.Definition
	Turns      []Turn // what a user said, and what followed

	from    int64           // the version to fork; 0: a new session begins
	start   session.Session // what the replay begins with; the zero value: seed
	seed    session.Seed
	pending map[string]session.PendingCall // by call
	answers []session.Message              // of the model, in order
}

// Turn is a message of a user and what the agent did until the next one.
type Turn struct {
	Text   string        `json:"text"`   // of the message
	Answer string        `json:"answer"` // empty: there was none
	Calls  []Call        `json:"calls,omitempty"`
	Model  string        `json:"model,omitempty"` // that answered last; empty: not known
	Usage  session.Usage `json:"usage"`           // zero where it is not known
	Cost   session.Cost  `json:"cost"`

	message session.Message
	tools   []session.ClientTool // that came with the message
}

// Call is a tool call of a turn.
type Call struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Result    string          `json:"result,omitempty"`
	IsError   bool            `json:"isError,omitempty"`
	Waiting   bool            `json:"waiting,omitempty"` // it has no result
	Source    Source          `json:"source,omitempty"`

	id        string
	cancelled *session.ToolResult // it waited until something else was said
}

// Source says where a call of a replay has its result from.
type Source string

// The sources.
const (
	Recorded Source = "recorded" // the recording
	Ran      Source = "ran"      // the tool
	Refused  Source = "refused"  // neither: the tool must not run
)

// Load reads the recording of a conversation. The replay begins at a version, 0
// for the one before the first message of a user. An open tail is no part of it.
// Another version than 0 needs a store with a log.
func Load(ctx context.Context, rt *holdfast.Runtime, id string, from int64) (*Recording, error) {
	s, err := rt.Get(ctx, id, holdfast.Whole())
	if err != nil {
		return nil, err
	}
	r, steps, err := newRecording(s)
	if err != nil {
		return nil, err
	}
	log, err := readLog(ctx, rt, id, s)
	if errors.Is(err, session.ErrUnsupported) && from == 0 {
		return r.complete(s, 0, steps, nil)
	}
	if err != nil {
		return nil, err
	}
	if from == 0 {
		from = log.first - 1
	}
	if from <= 0 { // what a fork or an import began with is in its first version
		return r.complete(s, 0, log.steps, log.tools)
	}
	r.from = from
	if r.start, err = rt.Get(ctx, id, holdfast.At(from), holdfast.Whole()); err != nil {
		return nil, err
	}
	known := r.start.Len()
	if known > s.Len() || known > 0 && r.start.Message(known-1).ID != s.Message(known-1).ID {
		return nil, &session.InvalidError{Field: "from", Reason: fmt.Sprintf(
			"version %d has messages that the session has no more, because it was cleared or rewound; choose a version whose messages it still has", from)}
	}
	return r.complete(s, known, log.steps, log.tools)
}

// Parse reads the recording of a conversation from its document, as "holdfast
// sessions export" prints it. It says what the last turn used, and in total.
func Parse(document []byte) (*Recording, error) {
	s, err := session.Decode(document)
	if err != nil {
		return nil, err
	}
	r, steps, err := newRecording(s)
	if err != nil {
		return nil, err
	}
	return r.complete(s, 0, steps, nil)
}

// Alone returns the recording for a replay that is no fork, but a session of its
// own in any store. It begins with the messages that the fork would have.
func (r *Recording) Alone() *Recording {
	alone := *r
	alone.Definition = r.Definition.Clone()
	if r.from > 0 {
		alone.from, alone.start, alone.seed.Messages = 0, session.Session{}, r.start.Messages()
	}
	return &alone
}

// newRecording returns a recording without turns, and the steps that the session
// itself knows.
func newRecording(s session.Session) (*Recording, map[string]session.Step, error) {
	info := s.Info()
	if info.Kind != session.KindChat {
		return nil, nil, &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%s is a %s; only conversations can be replayed", info.ID, info.Kind)}
	}
	state := s.State()
	r := &Recording{
		Session: info, Definition: s.Definition(), pending: map[string]session.PendingCall{},
		seed: session.Seed{SystemPrompt: state.SystemPrompt, Model: state.Model, ModelParams: state.ModelParams, ResponseFormat: state.ResponseFormat},
	}
	for _, p := range state.Pending {
		r.pending[p.CallID] = p
	}
	steps := map[string]session.Step{}
	addSteps(steps, s)
	return r, steps, nil
}

// complete adds the turns after the messages that the replay begins with.
func (r *Recording) complete(s session.Session, known int, steps map[string]session.Step, tools map[string][]session.ClientTool) (*Recording, error) {
	messages := s.Messages()[known:]
	r.Turns = turnsOf(messages, steps)
	if len(r.Turns) == 0 {
		return nil, &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%s has no message of a user after version %d: there is nothing to replay", r.Session.ID, r.from)}
	}
	turn := -1
	for _, m := range messages {
		switch {
		case m.Role == session.RoleUser:
			turn++
		case m.Role == session.RoleAssistant && turn >= 0:
			r.answers = append(r.answers, m)
			r.Turns[turn].tools = tools[m.ExecutionID]
		case turn < 0 && r.from == 0: // the session began with it
			r.seed.Messages = append(r.seed.Messages, m)
		}
	}
	return r, nil
}

// turnsOf cuts a transcript into turns. What comes before the first message of a
// user belongs to none.
func turnsOf(messages []session.Message, steps map[string]session.Step) []Turn {
	var turns []Turn
	for _, m := range messages {
		if m.Role == session.RoleUser {
			turns = append(turns, Turn{Text: m.Content.Text(), message: m})
			continue
		}
		if len(turns) == 0 {
			continue
		}
		t := &turns[len(turns)-1]
		switch m.Role {
		case session.RoleAssistant:
			t.Answer = ""
			for i := range t.Calls { // the model was told of them
				if r := t.Calls[i].cancelled; r != nil {
					t.Calls[i].settle(*r)
				}
			}
			if len(m.ToolCalls) == 0 {
				t.Answer = m.Content.Text()
			}
			for _, c := range m.ToolCalls {
				t.Calls = append(t.Calls, Call{Tool: c.Name, Arguments: c.Arguments, Waiting: true, id: c.ID})
			}
			if step, ok := steps[m.StepID]; ok {
				t.Model, t.Usage, t.Cost = step.Model, t.Usage.Plus(step.Usage), t.Cost+step.Cost
			}
		case session.RoleTool:
			for i := range t.Calls {
				c := &t.Calls[i]
				switch {
				case c.id != m.ToolResult.CallID:
				case m.ToolResult.Synthetic:
					c.cancelled = m.ToolResult
				default:
					c.settle(*m.ToolResult)
				}
			}
		}
	}
	return turns
}

// settle gives a call its result. One that the runtime wrote in place of a result
// counts only if the model was told of it in the same turn: else the call waited.
func (c *Call) settle(r session.ToolResult) {
	c.Result, c.IsError, c.Waiting, c.cancelled = r.Content, r.IsError, false, nil
}

// addSteps remembers the steps of a session's last execution.
func addSteps(steps map[string]session.Step, s session.Session) {
	if e := s.Execution(); e != nil {
		for _, step := range e.Steps {
			steps[step.ID] = step
		}
	}
}

// fromLog is what only the log of a session knows.
type fromLog struct {
	first int64 // the version of its own that has its first message of a user
	steps map[string]session.Step
	tools map[string][]session.ClientTool // by execution
}

func readLog(ctx context.Context, rt *holdfast.Runtime, id string, s session.Session) (fromLog, error) {
	log := fromLog{steps: map[string]session.Step{}, tools: map[string][]session.ClientTool{}}
	own := int64(0) // what a fork has of its parent comes before its own
	if fork := s.Info().Fork; fork != nil {
		own = fork.Seq
	}
	first := ""
	for _, m := range s.All() {
		if m.Role == session.RoleUser {
			first = m.ID
			break
		}
	}
	for entry, err := range rt.Log(ctx, id, 0) {
		if err != nil {
			return log, err
		}
		switch c := entry.Change.(type) {
		case session.MessageAdded:
			if c.Message.ID == first && entry.Seq > own && log.first == 0 {
				log.first = entry.Version
			}
		case session.ExecutionStarted:
			log.tools[c.ExecutionID] = c.Tools
		case session.InferenceAnswered:
			log.steps[c.StepID] = session.Step{ID: c.StepID, Model: c.Model, Usage: c.Usage, Cost: c.Cost}
		}
	}
	return log, nil
}

// Model returns a model that gives the recorded answers again, in order, and then
// session.ErrScriptExhausted. With it a replay tests everything but the model.
func (r *Recording) Model() llm.Model {
	skipped := 0
	if !r.start.IsZero() {
		skipped = r.start.InferenceCount()
	}
	return recordedModel{r.answers, skipped}
}

type recordedModel struct {
	answers []session.Message
	skipped int // inferences of the session before the replay
}

// WorksOffline makes the model an llm.Offline.
func (recordedModel) WorksOffline() {}

// Infer gives the recorded answer.
func (m recordedModel) Infer(ctx context.Context, r llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if err := ctx.Err(); err != nil {
		return llm.Response{}, err
	}
	n := r.Inference - m.skipped
	if n < 0 || n >= len(m.answers) {
		return llm.Response{}, session.ErrScriptExhausted
	}
	answer := m.answers[n].Clone()
	if text := answer.Content.Text(); emit != nil && text != "" {
		emit(llm.Delta{Text: text})
	}
	finish := "stop"
	if len(answer.ToolCalls) > 0 {
		finish = "tool_calls"
	}
	return llm.Response{Content: answer.Content, ToolCalls: answer.ToolCalls, FinishReason: finish}, nil
}
