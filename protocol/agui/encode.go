package agui

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/protocol"
	"github.com/holdfast-dev/holdfast/session"
)

// event is one event of a run: the fields that its type has are set.
type event struct {
	Type            string   `json:"type"`
	ThreadID        string   `json:"threadId,omitempty"`
	RunID           string   `json:"runId,omitempty"`
	ProtocolVersion string   `json:"protocolVersion,omitempty"`
	MessageID       string   `json:"messageId,omitempty"`
	Role            string   `json:"role,omitempty"`
	Delta           string   `json:"delta,omitempty"`
	ToolCallID      string   `json:"toolCallId,omitempty"`
	ToolCallName    string   `json:"toolCallName,omitempty"`
	Content         *string  `json:"content,omitempty"`
	Outcome         *outcome `json:"outcome,omitempty"`
	Message         string   `json:"message,omitempty"`
	Code            string   `json:"code,omitempty"`
	Usage           []usage  `json:"usage,omitempty"`
}

type messagesSnapshot struct {
	Type     string    `json:"type"`
	Messages []message `json:"messages"`
}

// activity is work that is no part of what is said: the list of tasks, and how
// the window of the model moves.
type activity struct {
	Type         string          `json:"type"`
	MessageID    string          `json:"messageId"`
	ActivityType string          `json:"activityType"`
	Content      activityContent `json:"content"`
}

type activityContent struct {
	Tasks    json.RawMessage `json:"tasks,omitempty"`
	Strategy string          `json:"strategy,omitempty"`
	Summary  string          `json:"summary,omitempty"`
}

// tasksKey is of the metadata of a session: its list of tasks.
const tasksKey = "tasks"

// outcome is how a run ended that did not fail.
type outcome struct {
	Type               string      `json:"type"`
	PendingToolCallIDs []string    `json:"pendingToolCallIds,omitempty"`
	Interrupts         []interrupt `json:"interrupts,omitempty"`
}

// usage counts the tokens of one model.
type usage struct {
	Model                 string `json:"model"`
	InputTokens           int64  `json:"inputTokens"`
	OutputTokens          int64  `json:"outputTokens"`
	TotalTokens           int64  `json:"totalTokens"`
	ReasoningTokens       int64  `json:"reasoningTokens"`
	CachedInputTokens     int64  `json:"cachedInputTokens"`
	CacheWriteInputTokens int64  `json:"cacheWriteInputTokens"`
}

// encoder turns the steps of a turn into events.
type encoder struct {
	in         *input
	write      func(any) bool
	transcript func(to int64) ([]message, error)
	gone       bool

	seq    int64           // the last change that was taken in
	state  session.Values  // as the client has it
	tasks  json.RawMessage // of the session when the run began
	texts  protocol.Texts
	ids    map[string]string // of texts and reasoning, by item
	calls  map[string]bool   // that were sent, or whose call the client has
	used   map[string]bool   // ids of reasoning that the client has
	stale  bool              // the client has what was taken back
	synced bool              // it was told once: at the end it is told again
	models []string          // that were asked
	spent  map[string]session.Usage
}

func newEncoder(in *input, s session.Session, write func(any) bool, transcript func(int64) ([]message, error)) *encoder {
	e := &encoder{
		in: in, write: write, transcript: transcript, state: variablesOf(s), tasks: s.Metadata()[tasksKey],
		texts: protocol.Texts{}, ids: map[string]string{}, calls: map[string]bool{}, used: map[string]bool{}, spent: map[string]session.Usage{},
	}
	for _, m := range in.Messages {
		if m.Role == "reasoning" {
			e.used[m.ID] = true
		}
	}
	return e
}

func (e *encoder) send(v any) {
	if !e.gone {
		e.gone = !e.write(v)
	}
}

// start begins the run.
func (e *encoder) start() {
	e.send(event{Type: "RUN_STARTED", ThreadID: e.in.ThreadID, RunID: e.in.RunID, ProtocolVersion: "1.0"})
	e.startState()
	e.showTasks(e.tasks)
}

// showTasks shows the list of tasks of the session.
func (e *encoder) showTasks(tasks json.RawMessage) {
	if tasks != nil {
		e.send(activity{"ACTIVITY_SNAPSHOT", "tasks", "tasks", activityContent{Tasks: tasks}})
	}
}

// resync replaces the messages of the client by those of the thread to a change.
// What the client streamed of an answer that was taken back is not among them.
func (e *encoder) resync(to int64) {
	e.stale, e.synced = false, true
	e.seq = max(e.seq, to)
	messages, err := e.transcript(to)
	if err != nil {
		e.gone = true
		return
	}
	e.send(messagesSnapshot{"MESSAGES_SNAPSHOT", messages})
}

// step takes one step of the turn in. It reports whether the reader is there.
func (e *encoder) step(s protocol.Step) bool {
	for _, c := range s.Changes {
		if c.Op != projector.Withdrawn && e.stale { // before something takes its place
			e.resync(e.seq)
		}
		e.show(c)
	}
	if e.stale {
		e.resync(e.seq)
	}
	if r := s.Record; r != nil && !r.Discarded {
		e.seq = r.Seq
		e.changeState(r.Change)
		if c, ok := r.Change.(session.MetadataWritten); ok && c.Key == tasksKey {
			e.showTasks(c.Value)
		}
	}
	return !e.gone
}

func (e *encoder) show(c projector.Change) {
	i := c.Item
	switch {
	case i.Unit != "":
	case i.Message != nil && i.Message.Role == session.RoleAssistant:
		e.say(c, i.Message.Text, "TEXT_MESSAGE", "assistant")
	case i.Reasoning != nil:
		e.say(c, i.Reasoning.Text, "REASONING_MESSAGE", "reasoning")
	case i.Call != nil:
		e.call(c)
	case i.Usage != nil && c.Op == projector.Added:
		model := i.Usage.Model
		if !slices.Contains(e.models, model) {
			e.models = append(e.models, model)
		}
		e.spent[model] = e.spent[model].Plus(i.Usage.Usage)
	case i.Status != nil && i.Status.Event == session.WindowMoved{}.Kind() && c.Op == projector.Added:
		e.send(activity{"ACTIVITY_SNAPSHOT", i.ID, "compaction", activityContent{Strategy: i.Status.Strategy, Summary: i.Status.Summary}})
	}
}

// say shows a text or reasoning, as it grows or whole.
func (e *encoder) say(c projector.Change, text, kind, role string) {
	e.stale = e.stale || c.Op == projector.Withdrawn
	piece, open, ends := e.texts.Next(c, text)
	if !open {
		return
	}
	if c.Op == projector.Added {
		e.ids[c.Item.ID] = e.newID(c.Item.ID, role)
	}
	id := e.ids[c.Item.ID]
	if c.Op == projector.Added {
		if role == "reasoning" {
			e.send(event{Type: "REASONING_START", MessageID: id})
		}
		e.send(event{Type: kind + "_START", MessageID: id, Role: role})
	}
	if piece != "" {
		e.send(event{Type: kind + "_CONTENT", MessageID: id, Delta: piece})
	}
	if !ends {
		return
	}
	e.send(event{Type: kind + "_END", MessageID: id})
	if role == "reasoning" {
		e.send(event{Type: "REASONING_END", MessageID: id})
	}
}

// newID returns the id of what is said. Reasoning that was taken back stays with
// the client until a snapshot has other reasoning, so that what is thought next
// must not be added to it.
func (e *encoder) newID(id, role string) string {
	if role != "reasoning" {
		return id
	}
	for e.used[id] {
		id += "~"
		e.synced = true
	}
	e.used[id] = true
	return id
}

// call shows a call when its arguments are whole, and its result. A call of an
// earlier run has its arguments there, and a result that the client brought is
// with the client.
func (e *encoder) call(c projector.Change) {
	call := c.Item.Call
	if c.Op == projector.Withdrawn {
		e.stale = e.stale || e.calls[call.CallID]
		delete(e.calls, call.CallID)
		return
	}
	if call.State == projector.CallStreaming {
		return
	}
	if call.Arguments != nil && !e.calls[call.CallID] {
		e.calls[call.CallID] = true
		e.send(event{Type: "TOOL_CALL_START", ToolCallID: call.CallID, ToolCallName: call.Name})
		e.send(event{Type: "TOOL_CALL_ARGS", ToolCallID: call.CallID, Delta: string(call.Arguments)})
		e.send(event{Type: "TOOL_CALL_END", ToolCallID: call.CallID})
	}
	if c.Op == projector.Finished && call.Result != nil && e.in.result(call.CallID) == nil {
		e.send(event{Type: "TOOL_CALL_RESULT", MessageID: resultID(call), ToolCallID: call.CallID, Role: "tool", Content: &call.Result.Content})
	}
}

// finish ends the run as the session stands.
func (e *encoder) finish(s session.Session, waits []waitingCall) {
	if e.synced {
		e.resync(s.Seq())
	}
	end := event{Type: "RUN_FINISHED", ThreadID: e.in.ThreadID, RunID: e.in.RunID, Usage: e.usage(), Outcome: &outcome{Type: "success"}}
	last := s.Execution()
	switch interrupts, calls := divide(waits); {
	case s.Waiting() && len(interrupts) > 0:
		end.Outcome = &outcome{Type: "interrupt", Interrupts: interrupts}
	case s.Waiting():
		end.Outcome.PendingToolCallIDs = calls
	case last == nil:
	case last.Status == session.ExecutionFailed:
		failure := session.Failure{Kind: string(session.StopError), Message: "the model failed"}
		if n := len(last.Errors); n > 0 {
			failure = last.Errors[n-1]
		}
		e.fail(failure.Message, failure.Kind)
		return
	case last.Status != session.ExecutionStopped || last.Stop == nil:
	case last.Stop.Reason == session.StopUserRequested || last.Stop.Reason == session.StopInterrupted:
		end.Outcome.Type = "cancelled"
	default: // a limit
		e.fail(cmp.Or(last.Stop.Message, "the run was stopped"), string(last.Stop.Reason))
		return
	}
	e.send(end)
}

// fail ends the run with an error.
func (e *encoder) fail(message, code string) {
	e.send(event{Type: "RUN_ERROR", Message: cmp.Or(message, "the run failed"), Code: code, Usage: e.usage()})
}

func (e *encoder) usage() []usage {
	var list []usage
	for _, model := range e.models {
		u := e.spent[model]
		list = append(list, usage{model, u.Input, u.Output, u.Total(), u.Reasoning, u.CacheRead, u.CacheWrite})
	}
	return list
}
