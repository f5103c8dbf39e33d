package strands

import (
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
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
	Status       workflow.Status // a run whose process was killed still says running
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

func (m *Metadata) fields() fields {
	return fields{
		{"session_id", &m.SessionID, required},
		{"workflow_name", &m.WorkflowName, required},
		{"spec_hash", &m.SpecHash, required},
		{"pattern_type", &m.PatternType, required},
		{"status", &m.Status, required},
		{"created_at", both{(*moment)(&m.CreatedAt), FormatTime(m.CreatedAt)}, required},
		{"updated_at", both{(*moment)(&m.UpdatedAt), FormatTime(m.UpdatedAt)}, required},
		{"error", both{&m.Error, orNull(m.Error)}, optional},
		{"metadata", &m.Metadata, optional},
	}
}

// MarshalJSON writes the object metadata of session.json.
func (m Metadata) MarshalJSON() ([]byte, error) { return m.fields().encode(m.Extra) }

// UnmarshalJSON reads the object metadata of session.json.
func (m *Metadata) UnmarshalJSON(data []byte) error {
	*m = Metadata{}
	if err := m.fields().decode(data, &m.Extra); err != nil {
		return err
	}
	switch m.Status {
	case workflow.StatusRunning, workflow.StatusPaused, workflow.StatusCompleted, workflow.StatusFailed:
		return nil
	}
	return &session.InvalidError{Field: "status", Reason: "is not running, paused, completed or failed"}
}

func (c *RuntimeConfig) fields() fields {
	return fields{
		{"provider", &c.Provider, optional},
		{"model_id", &c.ModelID, optional},
		{"region", &c.Region, optional},
		{"host", &c.Host, optional},
		{"temperature", both{&c.Temperature, (*float)(c.Temperature)}, optional},
		{"top_p", both{&c.TopP, (*float)(c.TopP)}, optional},
		{"max_tokens", &c.MaxTokens, optional},
		{"max_parallel", &c.MaxParallel, optional},
		{"budgets", &c.Budgets, optional},
		{"failure_policy", &c.FailurePolicy, optional},
	}
}

// MarshalJSON writes the object runtime_config of session.json.
func (c RuntimeConfig) MarshalJSON() ([]byte, error) { return c.fields().encode(c.Extra) }

// UnmarshalJSON reads the object runtime_config of session.json.
func (c *RuntimeConfig) UnmarshalJSON(data []byte) error {
	*c = RuntimeConfig{}
	return c.fields().decode(data, &c.Extra)
}

func (u *TokenUsage) fields() fields {
	return fields{
		{"total_input_tokens", &u.TotalInput, optional},
		{"total_output_tokens", &u.TotalOutput, optional},
		{"by_agent", &u.ByAgent, optional},
	}
}

// MarshalJSON writes the object token_usage of session.json.
func (u TokenUsage) MarshalJSON() ([]byte, error) { return u.fields().encode(u.Extra) }

// UnmarshalJSON reads the object token_usage of session.json.
func (u *TokenUsage) UnmarshalJSON(data []byte) error {
	*u = TokenUsage{}
	return u.fields().decode(data, &u.Extra)
}
