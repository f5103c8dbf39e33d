package session

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// TaskEvent is something that happened in a task. Its kind is its name; what
// the names mean is the business of the package that runs tasks, but those
// that carry a plan, a step, a checklist or a rule move the session's state.
type TaskEvent struct {
	Name string
	Data json.RawMessage
}

// taskEvents has the names of all events, and how those fold that move the
// state.
var taskEvents = map[string]func(*TaskState, json.RawMessage) error{
	"task_created": nil, "task_status": nil, "task_completed": nil, "task_cancelled": nil, "task_paused": nil, "task_queued": nil,
	"task_interrupted": nil, "task_resumed": nil, "executing": nil,
	"plan_created": foldPlan, "plan_revised": foldPlan,
	"step_started": foldStep, "step_completed": foldStep, "step_failed": foldStep, "step_skipped": foldStep, "step_timeout": nil,
	"tool_call": nil, "tool_result": nil, "tool_error": nil,
	"file_created": nil, "file_modified": nil, "file_deleted": nil, "artifact_created": nil,
	"llm_usage": nil, "llm_retry": nil, "llm_error": nil,
	"follow_up_delivered": nil, "step_feedback": nil, "step_feedback_ignored": nil,
	"task_list_created": foldChecklist, "task_list_updated": foldChecklist, "task_list_verification_nudged": foldChecklist,
	"continuation_decision": nil, "auto_continuation_started": nil, "auto_continuation_blocked": nil, "safety_stop_triggered": nil,
	"no_progress_circuit_breaker": nil, "step_contract_escalated": nil, "budget_reset_for_continuation": nil,
	"turn_window_soft_exhausted": nil, "budget_soft_landing": nil,
	"follow_up_turn_recovery_started": nil, "follow_up_turn_recovery_completed": nil, "follow_up_turn_recovery_blocked": nil,
	"context_compaction_started": nil, "context_compaction_completed": nil, "context_compaction_failed": nil,
	"context_capacity_recovery_started": nil, "context_capacity_recovery_completed": nil, "context_capacity_recovery_failed": nil,
	// Earlier versions wrote these where pending calls are now.
	"approval_requested": nil, "approval_granted": nil, "approval_denied": nil, "approval_expired": nil, "approval_cancelled": nil,
	"permission_rule_added": nil, "permission_rule_removed": nil, "permission_mode_changed": nil,
	"permission_granted": nil, "permission_grants_dropped": nil, "tool_blocked": nil,
	"verification_passed": nil, "verification_failed": nil, "workspace_changed": nil, "conversation_snapshot": nil, "error": nil,
}

// TaskEventNames lists the names of all events, sorted.
func TaskEventNames() []string { return slices.Sorted(maps.Keys(taskEvents)) }

// Kind is the event's name.
func (e TaskEvent) Kind() string { return e.Name }

// MarshalJSON writes what the event says.
func (e TaskEvent) MarshalJSON() ([]byte, error) { return e.Data, nil }

func (e TaskEvent) normal() (Change, error) {
	fold, known := taskEvents[e.Name]
	if !known {
		return nil, &NewerFormatError{What: "task event", Have: quoted(e.Name), Know: strings.Join(TaskEventNames(), ", ")}
	}
	data, err := compact(e.Name, e.Data)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 || data[0] != '{' {
		return nil, invalid(e.Name, "is not an object")
	}
	if fold, ok := permissionFolds[e.Name]; ok {
		if err := fold(&Permissions{}, data); err != nil {
			return nil, err
		}
	}
	if fold != nil { // what cannot be folded is refused before it is in a log
		probe := NewTaskState()
		if err := fold(&probe, data); err != nil {
			return nil, err
		}
	}
	return TaskEvent{Name: e.Name, Data: data}, nil
}

func (e TaskEvent) fold(b *body, t recordTime) error {
	if fold, ok := permissionFolds[e.Name]; ok {
		return b.foldPermission(fold, e, t)
	}
	if b.info.Kind != KindTask {
		return invalid("kind", "%s is no change of a session of kind %s", e.Name, b.info.Kind)
	}
	next := b.taskState()
	if fold := taskEvents[e.Name]; fold != nil {
		if err := fold(next, e.Data); err != nil {
			return err
		}
	}
	b.setTask(next)
	return nil
}

// taskState is a shallow copy of the state: what a fold replaces it replaces
// whole.
func (b *body) taskState() *TaskState {
	if b.st.Task == nil {
		s := NewTaskState()
		return &s
	}
	c := *b.st.Task
	return &c
}

func (b *body) setTask(s *TaskState) {
	n := s.normal()
	b.st.Task = &n
}

func readEvent(data json.RawMessage, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return decodeProblem("event", err)
	}
	return nil
}

// part is what an event carries under a name.
func part[T any](data json.RawMessage, name string) (*T, error) {
	var parts map[string]json.RawMessage
	if err := readEvent(data, &parts); err != nil {
		return nil, err
	}
	var value *T
	if raw, ok := parts[name]; ok {
		if err := readEvent(raw, &value); err != nil {
			return nil, err
		}
	}
	if value == nil {
		return nil, invalid(name, "is missing")
	}
	return value, nil
}

func foldPlan(s *TaskState, data json.RawMessage) error {
	plan, err := part[Plan](data, "plan")
	if err != nil {
		return err
	}
	if err := plan.check(); err != nil {
		return err
	}
	s.Plan = plan
	return nil
}

// foldStep replaces a step of the plan; one that is not in it changes nothing.
func foldStep(s *TaskState, data json.RawMessage) error {
	step, err := part[PlanStep](data, "step")
	if err != nil {
		return err
	}
	if step.ID == "" {
		return invalid("step", "has no id")
	}
	if s.Plan == nil {
		return nil
	}
	plan := Plan{Description: s.Plan.Description, Steps: slices.Clone(s.Plan.Steps)}
	for i := range plan.Steps {
		if plan.Steps[i].ID == step.ID {
			plan.Steps[i] = *step
		}
	}
	s.Plan = &plan
	return nil
}

func foldChecklist(s *TaskState, data json.RawMessage) error {
	checklist, err := part[Checklist](data, "checklist")
	if err != nil {
		return err
	}
	s.Checklist = *checklist
	return nil
}

// TaskProjection is what the row of a task shows of its state.
type TaskProjection struct {
	BudgetUsage                BudgetUsage `json:"budgetUsage"`
	ContinuationCount          int         `json:"continuationCount"`
	ContinuationWindow         int         `json:"continuationWindow"`
	LifetimeTurnsUsed          int         `json:"lifetimeTurnsUsed"`
	CompactionCount            int         `json:"compactionCount"`
	LastCompactionAt           int64       `json:"lastCompactionAt,omitempty"`
	LastCompactionTokensBefore int64       `json:"lastCompactionTokensBefore,omitempty"`
	LastCompactionTokensAfter  int64       `json:"lastCompactionTokensAfter,omitempty"`
	NoProgressStreak           int         `json:"noProgressStreak"`
	LastLoopFingerprint        string      `json:"lastLoopFingerprint,omitempty"`
	StepsDone                  int         `json:"stepsDone,omitempty"` // of the plan
	Steps                      int         `json:"steps,omitempty"`
	ItemsDone                  int         `json:"itemsDone,omitempty"` // of the checklist
	Items                      int         `json:"items,omitempty"`
	Cost                       Cost        `json:"cost,omitempty"`
}

// BudgetUsage is what a task has used of its budgets of turns and calls.
type BudgetUsage struct {
	Turns             int `json:"turns"`
	LifetimeTurns     int `json:"lifetimeTurns"`
	ToolCalls         int `json:"toolCalls"`
	WebSearchCalls    int `json:"webSearchCalls"`
	DuplicatesBlocked int `json:"duplicatesBlocked"`
}

// Projection is what the row shows of this state.
func (s *TaskState) Projection() TaskProjection {
	l := s.Loop
	p := TaskProjection{
		BudgetUsage:       BudgetUsage{Turns: l.Turns, LifetimeTurns: l.LifetimeTurns},
		ContinuationCount: l.Continuations, ContinuationWindow: l.Window, LifetimeTurnsUsed: l.LifetimeTurns,
		CompactionCount: l.Compactions, LastCompactionAt: l.CompactedAt, LastCompactionTokensBefore: l.TokensBefore,
		LastCompactionTokensAfter: l.TokensAfter, NoProgressStreak: l.NoProgress, LastLoopFingerprint: l.Fingerprint,
	}
	p.Cost = Dollars(s.Usage.Cost + s.Usage.EarlierCost)
	if s.Plan != nil {
		p.Steps = len(s.Plan.Steps)
		for _, step := range s.Plan.Steps {
			if step.Status == "completed" || step.Status == "skipped" {
				p.StepsDone++
			}
		}
	}
	p.Items = len(s.Checklist.Items)
	for _, item := range s.Checklist.Items {
		if item.Status == "completed" {
			p.ItemsDone++
		}
	}
	if c := s.Tools.Counts; c != nil {
		p.BudgetUsage.ToolCalls, p.BudgetUsage.WebSearchCalls, p.BudgetUsage.DuplicatesBlocked = c.ToolCalls, c.WebSearchCalls, c.DuplicatesBlocked
	}
	return p
}
