package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// State is what a run shows of itself: the fold of its log. Pattern is what the pattern has done so far.
type State struct {
	Metadata  Metadata            `json:"metadata"`
	Variables spec.Map[string]    `json:"variables"`
	Runtime   json.RawMessage     `json:"runtime_config"`
	Usage     TokenUsage          `json:"token_usage"`
	Artifacts []string            `json:"artifacts_written"`
	Pattern   spec.Map[any]       `json:"-"`
	Agents    map[string]AgentUse `json:"-"`
	Final     string              `json:"-"` // the last response, once there is one
	Agent     string              `json:"-"` // who gave it
	Open      []HITLState         `json:"-"` // the questions that wait, of the spec and then of agents

	Waiting []session.PendingCall `json:"-"` // everything that waits for a response
}

// AgentUse is what an agent's models have used.
type AgentUse = session.AgentUse

// Metadata is the head of a State.
type Metadata struct {
	SessionID    string           `json:"session_id"`
	WorkflowName string           `json:"workflow_name"`
	SpecHash     string           `json:"spec_hash"`
	PatternType  spec.PatternType `json:"pattern_type"`
	Status       Status           `json:"status"`
	CreatedAt    string           `json:"created_at"`
	UpdatedAt    string           `json:"updated_at"`
	Error        *string          `json:"error"`
	Metadata     spec.Map[any]    `json:"metadata"`
}

// TokenUsage is what all calls of a run have used.
type TokenUsage struct {
	Input   int64            `json:"total_input_tokens"`
	Output  int64            `json:"total_output_tokens"`
	ByAgent map[string]int64 `json:"by_agent"`
}

// HITLState is a question to a person, as the state of a run shows it.
type HITLState struct {
	Active          bool    `json:"active"`
	StepIndex       *int    `json:"step_index"`
	TaskID          *string `json:"task_id"`
	LayerIndex      *int    `json:"layer_index"`
	BranchID        *string `json:"branch_id"`
	StepType        *string `json:"step_type"`
	NodeID          *string `json:"node_id"`
	IterationIndex  *int    `json:"iteration_index"`
	Phase           *string `json:"phase"`
	WorkerCount     *int    `json:"worker_count"`
	RouterReview    *bool   `json:"router_review"`
	Prompt          string  `json:"prompt"`
	ContextDisplay  string  `json:"context_display"`
	DefaultResponse *string `json:"default_response"`
	TimeoutAt       *string `json:"timeout_at"`
	UserResponse    *string `json:"user_response"`

	Unit      string   `json:"-"` // where it is asked
	PendingID string   `json:"-"` // of the pending call that it is
	Choices   []string `json:"-"` // the answers it takes; empty: any
}

// Project returns the state of a run. The session must be whole: it is read with
// Get(ctx, id, Whole(), WithTail()), or with At for what it was.
func Project(s session.Session) (*State, error) {
	if err := checkRun(s); err != nil {
		return nil, err
	}
	r, err := readRun(s)
	if err != nil {
		return nil, err
	}
	return r.project(s)
}

// checkRun refuses a session that is no run, or that was not read whole.
func checkRun(s session.Session) error {
	if s.Workflow() == nil {
		return &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%q is no workflow run", s.ID())}
	}
	if s.Partial() {
		return &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%q was not read whole", s.ID())}
	}
	return nil
}

// project replays what the log has; nobody is asked.
func (r *run) project(s session.Session) (*State, error) {
	p, end, err := r.replay(context.Background())
	if err != nil && !unfinished(err) {
		r.warn("the state of run %q is not whole: %v", s.ID(), err) // say, a condition that fails: the run says so too
	}
	info, w := s.Info(), s.Workflow()
	st := &State{
		Metadata: Metadata{
			SessionID: s.ID(), WorkflowName: r.spec.Name, SpecHash: r.snap.SHA256, PatternType: r.spec.Pattern.Type, Status: StatusRunning,
			CreatedAt: iso8601(info.CreatedAt), UpdatedAt: iso8601(updated(s)), Metadata: r.timeoutMarks(),
		},
		Variables: r.vars, Runtime: r.index.runtime, Artifacts: w.Artifacts, Agents: w.Agents,
		Usage: usageOf(w), Pattern: p.state(), Final: end.text, Agent: end.agent, Open: r.openQuestions(s), Waiting: waitingCalls(s),
	}
	if row := info.Workflow; row != nil {
		st.Metadata.Status = Status(row.Status)
		if row.Error != "" {
			st.Metadata.Error = &row.Error
		}
	}
	if st.Metadata.Status == StatusCompleted && r.single() {
		st.Pattern = spec.Map[any]{}
	}
	for _, m := range r.timeoutMarks() {
		st.Pattern = st.Pattern.With(m.Name, m.Value)
	}
	return st, r.withExtra(st)
}

// updated returns when a run last changed.
func updated(s session.Session) time.Time {
	if at := s.ChangedAt(); at.After(s.Info().UpdatedAt) {
		return at
	}
	return s.Info().UpdatedAt
}

func usageOf(w *session.Workflow) TokenUsage {
	u := TokenUsage{ByAgent: map[string]int64{}}
	for agent, use := range w.Agents {
		u.Input += use.Input
		u.Output += use.Output
		u.ByAgent[agent] = use.Input + use.Output
	}
	return u
}

// timeoutMarks say that a question was answered by nobody in time.
func (r *run) timeoutMarks() spec.Map[any] {
	q := r.index.timedOut
	if q == nil {
		return spec.Map[any]{}
	}
	return spec.Map[any]{
		{Name: "hitl_timeout_occurred", Value: true},
		{Name: "hitl_timeout_at", Value: iso8601(*q.ExpiresAt)},
		{Name: "hitl_default_used", Value: *q.answer},
	}
}

// withExtra adds the keys that an imported run came with.
func (r *run) withExtra(st *State) error {
	if r.index.begun.Extra == nil {
		return nil
	}
	var extra map[string]json.RawMessage
	if err := json.Unmarshal(r.index.begun.Extra, &extra); err != nil {
		return fmt.Errorf("read what came with the run: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if !st.Pattern.Has(name) {
			st.Pattern = st.Pattern.With(name, extra[name])
		}
	}
	return nil
}
