package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Definition is what an agent is: prompt, model, tools and limits. It has no
// field for a secret.
type Definition struct {
	Name           string          `json:"name"`
	Label          string          `json:"label"`
	Description    string          `json:"description"`
	SystemPrompt   string          `json:"systemPrompt"`
	Model          string          `json:"model"` // provider/model, or a registered name
	ModelParams    *ModelParams    `json:"modelParams"`
	Tools          []string        `json:"tools"` // nil: every tool; empty: none
	ToolsDeny      []string        `json:"toolsDeny"`
	Skills         []string        `json:"skills"`
	Capabilities   []string        `json:"capabilities"`
	Subagents      []string        `json:"subagents"`
	MCP            []MCPServer     `json:"mcp"`
	ResponseFormat *ResponseFormat `json:"responseFormat"`
	Budget         *Budget         `json:"budget"` // nil: the runtime's default; empty: no limit
	Memory         *MemoryPolicy   `json:"memory"`
	Metadata       Values          `json:"metadata"`
}

// ModelParams tune a model; nil fields are the provider's default.
type ModelParams struct {
	MaxOutputTokens *int     `json:"maxOutputTokens,omitempty"`
	Temperature     *float64 `json:"temperature,omitempty"`
	TopP            *float64 `json:"topP,omitempty"`
	Stop            []string `json:"stop,omitempty"`
	Options         Values   `json:"options,omitempty"` // handed to the provider as they are
}

// MCPServer is a tool server: a command to start, or a URL. Credentials stand
// in Env and Headers as ${NAME} only.
type MCPServer struct {
	ID      string            `json:"id"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// ResponseFormat asks the model for a shape.
type ResponseFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Name   string          `json:"name,omitempty"`
	Strict bool            `json:"strict,omitempty"`
}

// MemoryPolicy says how the window is kept short and what the agent may remember.
type MemoryPolicy struct {
	Strategy      Strategy      `json:"strategy,omitempty"`
	Limit         *int          `json:"limit,omitempty"`
	SummaryPrompt string        `json:"summaryPrompt,omitempty"`
	SummaryModel  string        `json:"summaryModel,omitempty"`
	Slack         *int          `json:"slack,omitempty"`
	ToolTrace     string        `json:"toolTrace,omitempty"` // all (default) or current
	Recall        *Recall       `json:"recall,omitempty"`
	Tools         bool          `json:"tools,omitempty"`
	Scopes        []string      `json:"scopes,omitempty"`
	Blocks        []MemoryBlock `json:"blocks,omitempty"`
	Facts         *Facts        `json:"facts,omitempty"` // nil: none are extracted
}

// Recall bounds the passages added to a request.
type Recall struct {
	Limit     int      `json:"limit,omitempty"`
	Threshold *float64 `json:"threshold,omitempty"`
	Scopes    []string `json:"scopes,omitempty"`
}

// Strategy is a way to move the window.
type Strategy string

// The strategies of pruning.
const (
	PruneAll     Strategy = "all"
	PruneSliding Strategy = "sliding_window"
	PruneTokens  Strategy = "token_buffer"
	PruneSummary Strategy = "summary"
	PruneVector  Strategy = "vector_store"
)

// Strategies lists every strategy.
func Strategies() []Strategy {
	return []Strategy{PruneAll, PruneSliding, PruneTokens, PruneSummary, PruneVector}
}

// Title is the label, or the name where there is no label.
func (d Definition) Title() string {
	if d.Label != "" {
		return d.Label
	}
	return d.Name
}

// Clone is a deep copy. A nil list stays nil and an empty one empty.
func (d Definition) Clone() Definition {
	d.ModelParams = d.ModelParams.clone()
	d.Tools, d.ToolsDeny = slices.Clone(d.Tools), slices.Clone(d.ToolsDeny)
	d.Skills, d.Capabilities, d.Subagents = slices.Clone(d.Skills), slices.Clone(d.Capabilities), slices.Clone(d.Subagents)
	d.MCP = slices.Clone(d.MCP)
	for i := range d.MCP {
		m := &d.MCP[i]
		m.Args, m.Env, m.Headers = slices.Clone(m.Args), maps.Clone(m.Env), maps.Clone(m.Headers)
	}
	d.ResponseFormat = d.ResponseFormat.clone()
	d.Budget = d.Budget.clone()
	if d.Memory != nil {
		m := *d.Memory
		m.Limit, m.Slack = clonePtr(m.Limit), clonePtr(m.Slack)
		m.Scopes, m.Blocks = slices.Clone(m.Scopes), slices.Clone(m.Blocks)
		m.Facts = m.Facts.clone()
		if m.Recall != nil {
			r := *m.Recall
			r.Threshold, r.Scopes = clonePtr(r.Threshold), slices.Clone(r.Scopes)
			m.Recall = &r
		}
		d.Memory = &m
	}
	d.Metadata = d.Metadata.Clone()
	return d
}

func (p *ModelParams) clone() *ModelParams {
	if p == nil {
		return nil
	}
	c := *p
	c.MaxOutputTokens, c.Temperature, c.TopP = clonePtr(p.MaxOutputTokens), clonePtr(p.Temperature), clonePtr(p.TopP)
	c.Stop = slices.Clone(p.Stop)
	if p.Options != nil {
		c.Options = p.Options.Clone()
	}
	return &c
}

func (f *ResponseFormat) clone() *ResponseFormat {
	if f == nil {
		return nil
	}
	c := *f
	c.Schema = bytes.Clone(f.Schema)
	return &c
}

func (b *Budget) clone() *Budget {
	if b == nil {
		return nil
	}
	return &Budget{
		MaxSteps: clonePtr(b.MaxSteps), MaxTokens: clonePtr(b.MaxTokens), MaxSeconds: clonePtr(b.MaxSeconds),
		MaxCost: clonePtr(b.MaxCost), Deadline: instantPtr(b.Deadline),
	}
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

var separators = strings.NewReplacer("_", "", "-", "", ".", "")

// SecretKey reports whether a key by its name holds a credential: apiKey,
// api_key, token, secret, password, authorization and their like.
func SecretKey(key string) bool {
	k := separators.Replace(strings.ToLower(key))
	if k == "maxoutputtokens" || k == "maxtokens" {
		return false
	}
	for _, word := range []string{"apikey", "secret", "password", "passwd", "authorization", "accesskey", "privatekey", "credential"} {
		if strings.Contains(k, word) {
			return true
		}
	}
	return k == "token" || strings.HasSuffix(k, "token") || k == "auth" || k == "bearer"
}
