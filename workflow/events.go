package workflow

import (
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Event reports the progress of a run. It is sent after the commit it reports.
type Event struct {
	Type      EventType        `json:"event_type"`
	Timestamp string           `json:"timestamp"`
	SessionID string           `json:"session_id"`
	SpecName  string           `json:"spec_name"`
	Pattern   spec.PatternType `json:"pattern_type"`
	Data      EventData        `json:"data"`
}

// EventType says what an event is about.
type EventType string

// The types of events, each with the type of its data. A unit that is no step,
// task, worker or node is reported as a step.
const (
	WorkflowStart    EventType = "workflow_start"    // StartData
	StepStart        EventType = "step_start"        // UnitData, as the next ones
	StepComplete     EventType = "step_complete"     //
	TaskStart        EventType = "task_start"        //
	TaskComplete     EventType = "task_complete"     //
	WorkerStart      EventType = "worker_start"      //
	WorkerComplete   EventType = "worker_complete"   //
	NodeStart        EventType = "node_start"        //
	NodeComplete     EventType = "node_complete"     //
	BranchStart      EventType = "branch_start"      // BranchData
	BranchComplete   EventType = "branch_complete"   // BranchData
	RoutingDecision  EventType = "routing_decision"  // RouteData
	IterationStart   EventType = "iteration_start"   // IterationData
	HITLPause        EventType = "hitl_pause"        // QuestionData
	HITLAnswer       EventType = "hitl_answer"       // AnswerData
	BudgetWarning    EventType = "budget_warning"    // BudgetData
	ErrorEvent       EventType = "error"             // ErrorData
	WorkflowComplete EventType = "workflow_complete" // CompleteData
)

// EventData is what an event reports; its type depends on the event's.
type EventData interface{ eventData() }

// StartData says that a run begins, or continues.
type StartData struct {
	Resumed bool `json:"resumed"`
}

// UnitData is about a unit. Which of the fields that name its place are set
// depends on the pattern; the last three are set once it is complete.
type UnitData struct {
	Unit        string     `json:"unit"`
	Agent       string     `json:"agent"`
	StepIndex   *int       `json:"step_index,omitempty"`
	TaskID      *string    `json:"task_id,omitempty"`
	WorkerIndex *int       `json:"worker_index,omitempty"`
	Task        *string    `json:"task,omitempty"` // a worker's
	NodeID      *string    `json:"node_id,omitempty"`
	Iteration   *int       `json:"iteration,omitempty"`
	Response    *string    `json:"response,omitempty"`
	Tokens      *int       `json:"tokens_estimated,omitempty"`
	Usage       *UsageData `json:"usage,omitempty"`
}

// UsageData is what a run has used so far.
type UsageData struct {
	Input  int64        `json:"input_tokens"`
	Output int64        `json:"output_tokens"`
	Cost   session.Cost `json:"cost"`
}

// BranchData is about a branch, with its result once it is complete.
type BranchData struct {
	BranchID string  `json:"branch_id"`
	Response *string `json:"response,omitempty"`
	Tokens   *int    `json:"tokens_estimated,omitempty"`
}

// RouteData names the route that was chosen.
type RouteData struct {
	Route string `json:"chosen_route"`
}

// IterationData numbers an evaluation.
type IterationData struct {
	Iteration int `json:"iteration"`
}

// QuestionData is something that a person is asked: by the spec, or by a tool
// call within a unit, which alone has a kind.
type QuestionData struct {
	Unit      string              `json:"unit"`
	Prompt    string              `json:"prompt"`
	Context   string              `json:"context_display"`
	PendingID string              `json:"pending_id,omitempty"`
	Kind      session.PendingKind `json:"kind,omitempty"`
}

// AnswerData is the answer to a question of the spec.
type AnswerData struct {
	Unit     string `json:"unit"`
	Response string `json:"response"`
	TimedOut bool   `json:"timed_out"`
}

// BudgetData is a budget that is nearly used up.
type BudgetData struct {
	Budget string  `json:"budget"`
	Used   float64 `json:"used"`
	Limit  float64 `json:"limit"`
}

// ErrorData is why a run failed.
type ErrorData struct {
	Error string `json:"error"`
	Kind  Kind   `json:"kind"`
	Unit  string `json:"unit"` // empty where it was none
}

// CompleteData is the end of a run.
type CompleteData struct {
	Status   Status `json:"status"`
	Response string `json:"response"`
}

func (StartData) eventData()     {}
func (UnitData) eventData()      {}
func (BranchData) eventData()    {}
func (RouteData) eventData()     {}
func (IterationData) eventData() {}
func (QuestionData) eventData()  {}
func (AnswerData) eventData()    {}
func (BudgetData) eventData()    {}
func (ErrorData) eventData()     {}
func (CompleteData) eventData()  {}
