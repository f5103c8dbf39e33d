package permission

import (
	"slices"

	"github.com/holdfast-dev/holdfast/session"
)

// When a mode has denied often enough to ask instead.
const (
	denialsInARow  = 3
	denialsInTotal = 20 // since a person was last asked
)

// decide goes from what nobody can change to what a person chose to what the
// mode makes of the rest.
func (e Engine) decide(f *facts) verdict {
	if v, ok := f.restricted(); ok {
		return v
	}
	if v, ok := e.guarded(f); ok {
		return v
	}
	if v, ok := f.incapable(); ok {
		return v
	}
	if f.location {
		return because(session.EffectAsk, ReasonMode, map[string]any{"effect": "location"}, sayLocation)
	}
	return f.fallBack(f.distrust(f.weigh()))
}

func (f *facts) restricted() (verdict, bool) {
	r, tool := f.q.Restrictions, f.q.Tool
	if (r.Allowed == nil || slices.Contains(r.Allowed, tool)) && !slices.Contains(r.Denied, tool) {
		return verdict{}, false
	}
	return because(session.EffectDeny, ReasonTaskRestriction, map[string]any{"tool": tool}, sayRestricted, tool), true
}

// incapable checks what the workspace permits.
func (f *facts) incapable() (verdict, bool) {
	on := f.q.Workspace.Capabilities
	for _, c := range []struct {
		name   string
		needed bool
		off    bool
	}{
		{"shell", f.isCommand, !on["shell"]},
		{"delete", f.q.Effects.Has(Delete), !on["delete"]},
		{"read", f.q.Effects.Has(Read), off(on, "read")},
		{"write", f.q.Effects.Has(Write), off(on, "write")},
		{"network", f.q.Effects.Has(Network) || f.export, off(on, "network")},
	} {
		if c.needed && c.off {
			return because(session.EffectDeny, ReasonWorkspaceCapability, map[string]any{"capability": c.name}, sayCapability, c.name), true
		}
	}
	return verdict{}, false
}

func off(capabilities map[string]bool, name string) bool {
	on, said := capabilities[name]
	return said && !on
}

// weigh is rules, grants and mode. Of a line each command is decided on its
// own, and the strictest decision is that of the line.
func (f *facts) weigh() verdict {
	if !f.isCommand {
		return f.one(nil)
	}
	var worst verdict
	take := func(v verdict) {
		if v.strictness() > worst.strictness() {
			worst = v
		}
	}
	for _, c := range f.line.commands {
		take(f.one(c))
	}
	if len(f.line.commands) == 0 {
		take(f.one(nil))
	}
	for _, c := range f.line.hidden {
		r := f.bestHidden(c)
		if r != nil && (r.Effect == session.EffectDeny || f.mode != session.PermissionBypass) {
			take(becauseOf(r))
		}
	}
	return worst
}

// one decides about a call, or about one command of it.
func (f *facts) one(c command) verdict {
	best := f.best(c)
	if best != nil && best.Effect == session.EffectDeny {
		return becauseOf(best)
	}
	if key, ok := f.granted(c); ok {
		return because(session.EffectAllow, ReasonBundleGrant, map[string]any{"grant": key}, sayGrant)
	}
	if best != nil && (best.Effect == session.EffectAllow || f.mode != session.PermissionBypass) {
		return becauseOf(best)
	}
	v := f.byMode(c)
	v.byMode = true
	return v
}

// byMode is what the mode makes of what nobody decided.
func (f *facts) byMode(c command) verdict {
	mode, strict := f.mode, session.EffectAsk
	if mode == session.PermissionPlan {
		strict = session.EffectDeny
	}
	about := map[string]any{"mode": mode}
	switch {
	case f.hasPath && !f.inside:
		about["path"], about["resolvedPath"] = f.q.Path, f.q.ResolvedPath
		return because(strict, ReasonOutsideWorkspace, about, sayOutside, f.q.Path)
	case f.unknown && mode != session.PermissionBypass:
		about["tool"] = f.q.Tool
		return because(strict, ReasonUnknownTool, about, sayUnknown, f.q.Tool)
	case !f.export && f.modeAllows(mode, c):
		return because(session.EffectAllow, ReasonMode, about, sayModeAllow, mode)
	}
	if f.isCommand && f.line.opaque != "" {
		about["opaque"] = f.line.opaque
	}
	if strict == session.EffectDeny {
		return because(strict, ReasonMode, about, sayModeDeny, mode)
	}
	return because(strict, ReasonMode, about, sayModeAsk, mode)
}

func (f *facts) modeAllows(mode string, c command) bool {
	switch mode {
	case session.PermissionAcceptEdits:
		return f.reads() || f.edits()
	case session.PermissionDangerousOnly:
		return f.reads() || f.edits() || f.safe(c)
	case session.PermissionDontAsk, session.PermissionBypass:
		return true
	}
	return f.reads()
}

// distrust asks for all but reading where rules are missing: one that denies
// might be among them.
func (f *facts) distrust(v verdict) verdict {
	p := f.q.Policy
	if p == nil || p.broken == "" || f.reads() {
		return v
	}
	if v.decision == session.EffectAllow || v.decision == session.EffectAsk && v.byMode {
		return because(session.EffectAsk, ReasonPolicyError, map[string]any{"error": p.broken}, sayPolicy, p.broken)
	}
	return v
}

// fallBack asks instead of denying for ever what the mode alone denies.
func (f *facts) fallBack(v verdict) verdict {
	if v.decision != session.EffectDeny || !v.byMode {
		return v
	}
	d, ok := f.q.Denials.Get(f.offered.Fingerprint())
	if !ok || d.ConsecutiveDenials < denialsInARow && d.TotalDenials-d.PromptedAtTotal < denialsInTotal {
		return v
	}
	return because(session.EffectAsk, ReasonDenialFallback, map[string]any{
		"consecutiveDenials": d.ConsecutiveDenials, "totalDenials": d.TotalDenials, "promptedAtTotal": d.PromptedAtTotal,
		"originalReason": map[string]any{"type": v.reason.Type, "summary": v.reason.Summary},
	}, sayFallback, d.TotalDenials, d.ConsecutiveDenials)
}
