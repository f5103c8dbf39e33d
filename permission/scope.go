package permission

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// browserTools is the prefix of the names of browser tools.
const browserTools = "browser_"

// answerScope returns the scope of a saved answer. For a command it is all its
// words: its folder or host would match any command.
func (f *facts) answerScope() session.Scope {
	q := f.q
	switch c, plain := f.line.plain(); {
	case f.isCommand && plain:
		return session.Scope{Kind: session.ScopeCommandPrefix, Prefix: c.prefix()}
	case f.isCommand:
	case f.domain != "" && q.Effects.Has(tool.Browser):
		return session.Scope{Kind: session.ScopeDomain, ToolPrefix: browserTools, Domain: f.domain}
	case f.domain != "" && (q.Effects.Has(tool.Network) || f.export):
		return session.Scope{Kind: session.ScopeDomain, ToolName: q.Tool, Domain: f.domain}
	case f.path != "":
		return session.Scope{Kind: session.ScopePath, ToolName: q.Tool, Path: f.path}
	}
	if f.server != "" {
		return session.Scope{Kind: session.ScopeMCPServer, ServerName: f.server}
	}
	return session.Scope{Kind: session.ScopeTool, ToolName: q.Tool}
}

// preview describes what a saved answer would allow.
func (f *facts) preview() string {
	if c, plain := f.line.plain(); f.isCommand && plain {
		if _, understood := c.understood(); !understood {
			return `the command "` + f.scope.Prefix + `"`
		}
	}
	return Preview(f.scope)
}

// Preview describes a scope in words.
func Preview(s session.Scope) string {
	switch s.Kind {
	case session.ScopePath:
		if s.ToolName != "" {
			return fmt.Sprintf("%s on path %s", s.ToolName, s.Path)
		}
		return "path " + s.Path
	case session.ScopeCommandPrefix:
		return `commands starting with "` + s.Prefix + `"`
	case session.ScopeMCPServer:
		return "MCP server " + s.ServerName
	case session.ScopeDomain:
		switch {
		case s.ToolName != "":
			return fmt.Sprintf("%s on domain %s", s.ToolName, s.Domain)
		case s.ToolPrefix != "":
			return fmt.Sprintf("%s* on domain %s", s.ToolPrefix, s.Domain)
		}
		return "domain " + s.Domain
	}
	return "tool " + s.ToolName
}

// Answers to a prompt.
const (
	DenyOnce       = "deny_once"
	AllowOnce      = "allow_once"
	DenySession    = "deny_session"
	AllowSession   = "allow_session"
	DenyWorkspace  = "deny_workspace"
	AllowWorkspace = "allow_workspace"
	DenyProfile    = "deny_profile"
	AllowProfile   = "allow_profile"
)

var (
	onceActions = []session.SuggestedAction{
		{Action: DenyOnce, Label: "Deny", Effect: session.EffectDeny},
		{Action: AllowOnce, Label: "Allow once", Effect: session.EffectAllow},
	}
	keptActions = []session.SuggestedAction{
		{Action: DenySession, Label: "Always deny in this session", Effect: session.EffectDeny, Destination: "session"},
		{Action: AllowSession, Label: "Allow in this session", Effect: session.EffectAllow, Destination: "session"},
		{Action: DenyWorkspace, Label: "Always deny in this workspace", Effect: session.EffectDeny, Destination: "workspace"},
		{Action: AllowWorkspace, Label: "Allow in this workspace", Effect: session.EffectAllow, Destination: "workspace"},
		{Action: DenyProfile, Label: "Always deny", Effect: session.EffectDeny, Destination: "profile"},
		{Action: AllowProfile, Label: "Always allow", Effect: session.EffectAllow, Destination: "profile"},
	}
)

// actions lists the possible answers. An answer can be saved only if its scope
// is exactly what was asked.
func (f *facts) actions() []session.SuggestedAction {
	actions := append([]session.SuggestedAction{}, onceActions...)
	if !f.q.AllowPersistence || f.location || f.changesProtected() != "" {
		return actions
	}
	if f.isCommand {
		if _, ok := f.line.plain(); !ok {
			return actions
		}
	}
	for _, a := range keptActions {
		if a.Destination != "profile" || !f.export {
			actions = append(actions, a)
		}
	}
	return actions
}
