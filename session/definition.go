package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
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

// Budget bounds one execution, subagents included. A nil field is no limit,
// zero lets nothing run.
type Budget struct {
	MaxSteps   *int64     `json:"maxSteps,omitempty"`
	MaxTokens  *int64     `json:"maxTokens,omitempty"`  // input + output
	MaxSeconds *float64   `json:"maxSeconds,omitempty"` // active time
	MaxCost    *Cost      `json:"maxCost,omitempty"`    // US dollars
	Deadline   *time.Time `json:"deadline,omitempty"`
}

// MemoryPolicy says how the window is kept short and what the agent may remember.
type MemoryPolicy struct {
	Strategy      Strategy `json:"strategy,omitempty"`
	Limit         *int     `json:"limit,omitempty"`
	SummaryPrompt string   `json:"summaryPrompt,omitempty"`
	SummaryModel  string   `json:"summaryModel,omitempty"`
	Slack         *int     `json:"slack,omitempty"`
	ToolTrace     string   `json:"toolTrace,omitempty"` // all (default) or current
	Recall        *Recall  `json:"recall,omitempty"`
	Tools         bool     `json:"tools,omitempty"`
	Scopes        []string `json:"scopes,omitempty"`
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
		m.Limit, m.Slack, m.Scopes = clonePtr(m.Limit), clonePtr(m.Slack), slices.Clone(m.Scopes)
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

// normal is a deep copy with repeated names dropped and JSON compacted.
func (d Definition) normal() (Definition, error) {
	d = d.Clone()
	for _, list := range []*[]string{&d.Tools, &d.ToolsDeny, &d.Skills, &d.Capabilities, &d.Subagents} {
		*list = unique(*list)
	}
	for _, text := range []*string{&d.Name, &d.Label, &d.Description, &d.SystemPrompt, &d.Model} {
		*text = clean(*text)
	}
	var err error
	if d.Metadata, err = compactValues("metadata", d.Metadata); err != nil {
		return d, err
	}
	if p := d.ModelParams; p != nil && p.Options != nil {
		if p.Options, err = compactValues("modelParams.options", p.Options); err != nil {
			return d, err
		}
	}
	if f := d.ResponseFormat; f != nil && f.Schema != nil {
		if f.Schema, err = compact("responseFormat.schema", f.Schema); err != nil {
			return d, err
		}
	}
	return d, nil
}

// unique keeps the first of equal names, in order, and nil as nil.
func unique(names []string) []string {
	if names == nil {
		return nil
	}
	kept := make([]string, 0, len(names))
	for _, name := range names {
		if !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	return kept
}

// Problems lists everything wrong with a definition that can be seen without
// knowing which models and tools exist. Nil means it is well-formed.
func (d Definition) Problems() []Problem {
	var c problems
	if !definitionPattern.MatchString(d.Name) {
		c.add("name", "%s is not 1 to 128 lower-case letters, digits, hyphens or underscores starting with a letter or digit", quoted(d.Name))
	}
	c.names("tools", d.Tools)
	c.names("toolsDeny", d.ToolsDeny)
	c.names("skills", d.Skills)
	c.names("capabilities", d.Capabilities)
	c.names("subagents", d.Subagents)
	if p := d.ModelParams; p != nil {
		c.notNegative("modelParams.maxOutputTokens", p.MaxOutputTokens)
		c.within("modelParams.temperature", p.Temperature, 0, 2)
		c.within("modelParams.topP", p.TopP, 0, 1)
	}
	c.budget(d.Budget)
	c.memory(d.Memory)
	c.mcp(d.MCP)
	if f := d.ResponseFormat; f != nil && strings.TrimSpace(f.Type) == "" {
		c.add("responseFormat.type", "is missing")
	}
	if _, err := d.normal(); err != nil {
		c.add("definition", "%v", err)
	}
	for key := range d.Metadata {
		if err := checkMetadataKey(key); err != nil {
			c.add("metadata", "%v", err)
		}
	}
	return c
}

type problems []Problem

func (c *problems) add(field, format string, args ...any) {
	*c = append(*c, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

func (c *problems) names(field string, names []string) {
	for i, name := range names {
		if strings.TrimSpace(name) == "" {
			c.add(field, "entry %d is blank", i+1)
		}
	}
}

func (c *problems) notNegative(field string, n *int) {
	if n != nil && *n < 0 {
		c.add(field, "%d is negative", *n)
	}
}

func (c *problems) within(field string, n *float64, low, high float64) {
	if n != nil && !(*n >= low && *n <= high) {
		c.add(field, "%v is not between %v and %v", *n, low, high)
	}
}

func (c *problems) budget(b *Budget) {
	if b == nil {
		return
	}
	if b.MaxSteps != nil && *b.MaxSteps < 0 {
		c.add("budget.maxSteps", "%d is negative", *b.MaxSteps)
	}
	if b.MaxTokens != nil && *b.MaxTokens < 0 {
		c.add("budget.maxTokens", "%d is negative", *b.MaxTokens)
	}
	if b.MaxSeconds != nil && !(*b.MaxSeconds >= 0 && !math.IsInf(*b.MaxSeconds, 0)) {
		c.add("budget.maxSeconds", "%v is not a number of seconds", *b.MaxSeconds)
	}
	if b.MaxCost != nil && *b.MaxCost < 0 {
		c.add("budget.maxCost", "%s is negative", *b.MaxCost)
	}
}

func (c *problems) memory(m *MemoryPolicy) {
	if m == nil {
		return
	}
	strategy := m.Strategy
	if strategy == "" {
		strategy = PruneSliding
	}
	if err := oneOf("strategy", strategy, Strategies()); err != nil {
		c.add("memory.strategy", "%v", err)
	}
	switch {
	case strategy == PruneAll:
	case m.Limit == nil:
		c.add("memory.limit", "is missing: %s needs one", strategy)
	case *m.Limit <= 0:
		c.add("memory.limit", "%d is not positive", *m.Limit)
	}
	blank := strings.TrimSpace(m.SummaryPrompt) == ""
	if strategy == PruneSummary && blank {
		c.add("memory.summaryPrompt", "is missing: strategy summary needs one")
	}
	if strategy != PruneSummary && m.SummaryPrompt != "" {
		c.add("memory.summaryPrompt", "is for strategy summary only")
	}
	c.notNegative("memory.slack", m.Slack)
	if m.ToolTrace != "" && m.ToolTrace != "all" && m.ToolTrace != "current" {
		c.add("memory.toolTrace", "%s is not all or current", quoted(m.ToolTrace))
	}
	c.scopes("memory.scopes", m.Scopes)
	if r := m.Recall; r != nil {
		if r.Limit < 0 || r.Limit > 100 {
			c.add("memory.recall.limit", "%d is not between 0 and 100", r.Limit)
		}
		c.within("memory.recall.threshold", r.Threshold, 0, 1)
		c.scopes("memory.recall.scopes", r.Scopes)
	}
}

func (c *problems) scopes(field string, scopes []string) {
	for _, s := range scopes {
		if s != "session" && s != "user" && s != "agent" {
			c.add(field, "%s is not session, user or agent", quoted(s))
		}
	}
}

func (c *problems) mcp(servers []MCPServer) {
	seen := map[string]bool{}
	for i, s := range servers {
		field := fmt.Sprintf("mcp[%d]", i)
		if strings.TrimSpace(s.ID) == "" {
			c.add(field+".id", "is missing")
		} else if seen[s.ID] {
			c.add(field+".id", "%s is there twice", quoted(s.ID))
		}
		seen[s.ID] = true
		if (s.Command == "") == (s.URL == "") {
			c.add(field, "needs a command or a url, and not both")
		}
		for _, group := range []map[string]string{s.Env, s.Headers} {
			for key, value := range group {
				if SecretKey(key) && !strings.Contains(value, "${") {
					c.add(field, "%q must refer to an environment variable as ${NAME}", key)
				}
			}
		}
	}
}

// SecretKey reports whether a key by its name holds a credential: apiKey,
// api_key, token, secret, password, authorization and their like.
func SecretKey(key string) bool {
	k := strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(key))
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
