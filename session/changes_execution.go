package session

import (
	"slices"
	"time"
)

// ExecutionStarted begins a run of the agent loop.
type ExecutionStarted struct {
	ExecutionID   string       `json:"executionId"`
	Budget        *Budget      `json:"budget"`
	Tools         []ClientTool `json:"tools,omitempty"` // that exist for this execution only
	RequestID     string       `json:"requestId,omitempty"`
	RootRequestID string       `json:"rootRequestId,omitempty"`
}

// Kind is execution_started.
func (ExecutionStarted) Kind() string { return "execution_started" }

func (c ExecutionStarted) normal() (Change, error) {
	cleanAll(&c.ExecutionID, &c.RequestID, &c.RootRequestID)
	if c.ExecutionID == "" {
		return nil, invalid("executionId", "is missing")
	}
	var err error
	if c.Tools, err = normalClientTools(c.Tools); err != nil {
		return nil, err
	}
	c.Budget, err = c.Budget.normal()
	return c, err
}

func (c ExecutionStarted) fold(b *body, t recordTime) error {
	if b.st.Execution.Open() {
		return invalid("execution", "%s is still open", quoted(b.st.Execution.ID))
	}
	b.st.ExecutionCount++
	b.st.Execution = &Execution{
		ID: c.ExecutionID, Number: b.st.ExecutionCount, Status: ExecutionInProgress, StartedAt: t.at, Budget: c.Budget, Tools: c.Tools,
		Steps: []Step{}, Signals: []Signal{}, Errors: []Failure{}, RequestID: c.RequestID, RootRequestID: c.RootRequestID,
	}
	return nil
}

// ExecutionContinued says that an interrupted execution was taken up again.
type ExecutionContinued struct {
	Recovery bool `json:"recovery,omitempty"` // nobody asked for it: a process took up what another left
	Retry    bool `json:"retry,omitempty"`    // somebody asked for it; an execution that failed is open again
}

// Kind is execution_continued.
func (ExecutionContinued) Kind() string { return "execution_continued" }

func (c ExecutionContinued) normal() (Change, error) {
	if c.Recovery && c.Retry {
		return nil, invalid("execution_continued", "is either a recovery or a retry")
	}
	return c, nil
}

func (c ExecutionContinued) fold(b *body, _ recordTime) error {
	e := b.st.Execution
	failed := e != nil && e.Status == ExecutionFailed && c.Retry
	if !e.Open() && !failed {
		return invalid("execution", "there is none to continue")
	}
	if e.Status == ExecutionInProgress && !c.Recovery && e.Recoveries == 0 {
		return nil
	}
	next := *e
	next.Status, next.Recoveries = ExecutionInProgress, 0
	if c.Recovery {
		next.Recoveries = e.Recoveries + 1
	}
	if failed {
		next.Stop, next.CompletedAt, next.Signals = nil, nil, []Signal{}
	}
	b.st.Execution = &next
	return nil
}

// InferenceAnswered opens a step: the model has answered. The message follows
// in the same append.
type InferenceAnswered struct {
	StepID        string    `json:"stepId"`
	Model         string    `json:"model"`
	StartedAt     time.Time `json:"startedAt"`
	FinishReason  string    `json:"finishReason"`
	Usage         Usage     `json:"usage"`
	Cost          Cost      `json:"cost"`
	ActiveSeconds float64   `json:"activeSeconds"`
	Recalled      []string  `json:"recalled,omitempty"` // passages the model was given from memory

	Reasons []RecallReason `json:"reasons,omitempty"` // why, in the order of Recalled
}

// Kind is inference_answered.
func (InferenceAnswered) Kind() string { return "inference_answered" }

func (c InferenceAnswered) normal() (Change, error) {
	cleanAll(&c.StepID, &c.Model, &c.FinishReason)
	if c.StepID == "" {
		return nil, invalid("stepId", "is missing")
	}
	c.StartedAt = Instant(c.StartedAt)
	c.Recalled, c.Reasons = cleanList(c.Recalled), normalReasons(c.Reasons)
	if err := checkReasons(c.Recalled, c.Reasons); err != nil {
		return nil, err
	}
	return c, checkSpent("inference", c.Usage, c.Cost, c.ActiveSeconds)
}

func (c InferenceAnswered) fold(b *body, _ recordTime) error {
	b.st.InferenceCount++
	b.st.Usage, b.st.Cost = b.st.Usage.Plus(c.Usage), plus(b.st.Cost, c.Cost)
	return b.updateExecution(func(e *Execution) error {
		e.Usage, e.Cost = e.Usage.Plus(c.Usage), plus(e.Cost, c.Cost)
		e.ActiveSeconds = c.ActiveSeconds
		e.Steps = append(e.Steps, Step{
			ID: c.StepID, Number: len(e.Steps) + 1, Type: StepFinal, Model: c.Model, StartedAt: c.StartedAt,
			FinishReason: c.FinishReason, Usage: c.Usage, Cost: c.Cost, Recalled: slices.Clone(c.Recalled), Reasons: normalReasons(c.Reasons),
			MessageIDs: []string{}, ToolExecutions: []ToolExecution{}, Errors: []Failure{},
		})
		return nil
	})
}

// InferenceFailed is a step whose model call was given up.
type InferenceFailed struct {
	StepID        string    `json:"stepId"`
	Model         string    `json:"model"`
	StartedAt     time.Time `json:"startedAt"`
	Errors        []Failure `json:"errors"`
	ActiveSeconds float64   `json:"activeSeconds"`
}

// Kind is inference_failed.
func (InferenceFailed) Kind() string { return "inference_failed" }

func (c InferenceFailed) normal() (Change, error) {
	cleanAll(&c.StepID, &c.Model)
	if c.StepID == "" {
		return nil, invalid("stepId", "is missing")
	}
	c.StartedAt, c.Errors = Instant(c.StartedAt), normalFailures(c.Errors)
	return c, checkSpent("inference", Usage{}, 0, c.ActiveSeconds)
}

func (c InferenceFailed) fold(b *body, t recordTime) error {
	b.st.InferenceCount++
	return b.updateExecution(func(e *Execution) error {
		e.ActiveSeconds = c.ActiveSeconds
		e.Errors = append(e.Errors, c.Errors...)
		e.Steps = append(e.Steps, Step{
			ID: c.StepID, Number: len(e.Steps) + 1, Type: StepError, Model: c.Model, StartedAt: c.StartedAt, CompletedAt: &t.at,
			MessageIDs: []string{}, ToolExecutions: []ToolExecution{}, Errors: c.Errors,
		})
		return nil
	})
}

// ToolStarted says that a tool call is about to run.
type ToolStarted struct {
	StepID   string `json:"stepId"`
	CallID   string `json:"callId"`
	ToolName string `json:"toolName"`
}

// Kind is tool_started.
func (ToolStarted) Kind() string { return "tool_started" }

func (c ToolStarted) normal() (Change, error) {
	cleanAll(&c.StepID, &c.CallID, &c.ToolName)
	return c, nil
}

// A call that runs again after a crash keeps its one entry.
func (c ToolStarted) fold(b *body, t recordTime) error {
	return b.updateStep(c.StepID, func(s *Step) error {
		s.Type = StepTools
		for i := range s.ToolExecutions {
			if s.ToolExecutions[i].CallID == c.CallID && s.ToolExecutions[i].CompletedAt == nil {
				s.ToolExecutions[i].StartedAt = t.at
				return nil
			}
		}
		s.ToolExecutions = append(s.ToolExecutions, ToolExecution{CallID: c.CallID, ToolName: c.ToolName, StartedAt: t.at})
		return nil
	})
}

// ToolFinished ends a tool call. Its result message stands in the same append.
type ToolFinished struct {
	StepID         string  `json:"stepId"`
	CallID         string  `json:"callId"`
	ToolName       string  `json:"toolName"`
	IsError        bool    `json:"isError"`
	Synthetic      bool    `json:"synthetic"`
	ChildSessionID string  `json:"childSessionId,omitempty"`
	ActiveSeconds  float64 `json:"activeSeconds"`
	Spent          *Spent  `json:"spent,omitempty"` // by an agent that the tool ran
}

// Spent is what an agent used that ran inside a tool. It counts in the budget
// of the execution that called it and in the usage of its session.
type Spent struct {
	Steps int   `json:"steps"`
	Usage Usage `json:"usage"`
	Cost  Cost  `json:"cost"`
}

// Kind is tool_finished.
func (ToolFinished) Kind() string { return "tool_finished" }

func (c ToolFinished) normal() (Change, error) {
	cleanAll(&c.StepID, &c.CallID, &c.ToolName, &c.ChildSessionID)
	c.Spent = clonePtr(c.Spent)
	if c.Spent == nil {
		return c, checkSpent("tool", Usage{}, 0, c.ActiveSeconds)
	}
	if c.Spent.Steps < 0 {
		return nil, invalid("tool.spent.steps", "%d is negative", c.Spent.Steps)
	}
	return c, checkSpent("tool.spent", c.Spent.Usage, c.Spent.Cost, c.ActiveSeconds)
}

// A result for a call that never started gets an entry of no length.
func (c ToolFinished) fold(b *body, t recordTime) error {
	if c.Spent != nil {
		b.st.Usage, b.st.Cost = b.st.Usage.Plus(c.Spent.Usage), plus(b.st.Cost, c.Spent.Cost)
	}
	b.dropPending(func(p PendingCall) bool { return p.Unit == "" && p.CallID == c.CallID })
	err := b.updateExecution(func(e *Execution) error {
		e.ActiveSeconds = c.ActiveSeconds
		if c.Spent != nil {
			e.ChildSteps += c.Spent.Steps
			e.Usage, e.Cost = e.Usage.Plus(c.Spent.Usage), plus(e.Cost, c.Spent.Cost)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.updateStep(c.StepID, func(s *Step) error {
		s.Type = StepTools
		done := ToolExecution{
			CallID: c.CallID, ToolName: c.ToolName, StartedAt: t.at, CompletedAt: &t.at,
			IsError: c.IsError, Synthetic: c.Synthetic, ChildSessionID: c.ChildSessionID,
		}
		for i := range s.ToolExecutions {
			if s.ToolExecutions[i].CallID == c.CallID && s.ToolExecutions[i].CompletedAt == nil {
				done.StartedAt = s.ToolExecutions[i].StartedAt
				s.ToolExecutions[i] = done
				return nil
			}
		}
		s.ToolExecutions = append(s.ToolExecutions, done)
		return nil
	})
}

// StepFinished closes a step.
type StepFinished struct {
	StepID        string    `json:"stepId"`
	Type          StepType  `json:"type"`
	Signals       []Signal  `json:"signals"`
	Errors        []Failure `json:"errors"`
	ActiveSeconds float64   `json:"activeSeconds"`
}

// Kind is step_finished.
func (StepFinished) Kind() string { return "step_finished" }

func (c StepFinished) normal() (Change, error) {
	var err error
	if c.Signals, err = normalSignals(c.Signals); err != nil {
		return nil, err
	}
	cleanAll(&c.StepID)
	c.Errors = normalFailures(c.Errors)
	if err := checkSpent("step", Usage{}, 0, c.ActiveSeconds); err != nil {
		return nil, err
	}
	return c, oneOf("type", c.Type, stepTypes())
}

func (c StepFinished) fold(b *body, t recordTime) error {
	err := b.updateExecution(func(e *Execution) error {
		e.ActiveSeconds, e.Signals = c.ActiveSeconds, append(e.Signals, c.Signals...)
		return nil
	})
	if err != nil {
		return err
	}
	return b.updateStep(c.StepID, func(s *Step) error {
		s.Type, s.CompletedAt, s.Errors = c.Type, &t.at, append(s.Errors, c.Errors...)
		return nil
	})
}

// ExecutionFinished ends a run of the agent loop.
type ExecutionFinished struct {
	Status        ExecutionStatus `json:"status"`
	Stop          *Signal         `json:"stop"`
	Signals       []Signal        `json:"signals"` // those not yet in a step
	Errors        []Failure       `json:"errors"`
	ActiveSeconds float64         `json:"activeSeconds"`
}

// Kind is execution_finished.
func (ExecutionFinished) Kind() string { return "execution_finished" }

func (c ExecutionFinished) normal() (Change, error) {
	var err error
	if c.Signals, err = normalSignals(c.Signals); err != nil {
		return nil, err
	}
	if c.Stop, err = normalStop(c.Stop); err != nil {
		return nil, err
	}
	c.Errors = normalFailures(c.Errors)
	if err := checkSpent("execution", Usage{}, 0, c.ActiveSeconds); err != nil {
		return nil, err
	}
	return c, oneOf("status", c.Status, []ExecutionStatus{ExecutionCompleted, ExecutionStopped, ExecutionFailed})
}

func (c ExecutionFinished) fold(b *body, t recordTime) error {
	b.dropPending(func(p PendingCall) bool { return p.Unit == "" })
	return b.updateExecution(func(e *Execution) error {
		e.Status, e.Stop, e.CompletedAt, e.ActiveSeconds = c.Status, c.Stop, &t.at, c.ActiveSeconds
		e.Signals, e.Errors = append(e.Signals, c.Signals...), append(e.Errors, c.Errors...)
		return nil
	})
}

// updateExecution changes a copy of the running execution that shares its
// steps with the old one.
func (b *body) updateExecution(update func(*Execution) error) error {
	if !b.st.Execution.Open() {
		return invalid("execution", "none is running")
	}
	e := *b.st.Execution
	e.Steps, e.Signals, e.Errors = slices.Clip(e.Steps), slices.Clip(e.Signals), slices.Clip(e.Errors)
	b.st.Execution = &e
	return update(&e)
}

// updateStep changes a copy of one step of the running execution.
func (b *body) updateStep(id string, update func(*Step) error) error {
	return b.updateExecution(func(e *Execution) error {
		for i := len(e.Steps) - 1; i >= 0; i-- {
			if e.Steps[i].ID == id {
				e.Steps = slices.Clone(e.Steps)
				e.Steps[i] = e.Steps[i].clone()
				return update(&e.Steps[i])
			}
		}
		return invalid("stepId", "the running execution has no step %s", quoted(id))
	})
}

// has reports an open execution with that step.
func (e *Execution) has(stepID string) bool {
	return e.Open() && slices.ContainsFunc(e.Steps, func(s Step) bool { return s.ID == stepID })
}
