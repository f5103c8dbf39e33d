package holdfast

import (
	"reflect"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Event is news from a runtime. Events are for watching, not for keeping:
// what must not be missed is read from the log with Watch. None carries the
// text of a message, a tool's input or a secret.
type Event interface {
	// Subject says which session the event is about, of which tenant, and when
	// it happened.
	Subject() About
	event()
}

// EventType lists the events that On can listen to: all there are.
type EventType interface {
	Event
	SessionLoaded | SessionSaved | SessionActionExecuted | SessionLoadFailed | SessionSaveFailed | SessionActionFailed |
		SessionAfterSaveFailed | SessionForked | SessionPurged | ExecutionStarted | StepStarted | AttemptFailed | ToolStarted |
		ToolFinished | StepFinished | ExecutionFinished | SubagentStarted | SubagentFinished | MemoryPruned | MemoryPruneFailed
}

// About is part of every event.
type About struct {
	SessionID string    `json:"sessionId"` // the one that was asked for
	Tenant    string    `json:"tenant"`
	Time      time.Time `json:"time"`
}

// Subject returns a.
func (a About) Subject() About { return a }
func (About) event()           {}

// Failure is part of every event about something that failed.
type Failure struct {
	About
	Error     string `json:"error"`
	ErrorType string `json:"errorType"`
}

// The events of sessions.
type (
	// SessionLoaded says that a session was read and its AfterLoad hooks have run.
	SessionLoaded struct {
		About
		Version int64          `json:"version"`
		Status  session.Status `json:"status"`
	}
	// SessionSaved says that a version is durable.
	SessionSaved struct {
		About
		Version int64          `json:"version"`
		Status  session.Status `json:"status"`
	}
	// SessionActionExecuted says that an action is done and about to be saved.
	SessionActionExecuted struct {
		About
		Action        string         `json:"action"`
		BeforeVersion int64          `json:"beforeVersion"`
		AfterVersion  int64          `json:"afterVersion"` // equal: nothing is saved yet
		BeforeStatus  session.Status `json:"beforeStatus"`
		AfterStatus   session.Status `json:"afterStatus"`
	}
	// SessionLoadFailed says that a session could not be loaded.
	SessionLoadFailed struct{ Failure }
	// SessionSaveFailed says that nothing was saved, or that it is unknown.
	SessionSaveFailed struct{ Failure }
	// SessionActionFailed says that nothing will be saved.
	SessionActionFailed struct {
		Failure
		Action  string        `json:"action"`
		Stage   session.Stage `json:"stage,omitempty"` // of the hook that refused
		TailSeq int64         `json:"tailSeq"`         // last change left in an open tail, 0 for none
	}
	// SessionAfterSaveFailed says that a hook failed when the version was saved.
	SessionAfterSaveFailed struct {
		Failure
		Stage   session.Stage `json:"stage"`
		Version int64         `json:"version"`
	}
	// SessionForked says that a fork was saved.
	SessionForked struct {
		About                // of the child
		ParentID      string `json:"parentId"`
		ParentVersion int64  `json:"parentVersion"`
	}
	// SessionPurged says that a session is removed for good.
	SessionPurged struct{ About }
)

// The events of executions.
type (
	// ExecutionStarted says that the agent loop begins or continues.
	ExecutionStarted struct {
		About
		ExecutionID string `json:"executionId"`
		Continued   bool   `json:"continued"`
	}
	// StepStarted says that the model is about to be asked.
	StepStarted struct {
		About
		ExecutionID string `json:"executionId"`
		StepID      string `json:"stepId"`
		Number      int    `json:"number"`
		Model       string `json:"model"`
	}
	// AttemptFailed says that the model was asked and gave no answer: it failed
	// or was interrupted. What was streamed of this attempt is void; with Retry
	// the model is asked again and the answer begins anew.
	AttemptFailed struct {
		About
		ExecutionID string `json:"executionId"`
		StepID      string `json:"stepId"`
		Attempt     int    `json:"attempt"` // from 0
		Retry       bool   `json:"retry"`
	}
	// ToolStarted says that a tool is about to run.
	ToolStarted struct {
		About
		StepID string `json:"stepId"`
		CallID string `json:"callId"`
		Tool   string `json:"tool"`
	}
	// ToolFinished says that a tool has its result.
	ToolFinished struct {
		About
		StepID  string `json:"stepId"`
		CallID  string `json:"callId"`
		Tool    string `json:"tool"`
		IsError bool   `json:"isError"`
	}
	// StepFinished says that a step is done.
	StepFinished struct {
		About
		StepID string        `json:"stepId"`
		Model  string        `json:"model"`
		Usage  session.Usage `json:"usage"`
		Cost   session.Cost  `json:"cost"`
	}
	// ExecutionFinished says how the agent loop ended.
	ExecutionFinished struct {
		About
		ExecutionID string                  `json:"executionId"`
		Status      session.ExecutionStatus `json:"status"`
		Stop        session.StopReason      `json:"stop"`
	}
	// SubagentStarted says that an agent has given work to another, or taken
	// it up again.
	SubagentStarted struct {
		About
		CallID  string `json:"callId"`
		Agent   string `json:"agent"`
		ChildID string `json:"childId"`
	}
	// SubagentFinished says that the other has ended.
	SubagentFinished struct {
		About
		CallID  string `json:"callId"`
		Agent   string `json:"agent"`
		ChildID string `json:"childId"`
		IsError bool   `json:"isError"`
	}
	// MemoryPruned says what left the window.
	MemoryPruned struct {
		About
		Strategy session.Strategy `json:"strategy"`
		From     int64            `json:"from"`
		To       int64            `json:"to"`
		Groups   int              `json:"groups"`
		Tokens   int              `json:"tokens"`
	}
	// MemoryPruneFailed says that the window stayed as it was.
	MemoryPruneFailed struct{ Failure }
)

// about is the common part of an event on a session of this view.
func (rt *Runtime) about(id string) About {
	return About{SessionID: id, Tenant: rt.who.Tenant, Time: session.Instant(rt.config.Now())}
}

func (rt *Runtime) failure(id string, err error) Failure {
	return Failure{About: rt.about(id), Error: rt.redactText(err.Error()), ErrorType: errorType(err)}
}

// errorType is the name of the first type of package session in the error, or
// "error": what other packages call their errors is no promise.
func errorType(err error) string {
	if t := typeOf(err); t.PkgPath() == typeOf(&session.InvalidError{}).PkgPath() {
		return t.Name()
	}
	var inside []error
	switch e := err.(type) { //nolint:errorlint // it looks at each error of the chain itself
	case interface{ Unwrap() []error }:
		inside = e.Unwrap()
	case interface{ Unwrap() error }:
		inside = []error{e.Unwrap()}
	}
	for _, e := range inside {
		if e == nil {
			continue
		}
		if name := errorType(e); name != "error" {
			return name
		}
	}
	return "error"
}

func typeOf(err error) reflect.Type {
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
