package holdfast

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Permissions decides which tool calls run without asking. What a session has
// been allowed, its mode included, is part of the session.
type Permissions struct {
	Engine permission.Engine
	Rules  RuleStore // rules of workspaces and of the user; nil: none
	Mode   string    // of conversations in default mode; empty: default
	// Workspace is where a session works. Nil: nowhere, so that every path lies
	// outside.
	Workspace func(s session.Session) permission.Workspace
	// Instance names the process in grants that end with it.
	Instance string
	Warn     func(p *permission.Policy) // about rules that cannot be used; nil: nobody is told
}

// RuleStore keeps the rules that outlive a session.
type RuleStore interface {
	// Policy returns the rules in force in a workspace, compiled. Rules that
	// cannot be read are part of it: whatever is more than reading is then asked
	// for.
	Policy(ctx context.Context, w permission.Workspace) (*permission.Policy, error)
	// Add keeps a rule for a workspace ("workspace_db") or for the user
	// ("profile"), as its source says; false says that it was there.
	Add(ctx context.Context, w permission.Workspace, r session.Rule) (added bool, err error)
}

// NewGate returns a gate that decides about tool calls by permissions. Tools
// that a client or a person carries out need none.
func (rt *Runtime) NewGate(p Permissions) agent.Gate { return gate{rt, p} }

type gate struct {
	rt *Runtime
	p  Permissions
}

// Admit runs, refuses or asks about a call. A call that a person approved runs
// unless something forbids it that nobody may allow.
func (g gate) Admit(ctx context.Context, s session.Session, call agent.Call) (agent.Admission, error) {
	spec := call.Tool.Spec()
	if spec.Runner != tool.ByProgram {
		return agent.Admission{}, nil
	}
	q, err := g.request(ctx, s)
	if err != nil {
		return agent.Admission{}, err
	}
	requests := q.ForCall(call.ToolCall, spec)
	request, decided := g.p.Engine.Strictest(requests)
	scope := decided.Scope.Fingerprint()
	permit := g.permitFor(spec, requests)
	executed := agent.Admission{Permit: permit}
	if _, counted := q.Denials.Get(scope); counted || decided.Decision != session.EffectAllow { // else there is nothing to reset
		executed.Changes = append(executed.Changes, session.PermissionNoted{Scope: scope, Note: session.NoteExecuted})
	}
	if !q.Tainted && slices.ContainsFunc(requests, permission.Request.Taints) {
		executed.Changes = append(executed.Changes, session.PermissionNoted{Scope: scope, Note: session.NoteTainted})
	}
	switch {
	case decided.Decision == session.EffectAllow:
		return executed, nil
	case call.Approved != nil && (decided.Decision != session.EffectDeny || decided.Soft()):
		return executed, nil
	case decided.Decision == session.EffectDeny:
		refused := agent.Admission{
			Refusal: &tool.Result{Content: (&session.PermissionDeniedError{Reason: decided.Reason.Summary}).Error(), IsError: true},
			Reason:  decided.Reason,
		}
		if decided.Soft() {
			refused.Changes = []session.Change{session.PermissionNoted{Scope: scope, Note: session.NoteDenied}}
		}
		return refused, nil
	}
	asked, err := g.pendingCall(request, decided)
	if err != nil {
		return agent.Admission{}, err
	}
	describeCall(ctx, asked, call, permit)
	return agent.Admission{Pending: asked}, nil
}

// request is what permissions need to know of a session.
func (g gate) request(ctx context.Context, s session.Session) (permission.Request, error) {
	var w permission.Workspace
	if g.p.Workspace != nil {
		w = g.p.Workspace(s)
	}
	def, own := s.Definition(), s.Permissions()
	if s.Task() == nil && own.Mode == session.PermissionDefault && g.p.Mode != "" {
		own.Mode = g.p.Mode
	}
	q := permission.Request{
		Workspace: w, Mode: own.Mode, Instance: g.p.Instance,
		Restrictions: permission.Restrictions{Allowed: chosenTools(def), Denied: def.ToolsDeny},
		Rules:        own.SessionRules, Grants: own.TemporaryGrants, Denials: own.DenialTracking,
		AllowPersistence: true, Now: g.rt.config.Now().UnixMilli(),
		// A subagent is told what its parent has read.
		Tainted: own.Tainted || s.Info().Origin == session.OriginSubagent,
	}
	if g.p.Rules == nil {
		return q, nil
	}
	var err error
	if q.Policy, err = g.p.Rules.Policy(ctx, w); err == nil && g.p.Warn != nil {
		g.p.Warn(q.Policy)
	}
	return q, err
}

// ruleSources are where the rule of an answer is kept.
var ruleSources = map[string]string{
	"session": session.SourceSession, "workspace": session.SourceWorkspaceDB, "profile": session.SourceProfile,
}

// pendingCall makes the question about a call. Each choice carries the rule
// that it would add.
func (g gate) pendingCall(q permission.Request, decided permission.Result) (*session.PendingCall, error) {
	details, err := session.JSON(decided.Prompt(q))
	if err != nil {
		return nil, err
	}
	p := &session.PendingCall{
		Kind: session.PendingApproval, Prompt: fmt.Sprintf("%s (%s)", decided.Reason.Summary, askedFor(q, decided)), Details: details,
	}
	for _, action := range decided.SuggestedActions {
		source, kept := ruleSources[action.Destination]
		if kept && source != session.SourceSession && g.p.Rules == nil {
			continue // nobody could keep such an answer
		}
		choice := session.Choice{Value: action.Action, Label: action.Label}
		if kept {
			rule, err := permission.CheckRule(session.Rule{Source: source, Effect: action.Effect, Scope: decided.Scope})
			if err != nil {
				continue // a rule that cannot be written is not offered
			}
			choice.Rule = &rule
		}
		p.Choices = append(p.Choices, choice)
	}
	return p, nil
}

// Responded keeps the rule that the response chose.
func (g gate) Responded(ctx context.Context, s session.Session, p session.PendingCall, r session.Response) ([]session.Change, error) {
	if p.Kind != session.PendingApproval || r.Action == session.RespondExpire || r.Action == session.RespondCancel {
		return nil, nil
	}
	var changes []session.Change
	if scope := askedScope(p); scope != "" {
		changes = append(changes, session.PermissionNoted{Scope: scope, Note: session.NoteAnswered})
	}
	i := slices.IndexFunc(p.Choices, func(c session.Choice) bool { return c.Value == r.Choice && c.Rule != nil })
	if i < 0 {
		return changes, nil
	}
	rule := *p.Choices[i].Rule
	rule.ID, rule.CreatedAt = g.rt.config.NewID(), g.rt.config.Now().UnixMilli()
	if rule.Source == session.SourceSession {
		if _, added, err := s.Permissions().WithRule(rule); err != nil || !added {
			return changes, nil // there is no room for it, or it is there already
		}
	} else if g.p.Rules != nil {
		var w permission.Workspace
		if g.p.Workspace != nil {
			w = g.p.Workspace(s)
		}
		if _, err := g.p.Rules.Add(ctx, w, rule); err != nil {
			return nil, fmt.Errorf("keep the rule: %w", err)
		}
	}
	return append(changes, session.PermissionRuleAdded(rule)), nil
}

// askedScope returns the fingerprint of the scope that an approval is about.
func askedScope(p session.PendingCall) string {
	var prompt session.PromptContext
	if json.Unmarshal(p.Details, &prompt) != nil || prompt.Scope == nil {
		return ""
	}
	return prompt.Scope.Fingerprint()
}
