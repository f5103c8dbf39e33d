package strands

import (
	"encoding/json"
	"time"
)

// Status is how a run stands.
type Status string

// The statuses of a run. A run whose process was killed still says running.
const (
	Running   Status = "running"
	Paused    Status = "paused"
	Completed Status = "completed"
	Failed    Status = "failed"
)

// State is what a session directory says about a run. Extra holds, here and in
// the parts, keys of a newer program; they are written back.
type State struct {
	Metadata         Metadata
	Variables        Dict[string] // given on the command line or asked for
	RuntimeConfig    RuntimeConfig
	TokenUsage       TokenUsage
	ArtifactsWritten []string
	Holdfast         *Extension // nil in directories that only the other program wrote
	Extra            Object

	Pattern Object // pattern_state.json: where the pattern is, in its own form
}

// Metadata is the header of a run: what a listing shows.
type Metadata struct {
	SessionID    string
	WorkflowName string
	SpecHash     string
	PatternType  string
	Status       Status
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Error        string // "" is null
	Metadata     Object
	Extra        Object
}

// RuntimeConfig is how models are reached. All keys are always written, nil as
// null; Budgets and FailurePolicy are as the spec has them.
type RuntimeConfig struct {
	Provider      string
	ModelID       *string
	Region        *string
	Host          *string
	Temperature   *float64
	TopP          *float64
	MaxTokens     *int64
	MaxParallel   *int64
	Budgets       json.RawMessage
	FailurePolicy json.RawMessage
	Extra         Object
}

// TokenUsage is what a run has used, by agent as the sum of both directions.
type TokenUsage struct {
	TotalInput  int64
	TotalOutput int64
	ByAgent     Dict[int64]
	Extra       Object
}

// MarshalJSON writes the object metadata of session.json.
func (m Metadata) MarshalJSON() ([]byte, error) {
	var w writer
	w.put("session_id", m.SessionID)
	w.put("workflow_name", m.WorkflowName)
	w.put("spec_hash", m.SpecHash)
	w.put("pattern_type", m.PatternType)
	w.put("status", m.Status)
	w.put("created_at", FormatTime(m.CreatedAt))
	w.put("updated_at", FormatTime(m.UpdatedAt))
	w.put("error", orNull(m.Error))
	w.put("metadata", m.Metadata)
	return w.end(m.Extra)
}

// UnmarshalJSON reads the object metadata of session.json.
func (m *Metadata) UnmarshalJSON(data []byte) error {
	*m = Metadata{}
	r := read(data)
	r.need("session_id", &m.SessionID)
	r.need("workflow_name", &m.WorkflowName)
	r.need("spec_hash", &m.SpecHash)
	r.need("pattern_type", &m.PatternType)
	r.need("status", &m.Status)
	r.mustMoment("created_at", &m.CreatedAt)
	r.mustMoment("updated_at", &m.UpdatedAt)
	r.maybe("error", &m.Error)
	r.maybe("metadata", &m.Metadata)
	r.check("status", m.Status.known(), "is not running, paused, completed or failed")
	var err error
	m.Extra, err = r.rest()
	return err
}

func (s Status) known() bool {
	return s == Running || s == Paused || s == Completed || s == Failed
}

// MarshalJSON writes the object runtime_config of session.json.
func (c RuntimeConfig) MarshalJSON() ([]byte, error) {
	var w writer
	w.put("provider", c.Provider)
	w.put("model_id", c.ModelID)
	w.put("region", c.Region)
	w.put("host", c.Host)
	w.put("temperature", (*float)(c.Temperature))
	w.put("top_p", (*float)(c.TopP))
	w.put("max_tokens", c.MaxTokens)
	w.put("max_parallel", c.MaxParallel)
	w.put("budgets", c.Budgets)
	w.put("failure_policy", c.FailurePolicy)
	return w.end(c.Extra)
}

// UnmarshalJSON reads the object runtime_config of session.json.
func (c *RuntimeConfig) UnmarshalJSON(data []byte) error {
	*c = RuntimeConfig{}
	r := read(data)
	r.maybe("provider", &c.Provider)
	r.maybe("model_id", &c.ModelID)
	r.maybe("region", &c.Region)
	r.maybe("host", &c.Host)
	r.maybe("temperature", &c.Temperature)
	r.maybe("top_p", &c.TopP)
	r.maybe("max_tokens", &c.MaxTokens)
	r.maybe("max_parallel", &c.MaxParallel)
	r.maybe("budgets", &c.Budgets)
	r.maybe("failure_policy", &c.FailurePolicy)
	var err error
	c.Extra, err = r.rest()
	return err
}

// MarshalJSON writes the object token_usage of session.json.
func (u TokenUsage) MarshalJSON() ([]byte, error) {
	var w writer
	w.put("total_input_tokens", u.TotalInput)
	w.put("total_output_tokens", u.TotalOutput)
	w.put("by_agent", u.ByAgent)
	return w.end(u.Extra)
}

// UnmarshalJSON reads the object token_usage of session.json.
func (u *TokenUsage) UnmarshalJSON(data []byte) error {
	*u = TokenUsage{}
	r := read(data)
	r.maybe("total_input_tokens", &u.TotalInput)
	r.maybe("total_output_tokens", &u.TotalOutput)
	r.maybe("by_agent", &u.ByAgent)
	var err error
	u.Extra, err = r.rest()
	return err
}
