package workflow

import (
	"context"
	"os"
	"sync"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Host is what a run borrows from the program it runs in. Models is required.
type Host struct {
	// Models finds the model of an agent, and the name to show for it.
	Models func(m spec.Model) (name string, model llm.Model, err error)
	// Env is what there is to run with; its zero value has no environment.
	Env spec.Env
	// Tools makes the tools of a run. Nil: there are none.
	Tools func(ctx context.Context, s *spec.Spec, snap *spec.Snapshot) (Toolbox, error)
	// AllowPrivate are hosts with their ports that HTTP executors of a changed
	// spec may reach although they are not public.
	AllowPrivate []string
	// WorkDir is where relative paths of notes lie; empty: the working directory.
	WorkDir string

	// Those that follow are called by one goroutine at a time. Each may be nil.

	OnEvent  func(Event)                      // what has happened, after it was written
	OnUpdate func(holdfast.Update)            // changes after they were written, pieces of answers as they come
	Warn     func(format string, args ...any) // what does not stop a run

	Now func() time.Time // nil: the machine's clock
}

// Toolbox has the tools of a run.
type Toolbox interface {
	// For are the tools of a unit, by the names its spec lists; where it has no
	// list, all there are and those named. Loaded tells which skills the conversation has
	// already.
	For(names []string, listed bool, loaded func(skill string) bool) ([]tool.Tool, error)
	// Close ends what the box has started.
	Close() error
}

// filled is the host with what is missing, for one run: units that work at the
// same time tell their news one after the other.
func (h Host) filled() Host {
	event, update, warn := h.OnEvent, h.OnUpdate, h.Warn
	var mu sync.Mutex
	inTurn := func(tell func()) {
		mu.Lock()
		defer mu.Unlock()
		tell()
	}
	h.OnEvent, h.OnUpdate, h.Warn = func(Event) {}, func(holdfast.Update) {}, func(string, ...any) {}
	if event != nil {
		h.OnEvent = func(e Event) { inTurn(func() { event(e) }) }
	}
	if update != nil {
		h.OnUpdate = func(u holdfast.Update) { inTurn(func() { update(u) }) }
	}
	if warn != nil {
		h.Warn = func(format string, args ...any) { inTurn(func() { warn(format, args...) }) }
	}
	if h.Now == nil {
		h.Now = time.Now
	}
	if h.WorkDir == "" {
		if dir, err := os.Getwd(); err == nil {
			h.WorkDir = dir
		}
	}
	return h
}

// Event is news of a run. It is told after the commit it reports.
type Event struct {
	Type      EventType        `json:"event_type"`
	Timestamp string           `json:"timestamp"`
	SessionID string           `json:"session_id"`
	SpecName  string           `json:"spec_name"`
	Pattern   spec.PatternType `json:"pattern_type"`
	Data      map[string]any   `json:"data"`
}

// EventType is what an event is about.
type EventType string

// The types of events. A unit that is no step, task, worker or node is told as
// a step; its key is always in the data.
const (
	WorkflowStart    EventType = "workflow_start"
	StepStart        EventType = "step_start"
	StepComplete     EventType = "step_complete"
	TaskStart        EventType = "task_start"
	TaskComplete     EventType = "task_complete"
	BranchStart      EventType = "branch_start"
	BranchComplete   EventType = "branch_complete"
	RoutingDecision  EventType = "routing_decision"
	IterationStart   EventType = "iteration_start"
	WorkerStart      EventType = "worker_start"
	WorkerComplete   EventType = "worker_complete"
	NodeStart        EventType = "node_start"
	NodeComplete     EventType = "node_complete"
	HITLPause        EventType = "hitl_pause"
	HITLAnswer       EventType = "hitl_answer"
	BudgetWarning    EventType = "budget_warning"
	ErrorEvent       EventType = "error"
	WorkflowComplete EventType = "workflow_complete"
)
