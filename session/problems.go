package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// normal is a deep copy as a session keeps it: repeated names dropped, JSON
// compacted, and a list or map that JSON leaves out when it is empty is nil.
// What is wrong with it is a DefinitionError.
func (d Definition) normal() (Definition, error) {
	d, problems := d.checked()
	if problems != nil {
		return d, &DefinitionError{Source: d.Name, Problems: problems}
	}
	return d, nil
}

// Problems lists everything wrong with a definition that can be seen without
// knowing which models and tools exist. Nil means it is well-formed.
func (d Definition) Problems() []Problem {
	_, problems := d.checked()
	return problems
}

func (d Definition) checked() (Definition, problems) {
	d = d.Clone()
	var c problems
	cleanAll(&d.Name, &d.Label, &d.Description, &d.SystemPrompt, &d.Model)
	if !definitionPattern.MatchString(d.Name) {
		c.add("name", "%s is not 1 to 128 lower-case letters, digits, hyphens or underscores starting with a letter or digit", quoted(d.Name))
	}
	c.names("tools", &d.Tools)
	c.names("toolsDeny", &d.ToolsDeny)
	c.names("skills", &d.Skills)
	c.names("capabilities", &d.Capabilities)
	c.names("subagents", &d.Subagents)
	var err error
	if d.ModelParams, err = d.ModelParams.normal(); err != nil {
		c.refused(err)
	}
	if d.ResponseFormat, err = d.ResponseFormat.normal(); err != nil {
		c.refused(err)
	}
	if d.Budget, err = d.Budget.normal(); err != nil {
		c.refused(err)
	}
	c.memory(d.Memory)
	c.mcp(d.MCP)
	for _, key := range slices.Sorted(maps.Keys(d.Metadata)) {
		if err := checkMetadataKey(key); err != nil {
			c.add("metadata", "%s", reasonOf(err))
			continue
		}
		if d.Metadata[key], err = sized("metadata."+key, d.Metadata[key], maxMetadata); err != nil {
			c.refused(err)
		}
	}
	return d, c
}

// normal is a copy of parameters as a session keeps them.
func (p *ModelParams) normal() (*ModelParams, error) {
	if p == nil {
		return nil, nil
	}
	p = p.clone()
	var c problems
	if p.MaxOutputTokens != nil && *p.MaxOutputTokens < 0 {
		c.add("modelParams.maxOutputTokens", "%d is negative", *p.MaxOutputTokens)
	}
	c.within("modelParams.temperature", p.Temperature, 0, 2)
	c.within("modelParams.topP", p.TopP, 0, 1)
	p.Stop = cleanNames(p.Stop)
	options, err := compactValues("modelParams.options", p.Options, 0)
	if err != nil {
		c.refused(err)
	}
	if p.Options = options; len(options) == 0 {
		p.Options = nil
	}
	return p, c.err()
}

// normal is a copy of a format as a session keeps it.
func (f *ResponseFormat) normal() (*ResponseFormat, error) {
	if f == nil {
		return nil, nil
	}
	f = f.clone()
	cleanAll(&f.Type, &f.Name)
	var c problems
	if strings.TrimSpace(f.Type) == "" {
		c.add("responseFormat.type", "is missing")
	}
	if len(f.Schema) == 0 {
		f.Schema = nil
		return f, c.err()
	}
	schema, err := compact("responseFormat.schema", f.Schema)
	if err != nil {
		c.refused(err)
	}
	f.Schema = schema
	return f, c.err()
}

// normal is a copy of a budget as a session keeps it.
func (b *Budget) normal() (*Budget, error) {
	if b == nil {
		return nil, nil
	}
	b = b.clone()
	var c problems
	if b.MaxSteps != nil && *b.MaxSteps < 0 {
		c.add("budget.maxSteps", "%d is negative", *b.MaxSteps)
	}
	if b.MaxTokens != nil && *b.MaxTokens < 0 {
		c.add("budget.maxTokens", "%d is negative", *b.MaxTokens)
	}
	if b.MaxSeconds != nil && (!(*b.MaxSeconds >= 0) || math.IsInf(*b.MaxSeconds, 0)) {
		c.add("budget.maxSeconds", "%v is not a number of seconds", *b.MaxSeconds)
	}
	if b.MaxCost != nil && *b.MaxCost < 0 {
		c.add("budget.maxCost", "%s is negative", *b.MaxCost)
	}
	return b, c.err()
}

// unique keeps the first of equal names, in order, and nil as nil.
func unique(names []string) []string {
	if names == nil {
		return nil
	}
	kept := make([]string, 0, len(names))
	seen := map[string]bool{}
	for _, name := range names {
		if name = clean(name); !seen[name] {
			kept = append(kept, name)
		}
		seen[name] = true
	}
	return kept
}

// cleanNames is a copy, nil when it is empty.
func cleanNames(names []string) []string {
	var c []string
	for _, name := range names {
		c = append(c, clean(name))
	}
	return c
}

// cleanMap is a copy, nil when it is empty.
func cleanMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	c := make(map[string]string, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		c[clean(key)] = clean(m[key])
	}
	return c
}

type problems []Problem

func (c *problems) add(field, format string, args ...any) {
	*c = append(*c, Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// refused takes in an error of this package, which may hold several problems.
func (c *problems) refused(err error) {
	var several problems
	var one *InvalidError
	switch {
	case errors.As(err, &several):
		*c = append(*c, several...)
	case errors.As(err, &one):
		c.add(one.Field, "%s", one.Reason)
	default:
		c.add("definition", "%v", err)
	}
}

// err is nil without problems. It matches ErrInvalid and names the first.
func (c problems) err() error {
	if len(c) == 0 {
		return nil
	}
	return c
}

func (c problems) Error() string {
	texts := make([]string, len(c))
	for i, p := range c {
		texts[i] = fmt.Sprintf("invalid %s: %s", p.Field, p.Message)
	}
	return strings.Join(texts, "; ")
}

func (c problems) Unwrap() error { return &InvalidError{Field: c[0].Field, Reason: c[0].Message} }

func (c *problems) names(field string, names *[]string) {
	*names = unique(*names)
	for i, name := range *names {
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

func (c *problems) memory(m *MemoryPolicy) {
	if m == nil {
		return
	}
	cleanAll(&m.SummaryPrompt, &m.SummaryModel, &m.ToolTrace)
	m.Scopes = cleanNames(m.Scopes)
	strategy := cmp.Or(m.Strategy, PruneSliding)
	if err := oneOf("strategy", strategy, Strategies()); err != nil {
		c.add("memory.strategy", "%s", reasonOf(err))
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
	c.blocks(m)
	c.facts(m.Facts)
	if r := m.Recall; r != nil {
		r.Scopes = cleanNames(r.Scopes)
		if r.Limit < 0 || r.Limit > 100 {
			c.add("memory.recall.limit", "%d is not between 0 and 100", r.Limit)
		}
		c.within("memory.recall.threshold", r.Threshold, 0, 1)
		c.scopes("memory.recall.scopes", r.Scopes)
	}
}

func (c *problems) scopes(field string, scopes []string) {
	for _, s := range scopes {
		if _, space := Space(s); !space && s != "session" && s != "user" && s != "agent" {
			c.add(field, "%s is not session, user, agent or space:NAME", quoted(s))
		}
	}
}

func (c *problems) mcp(servers []MCPServer) {
	seen := map[string]bool{}
	for i := range servers {
		s, field := &servers[i], fmt.Sprintf("mcp[%d]", i)
		cleanAll(&s.ID, &s.Command, &s.URL)
		s.Args, s.Env, s.Headers = cleanNames(s.Args), cleanMap(s.Env), cleanMap(s.Headers)
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
			for _, key := range slices.Sorted(maps.Keys(group)) {
				if SecretKey(key) && !strings.Contains(group[key], "${") {
					c.add(field, "%q must refer to an environment variable as ${NAME}", key)
				}
			}
		}
	}
}
