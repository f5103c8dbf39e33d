package session

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"
)

// The modes of permission: what becomes of a call that no rule decides.
const (
	PermissionPlan          = "plan"               // reads, and deny the rest
	PermissionDefault       = "default"            // reads, and ask for the rest
	PermissionDontAsk       = "dont_ask"           // reads, and deny what default asks for
	PermissionAcceptEdits   = "accept_edits"       // edits in the workspace too
	PermissionDangerousOnly = "dangerous_only"     // harmless commands too
	PermissionAllowKnown    = "allow_known"        // all whose effect is known, but no exports
	PermissionBypass        = "bypass_permissions" // all but exports and what is denied
)

// CheckPermissionMode refuses a mode there is not.
func CheckPermissionMode(mode string) error {
	modes := []string{PermissionPlan, PermissionDefault, PermissionDontAsk, PermissionAcceptEdits, PermissionDangerousOnly, PermissionAllowKnown, PermissionBypass}
	if !slices.Contains(modes, mode) {
		return invalid("permissionMode", "%s is none of %s", quoted(mode), listed(modes))
	}
	return nil
}

// Effects of a rule, and the decisions about a call.
const (
	EffectAllow = "allow"
	EffectAsk   = "ask"
	EffectDeny  = "deny"
)

// Sources of rules. Those of another name are taken and lose to all of these.
const (
	SourceSession           = "session"
	SourceWorkspaceDB       = "workspace_db"
	SourceWorkspaceManifest = "workspace_manifest"
	SourceProfile           = "profile"
	SourceLegacyGuardrails  = "legacy_guardrails"
	SourceLegacySettings    = "legacy_builtin_settings"
)

// Kinds of scope.
const (
	ScopeTool          = "tool"
	ScopePath          = "path"
	ScopeCommandPrefix = "command_prefix"
	ScopeMCPServer     = "mcp_server"
	ScopeDomain        = "domain"
)

// Rule allows or denies what lies in its scope, or has it asked for.
type Rule struct {
	ID        string `json:"id,omitempty"`
	Source    string `json:"source"`
	Effect    string `json:"effect"`
	Scope     Scope  `json:"scope"`
	CreatedAt int64  `json:"createdAt,omitempty"`
	Metadata  Values `json:"metadata,omitempty"`
}

// Fingerprint is the effect and the scope: two rules of one fingerprint say
// the same.
func (r Rule) Fingerprint() string { return r.Effect + ":" + r.Scope.Fingerprint() }

// Normal is the rule as it is kept, its scope brought into one form. A rule
// that cannot be meant so is a RuleError: nothing stands for everything.
func (r Rule) Normal() (Rule, error) {
	cleanAll(&r.ID, &r.Source, &r.Effect)
	if !slices.Contains([]string{EffectAllow, EffectAsk, EffectDeny}, r.Effect) {
		return Rule{}, &RuleError{Field: "effect", Reason: quoted(r.Effect) + " is none of allow, ask, deny"}
	}
	if r.CreatedAt < 0 {
		return Rule{}, &RuleError{Field: "createdAt", Reason: "is negative"}
	}
	var err error
	if r.Scope, err = r.Scope.normal(); err != nil {
		return Rule{}, err
	}
	if len(r.Metadata) == 0 {
		r.Metadata = nil
	} else if r.Metadata, err = compactValues("metadata", r.Metadata, 0); err != nil {
		return Rule{}, &RuleError{Field: "metadata", Reason: err.Error()}
	}
	return r, nil
}

// Clone is a deep copy.
func (r Rule) Clone() Rule {
	if r.Metadata != nil {
		r.Metadata = r.Metadata.Clone()
	}
	return r
}

// Scope is what a rule is about: a kind, and the fields of that kind.
type Scope struct {
	Kind       string `json:"kind"`
	ToolName   string `json:"toolName,omitempty"`   // of tool; narrows path and domain
	ToolPrefix string `json:"toolPrefix,omitempty"` // narrows domain
	Path       string `json:"path,omitempty"`       // absolute, with slashes
	Prefix     string `json:"prefix,omitempty"`     // the first words of a command
	ServerName string `json:"serverName,omitempty"` // lower case
	Domain     string `json:"domain,omitempty"`     // a host, lower case
}

// Fingerprint is the scope as one text, which keys grants and denials.
func (s Scope) Fingerprint() string {
	switch s.Kind {
	case ScopeTool:
		return "tool:" + s.ToolName
	case ScopePath:
		return "path:" + orStar(s.ToolName) + ":" + s.Path
	case ScopeCommandPrefix:
		return "command_prefix:" + s.Prefix
	case ScopeMCPServer:
		return "mcp_server:" + s.ServerName
	case ScopeDomain:
		var narrowed []string
		if s.ToolName != "" {
			narrowed = append(narrowed, "tool="+s.ToolName)
		}
		if s.ToolPrefix != "" {
			narrowed = append(narrowed, "prefix="+s.ToolPrefix)
		}
		return "domain:" + orStar(strings.Join(narrowed, ",")) + ":" + s.Domain
	}
	return s.Kind + ":"
}

func orStar(s string) string {
	if s == "" {
		return "*"
	}
	return s
}

func (s Scope) normal() (Scope, error) {
	cleanAll(&s.Kind, &s.ToolName, &s.ToolPrefix, &s.Path, &s.Prefix, &s.ServerName, &s.Domain)
	s.Prefix = words(s.Prefix)
	s.ServerName = strings.ToLower(strings.TrimSpace(s.ServerName))
	s.Domain = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s.Domain)), ".")

	required, optional := fieldsOfScope(s.Kind)
	if required == "" {
		return Scope{}, &RuleError{Field: "scope.kind", Reason: quoted(s.Kind) + " is none of tool, path, command_prefix, mcp_server, domain"}
	}
	for _, f := range s.fields() {
		mine := f.name == required || slices.Contains(optional, f.name)
		switch blank := strings.TrimSpace(f.text) == ""; {
		case f.text == "" && f.name != required:
		case !mine:
			return Scope{}, &RuleError{Field: "scope." + f.name, Reason: "is no field of the kind " + s.Kind}
		case blank:
			return Scope{}, &RuleError{Field: "scope." + f.name, Reason: "is empty"}
		case f.text == "*":
			return Scope{}, &RuleError{Field: "scope." + f.name, Reason: `"*" would stand for everything`}
		}
	}
	switch {
	case s.Kind == ScopePath && !Absolute(s.Path):
		return Scope{}, &RuleError{Field: "scope.path", Reason: quoted(s.Path) + " is not absolute"}
	case s.Kind == ScopePath:
		s.Path = path.Clean(s.Path)
	case s.Kind == ScopeDomain && (strings.ContainsAny(s.Domain, "*/ \t") || strings.Count(s.Domain, ":") == 1):
		return Scope{}, &RuleError{Field: "scope.domain", Reason: quoted(s.Domain) + " is not the name of a host"}
	}
	return s, nil
}

type scopeField struct{ name, text string }

func (s Scope) fields() []scopeField {
	return []scopeField{
		{"toolName", s.ToolName}, {"toolPrefix", s.ToolPrefix}, {"path", s.Path},
		{"prefix", s.Prefix}, {"serverName", s.ServerName}, {"domain", s.Domain},
	}
}

// fieldsOfScope are the field a kind must have and those it may have.
func fieldsOfScope(kind string) (required string, optional []string) {
	switch kind {
	case ScopeTool:
		return "toolName", nil
	case ScopePath:
		return "path", []string{"toolName"}
	case ScopeCommandPrefix:
		return "prefix", nil
	case ScopeMCPServer:
		return "serverName", nil
	case ScopeDomain:
		return "domain", []string{"toolName", "toolPrefix"}
	}
	return "", nil
}

// words has one space between words, where no quotes give spaces a meaning.
// Only what a shell takes for a space is one.
func words(prefix string) string {
	if strings.ContainsAny(prefix, "\"'\\\n") {
		return strings.Trim(prefix, " \t\n")
	}
	return strings.Join(strings.FieldsFunc(prefix, func(r rune) bool { return r == ' ' || r == '\t' }), " ")
}

// Absolute reports a path that begins at a root, written with slashes: /a, or
// C:/a.
func Absolute(p string) bool {
	drive := len(p) >= 3 && p[1] == ':' && p[2] == '/' && (p[0]|0x20 >= 'a' && p[0]|0x20 <= 'z')
	return drive || strings.HasPrefix(p, "/")
}

// How long a grant lasts.
const (
	GrantDefault = 15 * time.Minute
	grantLongest = 24 * time.Hour
)

// Grant is a permission for a while, given by a person for one scope.
type Grant struct {
	GrantedAt       int64  `json:"grantedAt"`
	ExpiresAt       int64  `json:"expiresAt,omitempty"` // 0: GrantDefault after it was given
	Instance        string `json:"instance,omitempty"`  // of the executor that wrote it
	SurvivesRestart bool   `json:"survivesRestart,omitempty"`
}

// End is the first instant at which the grant is over. No grant lasts longer
// than grantLongest.
func (g Grant) End() int64 {
	if g.ExpiresAt == 0 {
		return g.GrantedAt + GrantDefault.Milliseconds()
	}
	return min(g.ExpiresAt, g.GrantedAt+grantLongest.Milliseconds())
}

// Live reports whether the grant counts at now in an executor. One that was
// written by another executor counts only where it survives restarts.
func (g Grant) Live(now int64, instance string) bool {
	mine := g.Instance != "" && g.Instance == instance
	return now < g.End() && (mine || g.SurvivesRestart)
}

// Denial counts how often a mode has denied one scope.
type Denial struct {
	ConsecutiveDenials int `json:"consecutiveDenials"`
	TotalDenials       int `json:"totalDenials"`
	PromptedAtTotal    int `json:"promptedAtTotal,omitempty"` // TotalDenials when a person last answered
}

// PermissionReason says why a call was decided as it was.
type PermissionReason struct {
	Type     string        `json:"type"`
	Summary  string        `json:"summary"`
	Metadata ReasonDetails `json:"metadata,omitzero"`
}

// ReasonDetails are the things that a decision is about. Each type of reason has
// its own.
type ReasonDetails struct {
	Mode               string            `json:"mode,omitempty"`
	Tool               string            `json:"tool,omitempty"`
	Effect             string            `json:"effect,omitempty"`
	Capability         string            `json:"capability,omitempty"`
	Guardrail          string            `json:"guardrail,omitempty"`
	Grant              string            `json:"grant,omitempty"`       // its key
	Source             string            `json:"source,omitempty"`      // of a rule
	Fingerprint        string            `json:"fingerprint,omitempty"` // of a rule
	Path               string            `json:"path,omitempty"`
	ResolvedPath       string            `json:"resolvedPath,omitempty"`
	URL                string            `json:"url,omitempty"`
	Opaque             string            `json:"opaque,omitempty"` // why a command line does not show what it does
	Error              string            `json:"error,omitempty"`  // why rules could not be loaded
	ConsecutiveDenials int               `json:"consecutiveDenials,omitempty"`
	TotalDenials       int               `json:"totalDenials,omitempty"`
	PromptedAtTotal    int               `json:"promptedAtTotal,omitempty"`
	OriginalReason     *PermissionReason `json:"originalReason,omitempty"` // of a decision that this one replaces
}

// SuggestedAction is one answer a person may give to a prompt.
type SuggestedAction struct {
	Action      string `json:"action"`
	Label       string `json:"label"`
	Effect      string `json:"effect"`
	Destination string `json:"destination,omitempty"` // where the answer is kept: session, workspace, profile
}

// PromptContext is all that is needed to show a prompt, also after a restart.
type PromptContext struct {
	Type             string            `json:"type,omitempty"` // what kind of approval it is, such as run_command
	Scope            *Scope            `json:"scope,omitempty"`
	Reason           PermissionReason  `json:"reason"`
	MatchedRule      *Rule             `json:"matchedRule,omitempty"`
	ScopePreview     string            `json:"scopePreview"`
	SuggestedActions []SuggestedAction `json:"suggestedActions"`
	ServerName       string            `json:"serverName,omitempty"`
	SecurityContext  json.RawMessage   `json:"securityContext,omitempty"`
}

// Clone is a deep copy; nil gives nil.
func (p *PromptContext) Clone() *PromptContext {
	if p == nil {
		return nil
	}
	c := *p
	c.Scope = clonePtr(p.Scope)
	c.Reason.Metadata.OriginalReason = clonePtr(p.Reason.Metadata.OriginalReason)
	if p.MatchedRule != nil {
		rule := p.MatchedRule.Clone()
		c.MatchedRule = &rule
	}
	c.SuggestedActions = cloneList(p.SuggestedActions)
	c.SecurityContext = slices.Clone(p.SecurityContext)
	return &c
}
