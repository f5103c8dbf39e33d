// Package permission decides whether an agent may do something: allow, deny
// or ask. It knows no store, no clock and no disk; whoever asks brings the
// time, the rules and where a path leads.
package permission

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/holdfast-dev/holdfast/session"
)

// Config is what an Engine adds to the rules it is asked with.
type Config struct {
	// Guardrails are regular expressions. A command that one of them matches,
	// in the line or in any of its parts, is denied whatever the rules say.
	Guardrails []string
}

// Engine decides. It is immutable and safe for concurrent use; the zero value
// has the built-in guardrails only.
type Engine struct{ guardrails []*regexp.Regexp }

// New makes an engine. A guardrail that is no regular expression is an
// InvalidError.
func New(c Config) (Engine, error) {
	var e Engine
	for i, text := range c.Guardrails {
		pattern, err := regexp.Compile(text)
		if err != nil || text == "" {
			return Engine{}, &session.InvalidError{Field: fmt.Sprintf("guardrails[%d]", i), Reason: fmt.Sprintf("%q is no regular expression", text)}
		}
		e.guardrails = append(e.guardrails, pattern)
	}
	return e, nil
}

// Request is one call of a tool, and all that bears on it.
type Request struct {
	Tool    string
	Known   bool // the tool is one that this program registered
	Effects Effects
	Input   json.RawMessage

	Command string // the line a shell would run
	Path    string // the file or folder; relative to the workspace's root, or absolute

	// ResolvedPath is Path with every symbolic link followed. Empty says that
	// this could not be done, and then nobody knows where Path leads.
	ResolvedPath string

	Server string // MCP
	Domain string // the host that is asked
	Type   string // of the approval this call would need

	Workspace    Workspace
	Mode         string // empty: default
	Instance     string // of the executor
	Restrictions Restrictions

	Rules  []session.Rule // of the session, and any others that are not in Policy
	Policy *Policy        // of the workspace and the user, compiled; may be nil

	Grants  session.Pairs[session.Grant]
	Denials session.Pairs[session.Denial]

	AllowPersistence bool  // an answer may be kept for later calls
	Now              int64 // Unix milliseconds
}

// Workspace is where a task works. Paths have slashes; Root is absolute and
// has its symbolic links followed.
type Workspace struct {
	ID   string
	Root string

	// Capabilities are switched on (true) or off (false). shell and delete
	// must be on to be used; read, write and network must not be off.
	Capabilities map[string]bool
}

// Restrictions narrow the tools of one task.
type Restrictions struct {
	Allowed []string // nil: all
	Denied  []string
}

// Result is a decision, and what a prompt about it shows.
type Result struct {
	Decision         string // allow, deny or ask
	Reason           session.PermissionReason
	MatchedRule      *session.Rule // that decided, if one did
	Scope            session.Scope // that an answer would be kept for
	ScopePreview     string
	SuggestedActions []session.SuggestedAction // of an ask
}

// Soft reports a denial by the mode alone. Only these are counted as denials
// of the scope, and only these turn into a question when they are many.
func (r Result) Soft() bool {
	if r.Decision != session.EffectDeny {
		return false
	}
	return r.Reason.Type == ReasonMode || r.Reason.Type == ReasonUnknownTool || r.Reason.Type == ReasonOutsideWorkspace
}

// Prompt is what is kept of an ask, so that it can be shown again later.
func (r Result) Prompt(q Request) session.PromptContext {
	p := session.PromptContext{
		Type: q.Type, Scope: &r.Scope, Reason: r.Reason, MatchedRule: r.MatchedRule,
		ScopePreview: r.ScopePreview, SuggestedActions: r.SuggestedActions, ServerName: serverName(q.Server),
	}
	return *p.Clone()
}

// Evaluate decides about a call. It is a function of the request alone: the
// order of rules has no part in it.
func (e Engine) Evaluate(q Request) Result {
	f := gather(&q)
	v := e.decide(&f)
	r := Result{
		Decision: v.decision, Reason: v.reason,
		Scope: f.offered, ScopePreview: Preview(f.offered), SuggestedActions: []session.SuggestedAction{},
	}
	if v.rule != nil {
		rule := v.rule.Clone()
		r.MatchedRule = &rule
	}
	if r.Decision == session.EffectAsk {
		r.SuggestedActions = f.actions()
	}
	return r
}
