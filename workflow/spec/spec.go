// Package spec reads workflow specs: YAML or JSON files that say which agents
// work together in which pattern. Load refuses what is malformed, Check what
// is well-formed and cannot be run here. Neither asks a model, and apart from
// the files a spec refers to neither touches anything outside it.
package spec

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/internal/document"
)

// Spec is a workflow as its author wrote it, checked, with every reference to
// an agent's file replaced by the agent. Optional parts that are absent are
// zero; where absent and empty differ in meaning the field is a pointer, or a
// list that is nil only when absent. Defaults are filled in unless a field's
// comment says otherwise.
//
// A Spec is not changed after Load and may be shared.
type Spec struct {
	Version     any            `json:"version"` // int64 or string
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Tags        []string       `json:"tags,omitempty"`
	Metadata    *Metadata      `json:"metadata,omitempty"`
	Runtime     Runtime        `json:"runtime"`
	Inputs      Inputs         `json:"inputs,omitzero"`
	Env         Environment    `json:"env,omitzero"`
	Telemetry   *Telemetry     `json:"telemetry,omitempty"`
	Context     *ContextPolicy `json:"context_policy,omitempty"`
	Skills      []Skill        `json:"skills,omitempty"`
	Tools       Tools          `json:"tools,omitzero"`
	Agents      Map[Agent]     `json:"agents"`
	Pattern     Pattern        `json:"pattern"`
	Outputs     Outputs        `json:"outputs,omitzero"`
	Security    Security       `json:"security,omitzero"`

	// Warnings are likely mistakes that stop nothing.
	Warnings []Warning `json:"-"`

	known  []string    // inputs that the spec declares or gives a value
	given  Map[string] // the variables it was loaded with
	source Source
	refs   []File // agents' files, as they were read
}

// Warning is something in a spec that is likely a mistake.
type Warning struct {
	Pointer string `json:"pointer"`
	Reason  string `json:"reason"`
}

func (s *Spec) warn(pointer, format string, args ...any) {
	s.Warnings = append(s.Warnings, Warning{pointer, fmt.Sprintf(format, args...)})
}

// Metadata describes a spec to people and catalogues.
type Metadata struct {
	Name        string      `json:"name,omitempty"`
	Description string      `json:"description,omitempty"`
	Labels      Map[string] `json:"labels,omitempty"`
}

// Inputs are the values a spec is run with. Values holds what is in scope of
// its templates: the written ones, then the defaults, then the variables.
type Inputs struct {
	Required Map[Var] `json:"required,omitempty"`
	Optional Map[Var] `json:"optional,omitempty"`
	Values   Map[any] `json:"values,omitempty"`
}

// Var declares an input. Its type and enumeration are advice: a value that
// does not fit them is a Warning.
type Var struct {
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
	Default     any    `json:"default,omitempty"` // nil: none
	Enum        []any  `json:"enum,omitempty"`
}

// MarshalJSON keeps a default that is false, zero or empty, and the floats
// among the values.
func (v Var) MarshalJSON() ([]byte, error) {
	m := Map[any]{{"type", v.Type}}
	if v.Description != "" {
		m = append(m, Entry[any]{"description", v.Description})
	}
	if v.Default != nil {
		m = append(m, Entry[any]{"default", v.Default})
	}
	if v.Enum != nil {
		m = append(m, Entry[any]{"enum", v.Enum})
	}
	return m.MarshalJSON()
}

// Environment names what a run takes from its surroundings. Mounts have no
// effect.
type Environment struct {
	Secrets []Secret    `json:"secrets,omitempty"`
	Mounts  Map[string] `json:"mounts,omitempty"`
}

// Secret says where a value that must not stand in a spec is found.
type Secret struct {
	Key    string `json:"key"`
	Source string `json:"source"`
	Name   string `json:"name,omitempty"`
	Path   string `json:"path,omitempty"`
}

// Telemetry is about traces.
type Telemetry struct {
	OTel   *OTel  `json:"otel,omitempty"`
	Redact Redact `json:"redact"`
}

// OTel is where traces go.
type OTel struct {
	Endpoint    string  `json:"endpoint,omitempty"`
	ServiceName string  `json:"service_name,omitempty"`
	SampleRatio float64 `json:"sample_ratio"`
}

// Redact is what traces leave out.
type Redact struct {
	ToolInputs  bool `json:"tool_inputs"`
	ToolOutputs bool `json:"tool_outputs"`
}

// ContextPolicy is what agents are shown besides their own conversation, and
// how long that may grow.
type ContextPolicy struct {
	Compaction *Compaction `json:"compaction,omitempty"`
	Notes      *Notes      `json:"notes,omitempty"`
	Retrieval  *Retrieval  `json:"retrieval,omitempty"`
}

// Compaction says when old messages are summarised.
type Compaction struct {
	Enabled                bool    `json:"enabled"`
	WhenTokensOver         int     `json:"when_tokens_over"`
	SummaryRatio           float64 `json:"summary_ratio"`
	PreserveRecentMessages int     `json:"preserve_recent_messages"`
	SummarizationModel     string  `json:"summarization_model,omitempty"`
}

// Notes is a file to which every answer is added.
type Notes struct {
	File        string `json:"file"`
	IncludeLast int    `json:"include_last"`
	Format      string `json:"format"` // markdown or json
}

// Retrieval gives every agent further tools. MCPServers has no effect.
type Retrieval struct {
	JITTools   []string `json:"jit_tools,omitempty"`
	MCPServers []string `json:"mcp_servers,omitempty"`
}

// Skill is a folder of instructions an agent may load.
type Skill struct {
	ID              string `json:"id"`
	Path            string `json:"path"`
	Description     string `json:"description,omitempty"`
	PreloadMetadata bool   `json:"preload_metadata,omitempty"`
}

// Agent is one of those who work. Tools is nil where there is no list at all,
// which means every tool of the spec.
type Agent struct {
	Prompt       string     `json:"prompt"`
	Tools        []string   `json:"tools,omitzero"`
	Provider     string     `json:"provider,omitempty"`
	ModelID      string     `json:"model_id,omitempty"`
	Inference    *Inference `json:"inference,omitempty"`
	InputSchema  *Schema    `json:"input_schema,omitempty"`
	OutputSchema *Schema    `json:"output_schema,omitempty"`
}

// Schema is a JSON Schema in a file, by its path from the spec's folder, or
// in place. That of outputs is enforced, that of inputs is kept.
type Schema struct {
	Path   string
	Object Map[any]
}

// Read returns the schema, from the copies of a snapshot where it stands in a
// file.
func (s Schema) Read(snap *Snapshot) (json.RawMessage, error) {
	if s.Path == "" {
		return s.Object.MarshalJSON()
	}
	for _, f := range snap.Files {
		if f.Kind == SchemaFile && f.As == filepath.ToSlash(s.Path) {
			root, err := parse(s.Path, s.Path, f.Data)
			if err != nil {
				return nil, fmt.Errorf("read the schema %s: %w", s.Path, err)
			}
			if root.Kind != document.Map {
				return nil, fmt.Errorf("read the schema %s: it is %s, not a map", s.Path, root.Kind)
			}
			return entriesOf(root).MarshalJSON()
		}
	}
	return nil, fmt.Errorf("read the schema %s: there is no such file", s.Path)
}

// MarshalJSON writes the path or the object.
func (s Schema) MarshalJSON() ([]byte, error) {
	if s.Path != "" {
		return json.Marshal(s.Path)
	}
	return s.Object.MarshalJSON()
}

// Outputs are the files a finished run leaves.
type Outputs struct {
	Artifacts []Artifact `json:"artifacts,omitempty"`
}

// Artifact is one file. Both fields are templates.
type Artifact struct {
	Path string `json:"path"`
	From string `json:"from"`
}

// Security narrows what agents may do. PIIRedaction has no effect.
type Security struct {
	Guardrails *Guardrails `json:"guardrails,omitempty"`
}

// Guardrails hold for all agents. AllowTools is nil where there is no list.
type Guardrails struct {
	DenyNetwork  bool     `json:"deny_network,omitempty"`
	PIIRedaction bool     `json:"pii_redaction,omitempty"`
	AllowTools   []string `json:"allow_tools,omitzero"`
}
