package session

import "cmp"

// Facts says that facts are extracted from what was said, after each turn and
// in the background.
type Facts struct {
	Model  string `json:"model,omitempty"`  // that extracts them; empty: the session's
	Prompt string `json:"prompt,omitempty"` // what to look for; empty: what is worth knowing later
	Scope  string `json:"scope,omitempty"`  // who shares them: user (default) or agent
}

// MemoryScope is the scope that keeps the facts.
func (f *Facts) MemoryScope() string { return cmp.Or(f.Scope, "user") }

func (f *Facts) clone() *Facts { return clonePtr(f) }

// facts checks how facts are extracted.
func (c *problems) facts(f *Facts) {
	if f == nil {
		return
	}
	cleanAll(&f.Model, &f.Prompt, &f.Scope)
	if s := f.MemoryScope(); s != "user" && s != "agent" {
		c.add("memory.facts.scope", "%s is not user or agent", quoted(s))
	}
}
