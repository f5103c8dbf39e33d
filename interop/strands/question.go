package strands

import (
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

const questionKey = "hitl_state"

// Question is the key hitl_state of a pattern state: what a person was asked,
// where in the pattern, and the answer once there is one. Fields that do not
// apply to the pattern are nil. All keys are always written.
type Question struct {
	Active          bool // still waits
	StepIndex       *int64
	TaskID          *string
	LayerIndex      *int64
	BranchID        *string
	StepType        *string
	NodeID          *string
	IterationIndex  *int64
	Phase           *string
	WorkerCount     *int64
	RouterReview    *bool
	Prompt          string
	ContextDisplay  string
	DefaultResponse *string
	TimeoutAt       time.Time // zero: never
	UserResponse    *string   // the empty text is an answer
	Extra           Object
}

// Question is the question of a pattern state, and whether there is one.
func (s State) Question() (Question, bool, error) {
	raw, ok := s.Pattern.Get(questionKey)
	if !ok || string(raw) == "null" {
		return Question{}, false, nil
	}
	var q Question
	if err := q.UnmarshalJSON(raw); err != nil {
		return Question{}, false, corrupt(s.Metadata.SessionID, patternFile, within(questionKey, err))
	}
	return q, true, nil
}

// SetQuestion puts a question into the pattern state.
func (s *State) SetQuestion(q Question) error {
	raw, err := session.JSON(q)
	if err != nil {
		return err
	}
	s.Pattern.Set(questionKey, raw)
	return nil
}

// MarshalJSON writes the object hitl_state.
func (q Question) MarshalJSON() ([]byte, error) {
	var w writer
	w.put("active", q.Active)
	w.put("step_index", q.StepIndex)
	w.put("task_id", q.TaskID)
	w.put("layer_index", q.LayerIndex)
	w.put("branch_id", q.BranchID)
	w.put("step_type", q.StepType)
	w.put("node_id", q.NodeID)
	w.put("iteration_index", q.IterationIndex)
	w.put("phase", q.Phase)
	w.put("worker_count", q.WorkerCount)
	w.put("router_review", q.RouterReview)
	w.put("prompt", q.Prompt)
	w.put("context_display", q.ContextDisplay)
	w.put("default_response", q.DefaultResponse)
	var timeout *string
	if !q.TimeoutAt.IsZero() {
		text := FormatTime(q.TimeoutAt)
		timeout = &text
	}
	w.put("timeout_at", timeout)
	w.put("user_response", q.UserResponse)
	return w.end(q.Extra)
}

// UnmarshalJSON reads the object hitl_state.
func (q *Question) UnmarshalJSON(data []byte) error {
	*q = Question{}
	r := read(data)
	r.need("active", &q.Active)
	r.maybe("step_index", &q.StepIndex)
	r.maybe("task_id", &q.TaskID)
	r.maybe("layer_index", &q.LayerIndex)
	r.maybe("branch_id", &q.BranchID)
	r.maybe("step_type", &q.StepType)
	r.maybe("node_id", &q.NodeID)
	r.maybe("iteration_index", &q.IterationIndex)
	r.maybe("phase", &q.Phase)
	r.maybe("worker_count", &q.WorkerCount)
	r.maybe("router_review", &q.RouterReview)
	r.maybe("prompt", &q.Prompt)
	r.maybe("context_display", &q.ContextDisplay)
	r.maybe("default_response", &q.DefaultResponse)
	r.moment("timeout_at", &q.TimeoutAt)
	r.maybe("user_response", &q.UserResponse)
	var err error
	q.Extra, err = r.rest()
	return err
}
