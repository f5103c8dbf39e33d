package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ExecutionStatus is where one run of the agent loop stands.
type ExecutionStatus string

// The statuses of an execution.
const (
	ExecutionPending    ExecutionStatus = "pending"
	ExecutionInProgress ExecutionStatus = "in_progress"
	ExecutionWaits      ExecutionStatus = "waiting" // for responses to pending calls; no process works on it
	ExecutionCompleted  ExecutionStatus = "completed"
	ExecutionStopped    ExecutionStatus = "stopped"
	ExecutionFailed     ExecutionStatus = "failed"
)

// executionStatuses lists every status.
func executionStatuses() []ExecutionStatus {
	return []ExecutionStatus{ExecutionPending, ExecutionInProgress, ExecutionWaits, ExecutionCompleted, ExecutionStopped, ExecutionFailed}
}

// StopReason is why an execution ended.
type StopReason string

// The stop reasons, in order of priority: of several signals the first here decides.
const (
	StopError         StopReason = "error"
	StopRequested     StopReason = "stop_requested"
	StopUserRequested StopReason = "user_requested"
	StopInterrupted   StopReason = "interrupted"
	StopSteps         StopReason = "steps_limit"
	StopTokens        StopReason = "token_limit"
	StopTime          StopReason = "time_limit"
	StopCost          StopReason = "cost_limit"
	StopDeadline      StopReason = "deadline"
	StopRetries       StopReason = "retry_limit"
	StopFinishReason  StopReason = "finish_reason"
	StopCompleted     StopReason = "completed"
	StopUnknown       StopReason = "unknown"
)

// StopReasons lists every reason by priority.
func StopReasons() []StopReason {
	return []StopReason{
		StopError, StopRequested, StopUserRequested, StopInterrupted, StopSteps, StopTokens, StopTime,
		StopCost, StopDeadline, StopRetries, StopFinishReason, StopCompleted, StopUnknown,
	}
}

// Status is the execution's final status under this reason.
func (r StopReason) Status() ExecutionStatus {
	switch r {
	case StopError, StopRetries:
		return ExecutionFailed
	case StopCompleted, StopFinishReason:
		return ExecutionCompleted
	}
	return ExecutionStopped
}

// Signal asks an execution to stop.
type Signal struct {
	Reason  StopReason `json:"reason"`
	Message string     `json:"message"`
	Context Values     `json:"context"`
	Source  string     `json:"source"`
}

// Primary is the signal that decides: the first by priority, ties to the earliest.
func Primary(signals []Signal) (Signal, bool) {
	rank := func(r StopReason) int {
		if i := slices.Index(StopReasons(), r); i >= 0 {
			return i
		}
		return len(StopReasons())
	}
	if len(signals) == 0 {
		return Signal{}, false
	}
	best := signals[0]
	for _, s := range signals[1:] {
		if rank(s.Reason) < rank(best.Reason) {
			best = s
		}
	}
	return best, true
}

// Failure is one error kept in an execution or a step.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// StepType says what a step was.
type StepType string

// The types of step.
const (
	StepError StepType = "error"          // the model call failed
	StepTools StepType = "tool_execution" // tools were asked for
	StepFinal StepType = "final_response"
)

func stepTypes() []StepType { return []StepType{StepError, StepTools, StepFinal} }

// ToolExecution is one tool call of a step. A nil CompletedAt means that it
// was started and has no result yet.
type ToolExecution struct {
	CallID         string     `json:"callId"`
	ToolName       string     `json:"toolName"`
	StartedAt      time.Time  `json:"startedAt"`
	CompletedAt    *time.Time `json:"completedAt"`
	IsError        bool       `json:"isError"`
	Synthetic      bool       `json:"synthetic"`
	ChildSessionID string     `json:"childSessionId"`
}

// Step is one inference and the tools it asked for. It names its messages and
// never copies them. A nil CompletedAt is a step still open.
type Step struct {
	ID             string          `json:"id"`
	Number         int             `json:"number"`
	Type           StepType        `json:"type"`
	Model          string          `json:"model"`
	StartedAt      time.Time       `json:"startedAt"`
	CompletedAt    *time.Time      `json:"completedAt"`
	FinishReason   string          `json:"finishReason"`
	Usage          Usage           `json:"usage"`
	Cost           Cost            `json:"cost"`
	MessageIDs     []string        `json:"messageIds"`
	ToolExecutions []ToolExecution `json:"toolExecutions"`
	Errors         []Failure       `json:"errors"`
	Recalled       []string        `json:"recalled,omitempty"` // passages the model was given from memory
	Reasons        []RecallReason  `json:"reasons,omitempty"`  // why, in the order of Recalled
}

// RecallReason says why memory gave the model a passage.
type RecallReason struct {
	Score   float64  `json:"score"`             // 0 to 1
	Words   []string `json:"words,omitempty"`   // of the user's message that the passage has, as they are compared
	Meaning float64  `json:"meaning,omitempty"` // score of its meaning, 0 to 1
}

// checkReasons says whether there is a reason for each passage, or none at all.
func checkReasons(recalled []string, reasons []RecallReason) error {
	if len(reasons) > 0 && len(reasons) != len(recalled) {
		return invalid("reasons", "has %d reasons for %d passages", len(reasons), len(recalled))
	}
	for _, m := range reasons {
		if !(m.Score >= 0 && m.Score <= 1 && m.Meaning >= 0 && m.Meaning <= 1) { // also no number at all
			return invalid("reasons", "has a score that is not between 0 and 1")
		}
	}
	return nil
}

// normalReasons returns a deep copy as a session keeps it.
func normalReasons(reasons []RecallReason) []RecallReason {
	reasons = slices.Clone(reasons)
	for i := range reasons {
		reasons[i].Words = cleanList(reasons[i].Words)
	}
	return reasons
}

// Execution is one run of the agent loop.
type Execution struct {
	ID            string          `json:"executionId"`
	Number        int             `json:"number"`
	Status        ExecutionStatus `json:"status"`
	StartedAt     time.Time       `json:"startedAt"`
	CompletedAt   *time.Time      `json:"completedAt"`
	ActiveSeconds float64         `json:"activeSeconds"`
	Budget        *Budget         `json:"budget"`
	Tools         []ClientTool    `json:"tools,omitempty"` // that exist for this execution only
	Steps         []Step          `json:"steps"`
	ChildSteps    int             `json:"childSteps,omitempty"` // of subagents
	Usage         Usage           `json:"usage"`
	Cost          Cost            `json:"cost"`
	Signals       []Signal        `json:"signals"`
	Stop          *Signal         `json:"stop"`
	Errors        []Failure       `json:"errors"`
	RequestID     string          `json:"requestId,omitempty"`
	RootRequestID string          `json:"rootRequestId,omitempty"`
	Recoveries    int             `json:"recoveries,omitempty"` // since somebody last asked for it
}

// Cause returns why an execution failed, as it was recorded; nil where it did
// not fail.
func (e *Execution) Cause() error {
	if e == nil || e.Status != ExecutionFailed {
		return nil
	}
	if n := len(e.Errors); n > 0 {
		return errors.New(e.Errors[n-1].Message)
	}
	return errors.New("the model failed")
}

// Open reports an execution that has not ended.
func (e *Execution) Open() bool {
	return e != nil && (e.Status == ExecutionInProgress || e.Status == ExecutionPending || e.Status == ExecutionWaits)
}

// clone is a deep copy.
func (e *Execution) clone() *Execution {
	if e == nil {
		return nil
	}
	c := *e
	c.CompletedAt, c.Budget = clonePtr(e.CompletedAt), e.Budget.clone()
	c.Steps = make([]Step, len(e.Steps))
	for i, s := range e.Steps {
		c.Steps[i] = s.clone()
	}
	c.Signals = cloneSignals(e.Signals)
	if e.Stop != nil {
		c.Stop = &cloneSignals([]Signal{*e.Stop})[0]
	}
	c.Errors, c.Tools = cloneList(e.Errors), slices.Clone(e.Tools)
	return &c
}

func (s Step) clone() Step {
	s.CompletedAt = clonePtr(s.CompletedAt)
	s.MessageIDs, s.Errors, s.Recalled = cloneList(s.MessageIDs), cloneList(s.Errors), slices.Clone(s.Recalled)
	s.Reasons = normalReasons(s.Reasons)
	s.ToolExecutions = cloneList(s.ToolExecutions)
	for i := range s.ToolExecutions {
		s.ToolExecutions[i].CompletedAt = clonePtr(s.ToolExecutions[i].CompletedAt)
	}
	return s
}

func cloneSignals(signals []Signal) []Signal {
	c := cloneList(signals)
	for i := range c {
		c[i].Context = c[i].Context.Clone()
	}
	return c
}

// cloneList copies a list that encodes as [] when it is empty.
func cloneList[T any](list []T) []T {
	return append(make([]T, 0, len(list)), list...)
}

// normal is a deep copy of an execution as a session keeps it.
func (e *Execution) normal() (*Execution, error) {
	if e == nil {
		return nil, nil
	}
	e = e.clone()
	cleanAll(&e.ID, &e.RequestID, &e.RootRequestID)
	e.StartedAt, e.CompletedAt = Instant(e.StartedAt), instantPtr(e.CompletedAt)
	if e.ID == "" || e.Number < 0 || e.ChildSteps < 0 || e.Recoveries < 0 {
		return nil, invalid("execution", "has no id or a negative number")
	}
	if err := oneOf("execution.status", e.Status, executionStatuses()); err != nil {
		return nil, err
	}
	if err := checkSpent("execution", e.Usage, e.Cost, e.ActiveSeconds); err != nil {
		return nil, err
	}
	var err error
	if e.Budget, err = e.Budget.normal(); err != nil {
		return nil, err
	}
	if e.Signals, err = normalSignals(e.Signals); err != nil {
		return nil, err
	}
	if e.Stop, err = normalStop(e.Stop); err != nil {
		return nil, err
	}
	e.Errors = normalFailures(e.Errors)
	if e.Tools, err = normalClientTools(e.Tools); err != nil {
		return nil, err
	}
	for i := range e.Steps {
		if err := e.Steps[i].normalise(); err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return e, nil
}

// normalise tidies a step that nobody else holds.
func (s *Step) normalise() error {
	cleanAll(&s.ID, &s.Model, &s.FinishReason)
	s.StartedAt, s.CompletedAt = Instant(s.StartedAt), instantPtr(s.CompletedAt)
	if s.ID == "" || s.Number < 0 {
		return invalid("execution.steps", "a step has no id or a negative number")
	}
	if err := oneOf("execution.steps.type", s.Type, stepTypes()); err != nil {
		return err
	}
	for i := range s.MessageIDs {
		cleanAll(&s.MessageIDs[i])
	}
	s.Recalled, s.Reasons = cleanList(s.Recalled), normalReasons(s.Reasons)
	for i := range s.ToolExecutions {
		t := &s.ToolExecutions[i]
		cleanAll(&t.CallID, &t.ToolName, &t.ChildSessionID)
		t.StartedAt, t.CompletedAt = Instant(t.StartedAt), instantPtr(t.CompletedAt)
	}
	s.Errors = normalFailures(s.Errors)
	return checkSpent("execution.steps", s.Usage, s.Cost, 0)
}

// normalSignals copies signals as a session keeps them.
func normalSignals(signals []Signal) ([]Signal, error) {
	c := make([]Signal, len(signals))
	for i, s := range signals {
		if err := oneOf("signal.reason", s.Reason, StopReasons()); err != nil {
			return nil, err
		}
		context, err := compactValues("signal.context", s.Context, 0)
		if err != nil {
			return nil, err
		}
		c[i] = Signal{Reason: s.Reason, Message: clean(s.Message), Context: context, Source: clean(s.Source)}
	}
	return c, nil
}

func normalStop(stop *Signal) (*Signal, error) {
	if stop == nil {
		return nil, nil
	}
	c, err := normalSignals([]Signal{*stop})
	if err != nil {
		return nil, err
	}
	return &c[0], nil
}

func normalFailures(failures []Failure) []Failure {
	c := make([]Failure, len(failures))
	for i, f := range failures {
		c[i] = Failure{Kind: clean(f.Kind), Message: clean(f.Message)}
	}
	return c
}

// Variable is one stored value of the session's own memory. Version counts
// the writes of its key, deletions included.
type Variable struct {
	Value     json.RawMessage `json:"value"`
	Labels    *Labels         `json:"labels,omitempty"`
	Deleted   bool            `json:"deleted,omitempty"` // the key is gone; its version goes on
	Version   int64           `json:"version"`
	CreatedAt time.Time       `json:"createdAt"`
	UpdatedAt time.Time       `json:"updatedAt"`
	CallID    string          `json:"callId,omitempty"` // of the tool call that wrote it, where it must do so once
}
