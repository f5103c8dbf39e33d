package session

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// State is what an agent has done: the fold of the session's log.
type State struct {
	AgentID        string              `json:"agentId"`
	ParentAgentID  string              `json:"parentAgentId"`
	CreatedAt      time.Time           `json:"createdAt"`
	UpdatedAt      time.Time           `json:"updatedAt"` // time of the last change folded
	SystemPrompt   string              `json:"systemPrompt"`
	Model          string              `json:"model"`       // override; empty: the definition's
	ModelParams    *ModelParams        `json:"modelParams"` // override; nil: the definition's
	ResponseFormat *ResponseFormat     `json:"responseFormat"`
	Metadata       Values              `json:"metadata"`
	Variables      map[string]Variable `json:"variables"`
	Messages       []Message           `json:"messages"`
	Partial        bool                `json:"partial"` // Messages lacks some of the transcript
	Window         Window              `json:"window"`
	TraceCount     *int                `json:"traceCount,omitempty"` // messages of the transcript that are traces; nil: nobody counted them
	ExecutionCount int                 `json:"executionCount"`
	InferenceCount int                 `json:"inferenceCount"` // answered or given up
	Execution      *Execution          `json:"execution"`
	Pending        []PendingCall       `json:"pending,omitempty"`     // calls that wait for a response, and approved ones that have not run
	Responses      []Response          `json:"responses,omitempty"`   // the last ones, so that a repeated response is known
	Permissions    *Permissions        `json:"permissions,omitempty"` // nil: nothing was set or asked yet
	Task           *TaskState          `json:"task"`
	Workflow       *Workflow           `json:"workflow"`
	Titled         bool                `json:"titled,omitempty"` // a model was asked for a title and has answered
	Usage          Usage               `json:"usage"`
	Cost           Cost                `json:"cost"`
}

// Window is the part of the transcript the model is shown: the messages named
// in Keep, the summary, then everything from FromSeq on.
type Window struct {
	FromSeq int64    `json:"fromSeq"` // start of a group; 0: the whole transcript
	Keep    []int64  `json:"keep"`    // system and developer messages before FromSeq
	Summary *Summary `json:"summary"`
}

// Summary stands in for messages that left the window.
type Summary struct {
	Text      string    `json:"text"`
	FromSeq   int64     `json:"fromSeq"`
	ToSeq     int64     `json:"toSeq"`
	Model     string    `json:"model"`
	Usage     Usage     `json:"usage"`
	Cost      Cost      `json:"cost"`
	CreatedAt time.Time `json:"createdAt"`
}

func (w Window) clone() Window {
	w.Keep, w.Summary = cloneList(w.Keep), clonePtr(w.Summary)
	return w
}

// normal is a deep copy as a session keeps it.
func (w Window) normal() (Window, error) {
	w = w.clone()
	if w.FromSeq < 0 {
		return w, invalid("window.fromSeq", "%d is negative", w.FromSeq)
	}
	s := w.Summary
	if s == nil {
		return w, nil
	}
	cleanAll(&s.Text, &s.Model)
	s.CreatedAt = Instant(s.CreatedAt)
	return w, checkSpent("window.summary", s.Usage, s.Cost, 0)
}

// clone is a deep copy.
func (s State) clone() State {
	s.ModelParams, s.ResponseFormat = s.ModelParams.clone(), s.ResponseFormat.clone()
	s.TraceCount = clonePtr(s.TraceCount)
	s.Metadata, s.Variables = s.Metadata.Clone(), cloneVariables(s.Variables)
	messages := make([]Message, len(s.Messages))
	for i, m := range s.Messages {
		messages[i] = m.Clone()
	}
	s.Messages = messages
	s.Window, s.Execution = s.Window.clone(), s.Execution.clone()
	s.Task, s.Workflow, s.Pending = s.Task.Clone(), s.Workflow.clone(), clonePending(s.Pending)
	s.Responses = cloneResponses(s.Responses)
	if s.Permissions != nil {
		p := s.Permissions.Clone()
		s.Permissions = &p
	}
	return s
}

func cloneVariables(vars map[string]Variable) map[string]Variable {
	c := make(map[string]Variable, len(vars))
	for k, v := range vars {
		v.Value, v.Labels = bytes.Clone(v.Value), v.Labels.Clone()
		c[k] = v
	}
	return c
}

// normal is a deep copy of a state as a session keeps it, messages apart.
func (s State) normal() (State, error) {
	messages := s.Messages
	s.Messages = nil
	if s.Task != nil && s.Task.earlier != nil && s.Permissions == nil {
		s.Permissions = s.Task.earlier
	}
	s = s.clone()
	s.Messages = messages
	cleanAll(&s.ParentAgentID, &s.SystemPrompt, &s.Model)
	s.CreatedAt, s.UpdatedAt = Instant(s.CreatedAt), Instant(s.UpdatedAt)
	if err := checkToken("agentId", s.AgentID); err != nil {
		return s, err
	}
	if s.ExecutionCount < 0 || s.InferenceCount < 0 {
		return s, invalid("state", "executionCount and inferenceCount are not negative")
	}
	if s.TraceCount != nil && *s.TraceCount < 0 {
		return s, invalid("state.traceCount", "%d is negative", *s.TraceCount)
	}
	if err := checkSpent("state", s.Usage, s.Cost, 0); err != nil {
		return s, err
	}
	var err error
	if s.ModelParams, err = s.ModelParams.normal(); err != nil {
		return s, err
	}
	if s.ResponseFormat, err = s.ResponseFormat.normal(); err != nil {
		return s, err
	}
	if s.Window, err = s.Window.normal(); err != nil {
		return s, err
	}
	if s.Execution, err = s.Execution.normal(); err != nil {
		return s, err
	}
	if s.Workflow, err = s.Workflow.normal(); err != nil {
		return s, err
	}
	if w := s.Workflow; w != nil {
		for _, q := range w.questions {
			call := q.Call()
			call.AskedAt = s.UpdatedAt
			s.Pending = append(s.Pending, call)
		}
		w.questions = nil
	}
	for i, p := range s.Pending {
		if s.Pending[i], err = p.normal(); err != nil {
			return s, err
		}
	}
	for i, r := range s.Responses {
		if s.Responses[i], err = r.normal(); err != nil {
			return s, err
		}
	}
	if s.Permissions != nil {
		if *s.Permissions, err = s.Permissions.normal(); err != nil {
			return s, err
		}
	}
	if s.Task != nil {
		if err := s.Task.check(); err != nil {
			return s, err
		}
	}
	if s.Metadata, err = compactValues("metadata", s.Metadata, maxMetadata); err != nil {
		return s, err
	}
	for _, key := range slices.Sorted(maps.Keys(s.Variables)) {
		if s.Variables[key], err = s.Variables[key].normal(key); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (v Variable) normal(key string) (Variable, error) {
	if err := checkVariableKey(key); err != nil {
		return v, err
	}
	if v.Version < 1 {
		return v, invalid("variables."+key, "version %d is not positive", v.Version)
	}
	v.CreatedAt, v.UpdatedAt = Instant(v.CreatedAt), Instant(v.UpdatedAt)
	var err error
	if v.Labels, err = v.Labels.Normal(); err != nil {
		return v, err
	}
	v.Value, err = sized("variables."+key, v.Value, maxVariable)
	return v, err
}
