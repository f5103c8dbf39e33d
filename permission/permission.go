// Package permission decides whether an agent may do something: allow, deny or
// ask. It knows no store and no clock; the caller passes the time, the rules and
// resolved paths.
package permission

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Config adds to the rules of each request.
type Config struct {
	// Guardrails are regular expressions. A command line that matches one, as a
	// whole or in any part, is denied whatever the rules say.
	Guardrails []string

	// Unsandboxed says that commands run without a sandbox that would hold them.
	// Then no mode but bypass_permissions lets one run unasked.
	Unsandboxed bool
}

// Engine makes decisions. It is immutable and safe for concurrent use; the zero
// value has only the built-in guardrails.
type Engine struct {
	guardrails  []*regexp.Regexp
	unsandboxed bool
}

// New makes an engine. An invalid regular expression is an InvalidError.
func New(c Config) (Engine, error) {
	e := Engine{unsandboxed: c.Unsandboxed}
	for i, text := range c.Guardrails {
		pattern, err := regexp.Compile(text)
		if err != nil || text == "" {
			return Engine{}, &session.InvalidError{Field: fmt.Sprintf("guardrails[%d]", i), Reason: fmt.Sprintf("%q is not a regular expression", text)}
		}
		e.guardrails = append(e.guardrails, pattern)
	}
	return e, nil
}

// Request is one tool call with everything that the decision depends on.
type Request struct {
	Tool    string
	Known   bool // this program has registered the tool
	Effects tool.Effects
	Input   json.RawMessage

	Command string // the command line for a shell
	Path    string // the file or folder; relative to the workspace's root, or absolute

	// ResolvedPath is Path with every symbolic link followed. Empty means that
	// this failed: Path may lead anywhere.
	ResolvedPath string
	Deep         bool // the call reads everything below Path

	Server string // MCP
	Domain string // the host of a network request
	URL    string // of a network request
	Type   string // of the approval this call would need

	Workspace    Workspace
	Mode         string // empty: default
	Instance     string // of the executor
	Tainted      bool   // the session has read secrets, or texts of strangers
	Restrictions Restrictions

	Rules  []session.Rule // of the session, and others that are not in Policy
	Policy *Policy        // of the workspace and the user, compiled; may be nil

	Grants  session.Pairs[session.Grant]
	Denials session.Pairs[session.Denial]

	AllowPersistence bool  // the person's answer may be saved for later calls
	Now              int64 // Unix milliseconds
}

// Workspace is the folder of an agent. Paths have slashes; Root is absolute and
// has no symbolic links.
type Workspace struct {
	ID   string
	Root string

	// Capabilities are on (true) or off (false). shell and delete are off by
	// default; read, write and network are on by default. agents_file, on by
	// default, is whether the agent is told what AGENTS.md of the folder says.
	Capabilities map[string]bool
}

// Resolved returns the workspace with a root that is absolute and without
// symbolic links, and with an id. A workspace without a root stays as it is.
func (w Workspace) Resolved() (Workspace, error) {
	if w.Root == "" {
		return w, nil
	}
	root, err := filepath.Abs(w.Root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return w, &session.InvalidError{Field: "workspace", Reason: err.Error()}
	}
	w.Root = filepath.ToSlash(root)
	w.ID = cmp.Or(w.ID, w.Root)
	return w, nil
}

// Restrictions limit the tools of one task.
type Restrictions struct {
	Allowed []string // nil: all
	Denied  []string
}

// Result is a decision with what a prompt about it shows.
type Result struct {
	Decision         string // allow, deny or ask
	Reason           session.PermissionReason
	MatchedRule      *session.Rule // the rule that decided, if one did
	Scope            session.Scope // that a saved answer would have
	ScopePreview     string
	SuggestedActions []session.SuggestedAction // if Decision is ask
}

// Soft reports a denial by the mode alone. Only these are counted, and after too
// many of them the engine asks instead.
func (r Result) Soft() bool {
	if r.Decision != session.EffectDeny {
		return false
	}
	return r.Reason.Type == ReasonMode || r.Reason.Type == ReasonUnknownTool || r.Reason.Type == ReasonOutsideWorkspace
}

// Prompt returns what to store of an ask, so that it can be shown later.
func (r Result) Prompt(q Request) session.PromptContext {
	p := session.PromptContext{
		Type: q.Type, Scope: &r.Scope, Reason: r.Reason, MatchedRule: r.MatchedRule,
		ScopePreview: r.ScopePreview, SuggestedActions: r.SuggestedActions, ServerName: serverName(q.Server),
	}
	return *p.Clone()
}

// Evaluate decides about a call. The result depends only on the request, and not
// on the order of rules.
func (e Engine) Evaluate(q Request) Result {
	f := readFacts(&q)
	f.unsandboxed = e.unsandboxed
	v := e.decide(&f)
	r := Result{
		Decision: v.decision, Reason: v.reason,
		Scope: f.scope, ScopePreview: f.preview(), SuggestedActions: []session.SuggestedAction{},
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
