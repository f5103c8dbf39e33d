// Package projector turns what happens to a session into the items that views
// and protocols show: messages, reasoning, tool calls, pending calls, usage,
// status, and the progress of tasks and workflow runs.
//
// One projector reads one session: holdfast.Follow while it is worked on, its
// log later. Both lead to the same items.
package projector

import (
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Type says which field of an item is set.
type Type string

// The types of item.
const (
	TypeMessage   Type = "message"
	TypeReasoning Type = "reasoning"
	TypeCall      Type = "call"
	TypePending   Type = "pending"
	TypeUsage     Type = "usage"
	TypeStatus    Type = "status"
	TypeTask      Type = "task"
	TypeUnit      Type = "unit"
)

// Item is one thing to show. Its ID is the same in every projection of the
// session. Seq is the change it begins with, 0 as long as it is only streamed.
type Item struct {
	ID          string    `json:"id"`
	Type        Type      `json:"type"`
	SessionID   string    `json:"sessionId"`
	Unit        string    `json:"unit,omitempty"`
	ExecutionID string    `json:"executionId,omitempty"`
	StepID      string    `json:"stepId,omitempty"`
	Seq         int64     `json:"seq,omitempty"`
	At          time.Time `json:"at,omitzero"`
	Done        bool      `json:"done"` // nothing more is expected of it

	Message   *Message   `json:"message,omitempty"`
	Reasoning *Reasoning `json:"reasoning,omitempty"`
	Call      *Call      `json:"call,omitempty"`
	Pending   *Pending   `json:"pending,omitempty"`
	Usage     *Usage     `json:"usage,omitempty"`
	Status    *Status    `json:"status,omitempty"`
	Task      *Task      `json:"task,omitempty"`
	Work      *Work      `json:"work,omitempty"` // of a unit
}

// Message is what somebody said, or a part of it where reasoning stands between
// the parts.
type Message struct {
	MessageID string          `json:"messageId,omitempty"` // empty while it is streamed
	Role      session.Role    `json:"role"`
	Name      string          `json:"name,omitempty"`
	Text      string          `json:"text"`
	Content   session.Content `json:"content,omitempty"` // all parts; empty while it is streamed
	Trace     bool            `json:"trace,omitempty"`   // its step was not a final response
}

// Reasoning is what a model thought before it answered.
type Reasoning struct {
	MessageID string          `json:"messageId,omitempty"`
	Text      string          `json:"text"`
	Content   session.Content `json:"content,omitempty"`
}

// CallState is how far a tool call has come.
type CallState string

// The states of a tool call.
const (
	CallStreaming CallState = "streaming" // the model is still writing its arguments
	CallCalled    CallState = "called"    // the arguments are whole
	CallWaiting   CallState = "waiting"   // for a response to its pending call
	CallRunning   CallState = "running"
	CallDone      CallState = "done" // it has a result
)

// Call is a tool call and what became of it.
type Call struct {
	CallID         string          `json:"callId"`
	Name           string          `json:"name"`
	Arguments      json.RawMessage `json:"arguments,omitempty"`
	State          CallState       `json:"state"`
	StartedAt      *time.Time      `json:"startedAt,omitempty"`
	EndedAt        *time.Time      `json:"endedAt,omitempty"`
	Result         *Result         `json:"result,omitempty"`
	ChildSessionID string          `json:"childSessionId,omitempty"`

	finished bool // its tool_finished was seen
}

// Result is what a tool call came to. A synthetic one was written by the
// runtime because the tool gave none.
type Result struct {
	MessageID string `json:"messageId,omitempty"`
	Content   string `json:"content"`
	IsError   bool   `json:"isError,omitempty"`
	Synthetic bool   `json:"synthetic,omitempty"`
}

// Pending is a call or a question that waits for a response. An item that is
// done without a response was abandoned.
type Pending struct {
	session.PendingCall
	Item string `json:"item,omitempty"` // of the tool call
}

// Usage is what one step used.
type Usage struct {
	Model        string        `json:"model"`
	FinishReason string        `json:"finishReason,omitempty"`
	Usage        session.Usage `json:"usage"`
	Cost         session.Cost  `json:"cost"`
	Agent        string        `json:"agent,omitempty"` // of a workflow's unit
	Estimated    bool          `json:"estimated,omitempty"`
	Recalled     []string      `json:"recalled,omitempty"`

	Reasons []session.RecallReason `json:"reasons,omitempty"` // why, in the order of Recalled
}

// Status is a change of the session or its execution. Event is the kind of the
// change; the fields that it has no use for are empty.
type Status struct {
	Event    string            `json:"event"`
	Status   string            `json:"status,omitempty"` // of the session, the execution or the run, after the change
	Reason   string            `json:"reason,omitempty"`
	Message  string            `json:"message,omitempty"`
	Errors   []session.Failure `json:"errors,omitempty"`
	Version  int64             `json:"version,omitempty"`  // it was rewound to
	From     int64             `json:"from,omitempty"`     // of a discarded stretch, or where a window began
	To       int64             `json:"to,omitempty"`       // of a discarded stretch, or where a window begins
	Strategy string            `json:"strategy,omitempty"` // that moved a window
	Summary  string            `json:"summary,omitempty"`  // of what left a window
	Name     string            `json:"name,omitempty"`     // of a workflow, a budget or a file
	Used     float64           `json:"used,omitempty"`
	Limit    float64           `json:"limit,omitempty"`
}

// Task is news of a task. The plan, each of its steps and the checklist have one
// item each that is updated; every other event is an item of its own.
type Task struct {
	Event     string             `json:"event"` // the last that touched the item
	Text      string             `json:"text,omitempty"`
	Tool      string             `json:"tool,omitempty"`
	Path      string             `json:"path,omitempty"`
	Plan      *session.Plan      `json:"plan,omitempty"`
	Step      *session.PlanStep  `json:"step,omitempty"`
	Checklist *session.Checklist `json:"checklist,omitempty"`
	Data      json.RawMessage    `json:"data,omitempty"` // the whole event, where no field above says it all
}

// WorkState is how far a unit has come.
type WorkState string

// The states of a unit.
const (
	WorkRunning  WorkState = "running" // or halted, where nobody works on the run
	WorkFinished WorkState = "finished"
	WorkFailed   WorkState = "failed" // it may be taken up again
	WorkReset    WorkState = "reset"  // what it did was taken back; it is done again
)

// Work is a unit of a workflow run.
type Work struct {
	Agent         string           `json:"agent,omitempty"`
	Lane          string           `json:"lane,omitempty"`
	State         WorkState        `json:"state"`
	Input         string           `json:"input,omitempty"`
	StartedAt     time.Time        `json:"startedAt,omitzero"`
	EndedAt       time.Time        `json:"endedAt,omitzero"`
	ActiveSeconds float64          `json:"activeSeconds"` // its models were at work
	Usage         session.Usage    `json:"usage"`
	Cost          session.Cost     `json:"cost"`
	Estimated     bool             `json:"estimated,omitempty"` // words were counted in place of tokens
	Result        json.RawMessage  `json:"result,omitempty"`
	Error         *session.Failure `json:"error,omitempty"`
}

// Op is what happened to an item.
type Op string

// What can happen to an item. It is added, may grow and be updated, and ends
// with finished or withdrawn. One that was withdrawn may be added again, and
// one that was finished updated or withdrawn: sessions go back and forth.
const (
	Added     Op = "added"
	Grew      Op = "grew"    // Text was added to a message or reasoning
	Updated   Op = "updated" // other fields changed
	Finished  Op = "finished"
	Withdrawn Op = "withdrawn"
)

// Change is one thing that happened to an item. Item is as it is then; of Grew
// it has the text that was added and not the whole.
type Change struct {
	Op   Op   `json:"op"`
	Item Item `json:"item"`
}
