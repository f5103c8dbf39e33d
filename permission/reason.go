package permission

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
)

// Types of reasons.
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
)

// What reasons say to a person.
const (
	sayRestricted = "This task may not use %s."
	sayGuardrail  = "The command would do lasting harm: %s."
	sayCapability = "The workspace does not permit %s."
	sayLocation   = "Where you are is told only when you say so each time."
	sayRule       = "A rule (%s) says %s for %s."
	sayGrant      = "You permitted this for a while."
	sayModeAllow  = "Mode %s permits this."
	sayModeAsk    = "Mode %s asks before this."
	sayModeDeny   = "Mode %s does not permit this."
	sayUnknown    = "What %s does is not known."
	sayOutside    = "%s is outside the workspace."
	sayFallback   = "The mode has denied this %d times, %d of them in a row."
	sayPolicy     = "The rules of the workspace cannot be read: %s."
)

type verdict struct {
	decision string
	reason   session.PermissionReason
	rule     *session.Rule
	byMode   bool // no rule, grant or guardrail had a part in it
}

// strictness orders decisions: of several the strictest counts.
func (v verdict) strictness() int { return effectRank(v.decision) }

func because(decision, kind string, metadata map[string]any, format string, args ...any) verdict {
	return verdict{decision: decision, reason: session.PermissionReason{
		Type: kind, Summary: fmt.Sprintf(format, args...), Metadata: metadata,
	}}
}

func becauseOf(r *session.Rule) verdict {
	v := because(r.Effect, ReasonRule, map[string]any{"source": r.Source, "fingerprint": r.Fingerprint()},
		sayRule, r.Source, r.Effect, Preview(r.Scope))
	v.rule = r
	return v
}
