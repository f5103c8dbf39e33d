package permission

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
)

// Values of session.PermissionReason.Type.
const (
	ReasonTaskRestriction     = "task_restriction"
	ReasonGuardrail           = "guardrail"
	ReasonWorkspaceCapability = "workspace_capability"
	ReasonRule                = "rule"
	ReasonBundleGrant         = "bundle_grant"
	ReasonMode                = "mode"
	ReasonUnknownTool         = "unknown_tool"
	ReasonOutsideWorkspace    = "outside_workspace"
	ReasonDenialFallback      = "denial_fallback"
	ReasonPolicyError         = "policy_error"
	ReasonProtected           = "protected_path"
	ReasonDataLeaves          = "data_leaves"
)

// Summaries for a person.
const (
	textRestricted = "This task may not use %s."
	textGuardrail  = "The command could do lasting damage: %s."
	textCapability = "The workspace does not permit %s."
	textLocation   = "Your location is shared only if you allow it each time."
	textRule       = "A rule (%s) says %s for %s."
	textGrant      = "You have allowed this for some time."
	textModeAllow  = "Mode %s permits this."
	textModeAsk    = "Mode %s asks before this."
	textModeDeny   = "Mode %s does not permit this."
	textUnknown    = "The effects of %s are not known."
	textOutside    = "%s is outside the workspace."
	textFallback   = "The mode has denied this %d times, %d of them in a row."
	textProtected  = "Other programs take orders from %s: a change is asked for each time."
	textDataLeaves = "This session has read secrets or texts of strangers, and the address could carry data to %s."
	textDontAsk    = "Mode dont_ask does not permit what must be asked for: %s"
	textPossible   = "A rule (%s) denies %s, and it cannot be ruled out that this does it."
	textPolicy     = "The rules of the workspace cannot be read: %s."
)

type verdict struct {
	decision string
	reason   session.PermissionReason
	rule     *session.Rule
	byMode   bool // decided by the mode alone
	exact    bool // a person allowed the very command
}

// strictness orders decisions: the strictest counts.
func (v verdict) strictness() int { return effectRank(v.decision) }

// original is the reason of a decision that another one replaces.
func (v verdict) original() *session.PermissionReason {
	return &session.PermissionReason{Type: v.reason.Type, Summary: v.reason.Summary}
}

func newVerdict(decision, kind string, about session.ReasonDetails, format string, args ...any) verdict {
	return verdict{decision: decision, reason: session.PermissionReason{
		Type: kind, Summary: fmt.Sprintf(format, args...), Metadata: about,
	}}
}

func ruleVerdict(r *session.Rule) verdict {
	v := newVerdict(r.Effect, ReasonRule, session.ReasonDetails{Source: r.Source, Fingerprint: r.Fingerprint()},
		textRule, r.Source, r.Effect, Preview(r.Scope))
	v.rule = r
	return v
}

// possibleVerdict asks about what a rule may deny.
func possibleVerdict(r *session.Rule) verdict {
	v := ruleVerdict(r)
	v.decision, v.reason.Summary = session.EffectAsk, fmt.Sprintf(textPossible, r.Source, Preview(r.Scope))
	return v
}
