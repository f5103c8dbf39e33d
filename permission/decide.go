package permission

import (
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// After so many denials by the mode the engine asks instead.
const (
	maxDenialsInARow = 3
	maxDenials       = 20 // since the last question to a person
)

// decide checks what nobody can change first, then what a person chose, then the
// mode.
func (e Engine) decide(f *facts) verdict {
	if v, ok := f.checkRestrictions(); ok {
		return v
	}
	if v, ok := e.checkGuardrails(f); ok {
		return v
	}
	if v, ok := f.checkCapabilities(); ok {
		return v
	}
	if f.location {
		return f.denyIfUnasked(newVerdict(session.EffectAsk, ReasonMode, session.ReasonDetails{Effect: "location"}, textLocation))
	}
	v := f.checkDenied(f.decideByRules())
	v = f.askIfProtected(v)
	v = f.askIfDataLeaves(v)
	v = f.askIfRulesMissing(v)
	v = f.askAfterDenials(v)
	return f.denyIfUnasked(v)
}

// denyIfUnasked denies in the mode dont_ask what another mode would ask for.
func (f *facts) denyIfUnasked(v verdict) verdict {
	if v.decision != session.EffectAsk || f.mode != session.PermissionDontAsk {
		return v
	}
	about := session.ReasonDetails{Mode: f.mode, OriginalReason: v.original()}
	return newVerdict(session.EffectDeny, ReasonMode, about, textDontAsk, v.reason.Summary)
}

func (f *facts) checkRestrictions() (verdict, bool) {
	r, tool := f.q.Restrictions, f.q.Tool
	if (r.Allowed == nil || slices.Contains(r.Allowed, tool)) && !slices.Contains(r.Denied, tool) {
		return verdict{}, false
	}
	return newVerdict(session.EffectDeny, ReasonTaskRestriction, session.ReasonDetails{Tool: tool}, textRestricted, tool), true
}

// checkCapabilities checks what the workspace permits.
func (f *facts) checkCapabilities() (verdict, bool) {
	on := f.q.Workspace.Capabilities
	for _, c := range []struct {
		name   string
		needed bool
		off    bool
	}{
		{"shell", f.isCommand, !on["shell"]},
		{"delete", f.q.Effects.Has(tool.Delete), !on["delete"]},
		{"read", f.q.Effects.Has(tool.Read), off(on, "read")},
		{"write", f.q.Effects.Has(tool.Write), off(on, "write")},
		{"network", f.q.Effects.Has(tool.Network) || f.export, off(on, "network")},
	} {
		if c.needed && c.off {
			return newVerdict(session.EffectDeny, ReasonWorkspaceCapability, session.ReasonDetails{Capability: c.name}, textCapability, c.name), true
		}
	}
	return verdict{}, false
}

func off(capabilities map[string]bool, name string) bool {
	on, set := capabilities[name]
	return set && !on
}

// decideByRules applies rules, grants and mode. Each command of a line is decided
// on its own; the strictest decision counts.
func (f *facts) decideByRules() verdict {
	if !f.isCommand {
		return f.decideOne(nil)
	}
	var worst verdict
	take := func(v verdict) {
		if d := v.strictness() - worst.strictness(); d > 0 || d == 0 && worst.byMode && !v.byMode {
			worst = v
		}
	}
	f.exact = make([]bool, len(f.line.commands))
	for i, c := range f.line.commands {
		v := f.decideOne(c)
		f.exact[i] = v.exact
		take(v)
	}
	if len(f.line.commands) == 0 {
		take(f.decideOne(nil))
	}
	for _, c := range f.line.hidden {
		r := f.bestHidden(c)
		if r != nil && (r.Effect == session.EffectDeny || f.mode != session.PermissionBypass) {
			take(ruleVerdict(r))
		}
	}
	return worst
}

// decideOne decides about a call, or about one command of it.
func (f *facts) decideOne(c command) verdict {
	best := f.best(c)
	if best != nil && best.Effect == session.EffectDeny {
		return ruleVerdict(best)
	}
	if key, ok := f.granted(c); ok {
		v := newVerdict(session.EffectAllow, ReasonBundleGrant, session.ReasonDetails{Grant: key}, textGrant)
		v.exact = key != BundleKey
		return v
	}
	if best != nil && (best.Effect == session.EffectAllow || f.mode != session.PermissionBypass) {
		v := ruleVerdict(best)
		v.exact = best.Effect == session.EffectAllow && best.Scope.Kind == session.ScopeCommandPrefix && len(prefixWords(best)) == len(c)
		return v
	}
	v := f.byMode(c)
	v.byMode = true
	return v
}

// byMode decides by the mode what no rule or grant has decided.
func (f *facts) byMode(c command) verdict {
	mode, strict := f.mode, session.EffectAsk
	if mode == session.PermissionPlan || mode == session.PermissionDontAsk {
		strict = session.EffectDeny
	}
	about := session.ReasonDetails{Mode: mode}
	switch {
	case f.hasPath && !f.inside:
		about.Path, about.ResolvedPath = f.q.Path, f.q.ResolvedPath
		return newVerdict(strict, ReasonOutsideWorkspace, about, textOutside, f.q.Path)
	case f.unknown && mode != session.PermissionBypass:
		about.Tool = f.q.Tool
		return newVerdict(strict, ReasonUnknownTool, about, textUnknown, f.q.Tool)
	case !f.export && f.modeAllows(mode, c):
		return newVerdict(session.EffectAllow, ReasonMode, about, textModeAllow, mode)
	}
	if f.isCommand && f.line.opaque != "" {
		about.Opaque = f.line.opaque
	}
	if strict == session.EffectDeny {
		return newVerdict(strict, ReasonMode, about, textModeDeny, mode)
	}
	return newVerdict(strict, ReasonMode, about, textModeAsk, mode)
}

func (f *facts) modeAllows(mode string, c command) bool {
	if f.isCommand && f.unsandboxed && mode != session.PermissionBypass {
		return false
	}
	switch mode {
	case session.PermissionAcceptEdits:
		return f.reads() || f.edits()
	case session.PermissionDangerousOnly:
		return f.reads() || f.edits() || f.safe(c)
	case session.PermissionAllowKnown:
		_, understood := c.understood()
		return !f.isCommand || understood && f.staysInside(c)
	case session.PermissionBypass:
		return true
	}
	return f.reads()
}

// askIfRulesMissing asks for everything but reading if rules could not be loaded:
// one of them might deny.
func (f *facts) askIfRulesMissing(v verdict) verdict {
	p := f.q.Policy
	if p == nil || p.broken == "" || f.reads() {
		return v
	}
	if v.decision == session.EffectAllow || v.decision == session.EffectAsk && v.byMode {
		return newVerdict(session.EffectAsk, ReasonPolicyError, session.ReasonDetails{Error: p.broken}, textPolicy, p.broken)
	}
	return v
}

// askAfterDenials asks instead of denying for ever what the mode alone denies.
func (f *facts) askAfterDenials(v verdict) verdict {
	if v.decision != session.EffectDeny || !v.byMode || f.mode == session.PermissionDontAsk {
		return v
	}
	d, ok := f.q.Denials.Get(f.scope.Fingerprint())
	if !ok || d.ConsecutiveDenials < maxDenialsInARow && d.TotalDenials-d.PromptedAtTotal < maxDenials {
		return v
	}
	return newVerdict(session.EffectAsk, ReasonDenialFallback, session.ReasonDetails{
		ConsecutiveDenials: d.ConsecutiveDenials, TotalDenials: d.TotalDenials, PromptedAtTotal: d.PromptedAtTotal, OriginalReason: v.original(),
	}, textFallback, d.TotalDenials, d.ConsecutiveDenials)
}
