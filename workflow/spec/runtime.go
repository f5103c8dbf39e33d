package spec

import "cmp"

// Runtime is the model and the limits of a run. Budgets and FailurePolicy are
// kept as written, without defaults.
type Runtime struct {
	Provider      string         `json:"provider"`
	ModelID       string         `json:"model_id,omitempty"`
	Region        string         `json:"region,omitempty"`
	Host          string         `json:"host,omitempty"`
	SpaceID       string         `json:"space_id,omitempty"` // has no effect
	Temperature   *float64       `json:"temperature,omitempty"`
	TopP          *float64       `json:"top_p,omitempty"`
	MaxTokens     *int           `json:"max_tokens,omitempty"`
	MaxParallel   *int           `json:"max_parallel,omitempty"` // nil: no limit
	Budgets       *Budgets       `json:"budgets,omitempty"`
	FailurePolicy *FailurePolicy `json:"failure_policy,omitempty"`
}

// Inference is how a model is asked. A nil field is the runtime's.
type Inference struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   *int     `json:"max_tokens,omitempty"`
}

// Budgets bound a whole session. A nil field is no bound.
type Budgets struct {
	MaxSteps      *int     `json:"max_steps,omitempty"`
	MaxTokens     *int     `json:"max_tokens,omitempty"`
	MaxDurationS  *int     `json:"max_duration_s,omitempty"`
	WarnThreshold *float64 `json:"warn_threshold,omitempty"`
}

// Warn is the part of a budget at which a run warns.
func (b *Budgets) Warn() float64 {
	if b == nil {
		return 0.8
	}
	return valueOr(b.WarnThreshold, 0.8)
}

// Backoff is how the waits between tries grow.
type Backoff string

// The ways to wait.
const (
	Constant    Backoff = "constant"
	Exponential Backoff = "exponential"
	Jittered    Backoff = "jittered"
)

// FailurePolicy says how often a model is asked again after a passing
// failure. Waits are seconds.
type FailurePolicy struct {
	Retries *int     `json:"retries,omitempty"`
	Backoff *Backoff `json:"backoff,omitempty"`
	WaitMin *float64 `json:"wait_min,omitempty"`
	WaitMax *float64 `json:"wait_max,omitempty"`
}

// Retry is a FailurePolicy with its defaults filled in.
type Retry struct {
	Retries          int
	Backoff          Backoff
	WaitMin, WaitMax float64
}

// Retry is the policy in force; a nil policy has every default.
func (p *FailurePolicy) Retry() Retry {
	if p == nil {
		p = &FailurePolicy{}
	}
	return Retry{
		Retries: valueOr(p.Retries, 2), Backoff: valueOr(p.Backoff, Exponential),
		WaitMin: valueOr(p.WaitMin, 1), WaitMax: valueOr(p.WaitMax, 60),
	}
}

// valueOr is what a pointer leads to, or the default where it is nil.
func valueOr[T any](p *T, byDefault T) T {
	if p == nil {
		return byDefault
	}
	return *p
}

// Model is what one agent is asked with: its own settings, and the runtime's
// where it has none.
type Model struct {
	Provider, ModelID, Region, Host string
	Inference
}

// ModelOf is the model of an agent. Host and region belong to a provider: an
// agent that names another does not inherit them.
func (s *Spec) ModelOf(a Agent) Model {
	m := Model{
		Provider: s.Runtime.Provider, ModelID: s.Runtime.ModelID, Region: s.Runtime.Region, Host: s.Runtime.Host,
		Inference: Inference{s.Runtime.Temperature, s.Runtime.TopP, s.Runtime.MaxTokens},
	}
	if a.Provider != "" && a.Provider != m.Provider {
		m.Provider, m.Region, m.Host = a.Provider, "", ""
	}
	m.ModelID = cmp.Or(a.ModelID, m.ModelID)
	if a.Inference != nil {
		m.Temperature = cmp.Or(a.Inference.Temperature, m.Temperature)
		m.TopP = cmp.Or(a.Inference.TopP, m.TopP)
		m.MaxTokens = cmp.Or(a.Inference.MaxTokens, m.MaxTokens)
	}
	return m
}
