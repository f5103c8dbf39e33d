package task

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Classes of failures by what may be done about them, besides ClassUser and
// ClassQuota.
const (
	ClassLocalRuntime    = "local_runtime"
	ClassExternalUnknown = "external_unknown"
)

// failureWords are what a text says that no typed error was made of.
var failureWords = []struct {
	class string
	words *regexp.Regexp
}{
	{ClassUser, regexp.MustCompile(`(?i)user (action|input|approval) (is )?(needed|required)|needs? user|waiting for (the |a )?user|user denied|log ?in required|sign in to|captcha`)},
	{ClassQuota, regexp.MustCompile(`(?i)quota|rate.?limit|too many requests|billing|insufficient (funds|credit)|payment required|\b(429|432)\b`)},
	{ClassLocalRuntime, regexp.MustCompile(`(?i)no such file|enoent|does not exist|not found|permission denied|eacces|not a directory|enotdir|syntax error|workspace|command failed|exit (code|status)|exited with|cannot read|failed to read`)},
}

// Classify is what kind of failure an error is. Typed errors decide; the text
// is asked only where there is none.
func Classify(err error) string {
	if err == nil {
		return ClassExternalUnknown
	}
	var provider *llm.ProviderError
	switch {
	case errors.Is(err, session.ErrPermissionDenied):
		return ClassUser
	case llm.OutOfQuota(err), errors.As(err, &provider) && (provider.Status == 429 || provider.Status == 432):
		return ClassQuota
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, session.ErrInvalid):
		return ClassLocalRuntime
	case provider != nil:
		return ClassExternalUnknown
	}
	for _, f := range failureWords {
		if f.words.MatchString(err.Error()) {
			return f.class
		}
	}
	return ClassExternalUnknown
}

var (
	maskedIDs     = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[a-z]+_[0-9a-z]*\d[0-9a-z]*\b|\b[0-9a-f]{12,}\b`)
	maskedPaths   = regexp.MustCompile(`(?:[A-Za-z]:)?(?:[\w.~-]*[/\\])+[\w.-]+`)
	maskedNumbers = regexp.MustCompile(`\d+`)
)

// masked is an error without what differs from one time to the next.
func masked(text string) string {
	text = maskedIDs.ReplaceAllString(text, "<id>")
	text = maskedPaths.ReplaceAllString(text, "<path>")
	return maskedNumbers.ReplaceAllString(text, "<n>")
}

// failureSignature tells one failure of a step from another.
func failureSignature(stepID, class string, cause error) string {
	return fmt.Sprintf("%s|%s|%s", stepID, class, firstChars(masked(cause.Error()), 400))
}

// planRecovery puts a step of kind recovery before the remaining ones, once
// for each failure of a step. It says no where nobody but a person helps, where
// this failure was met already, and for a recovery that failed itself. The
// class comes back in any case.
func (r *Run) planRecovery(ctx context.Context, failed session.PlanStep, cause error) (planned bool, class string, err error) {
	class = Classify(cause)
	state := r.state()
	signature := failureSignature(failed.ID, class, cause)
	note := func(s *session.TaskState) { s.Recovery.Class = &class }
	row := func(t *session.TaskRow) { t.RecoveryClass = class }
	if state.Plan == nil || class == ClassUser || class == ClassQuota || failed.Kind == "recovery" || recoveredBefore(&state, failed.ID, signature) {
		return false, class, r.append(ctx, edit{state: note, row: row})
	}
	plan := session.Plan{Description: state.Plan.Description}
	placed := false
	recovery := session.PlanStep{
		ID: recoveryID(failed.ID, signature), Kind: "recovery", Status: "pending",
		Description: fmt.Sprintf(recoveryStepText, failed.Description, firstChars(cause.Error(), maxErrorShown)),
	}
	for _, step := range state.Plan.Steps {
		if step.Status == "pending" && !placed {
			plan.Steps, placed = append(plan.Steps, recovery), true
		}
		plan.Steps = append(plan.Steps, step)
	}
	if !placed {
		plan.Steps = append(plan.Steps, recovery)
	}
	return true, class, r.append(ctx, edit{
		changes: []session.Change{event("plan_revised", planEvent{Plan: plan, Reason: "recovery"})},
		state: func(s *session.TaskState) {
			note(s)
			s.Recovery.Active, s.Recovery.Failure = true, signature
		},
		row: row,
	})
}

const recoveryPrefix = "recovery:"

// recoveryID names the recovery of one failure of a step.
func recoveryID(stepID, signature string) string {
	return fmt.Sprintf("%s%s:%x", recoveryPrefix, stepID, sha256.Sum256([]byte(signature)))[:len(recoveryPrefix)+len(stepID)+1+12]
}

// recoveredBefore reports a failure that had its recovery.
func recoveredBefore(s *session.TaskState, stepID, signature string) bool {
	_, planned := s.Plan.Step(recoveryID(stepID, signature))
	return planned || s.Recovery.Failure == signature
}

// recovers is the id of the step that a recovery step is for.
func recovers(step session.PlanStep) (string, bool) {
	id, ok := strings.CutPrefix(step.ID, recoveryPrefix)
	if i := strings.LastIndexByte(id, ':'); ok && i > 0 {
		return id[:i], true
	}
	return "", false
}

// recoveryEnded is what a recovery step's end means: the failure it was for is
// made good, or not.
func recoveryEnded(s *session.TaskState, step session.PlanStep) {
	id, ok := recovers(step)
	if !ok {
		return
	}
	s.Recovery.Active = false
	if step.Status == stepCompleted {
		s.Recovery.Recovered = s.Recovery.Recovered.With(id)
	}
}

// ResetForRetry makes another attempt possible: failures of tools, what they
// found, the last outputs and the loop that was blocked are forgotten, and the
// counts of the running step begin anew. What was said and used stays.
func (r *Run) ResetForRetry(ctx context.Context, reason string) error {
	r.dropTools()
	return r.append(ctx, edit{
		state: func(s *session.TaskState) {
			s.Tools.Failures, s.Tools.Results = session.Pairs[session.ToolFailure]{}, nil
			s.Said.Answer, s.Said.Result, s.Said.Shown = nil, nil, nil
			s.Recovery = session.TaskRecovery{RetryReason: &reason}
			s.Loop.Advice = ""
			s.Loop.Blocked, s.Loop.BlockedText, s.Steps.Counts = nil, nil, nil
		},
		row: func(t *session.TaskRow) { t.RetryReason, t.RecoveryClass, t.ToolDisabledScope = reason, "", "" },
	})
}

// When a tool is switched off, and for how long.
const (
	systemicFailures   = 5
	severeFailures     = 2 // writes that take too long
	inputFailures      = 8
	inputFailuresShell = 10
	firstCooldown      = 2 * time.Minute
	longestCooldown    = 16 * time.Minute
)

// failureNature is how a failure of a tool counts.
type failureNature int

const (
	inputDependent failureNature = iota
	systemic
	severe
	final // it will not work the next time either
)

// natureOf decides by the error's type alone: what a tool has to say is about
// what it was asked for.
func natureOf(t tool.Spec, err error) failureNature {
	var (
		provider  *llm.ProviderError
		transient *llm.TransientError
		network   net.Error
	)
	switch late := errors.Is(err, context.DeadlineExceeded); {
	case errors.Is(err, session.ErrUnsupported):
		return final
	case errors.As(err, &provider) && (provider.Status == 401 || provider.Status == 402 || provider.Status == 403):
		return final
	case errors.Is(err, session.ErrInvalid), errors.Is(err, fs.ErrNotExist):
		return inputDependent
	case late && t.Effects.Has(tool.Write):
		return severe
	case late, provider != nil, errors.Is(err, session.ErrPanic), errors.As(err, &transient), errors.As(err, &network):
		return systemic
	}
	return inputDependent
}

// disabling is a failure in the books of a tool.
type disabling struct {
	key   string
	entry session.ToolFailure
	off   bool // it is switched off by this failure
}

// failing counts a failure and decides whether the tool is switched off. A
// tool whose cooldown is over begins at nothing, but is off for longer when it
// goes on failing.
func failing(t session.TaskTools, of tool.Spec, host string, err error, text string, now int64) *disabling {
	d := &disabling{key: of.Name}
	scope := "global"
	switch {
	case host != "":
		d.key, scope = hostKey(of, host), "host"
	case of.Provider != "":
		d.key, scope = providerKey(of), "provider"
	}
	d.entry, _ = t.Failures.Get(d.key)
	if d.entry.DisabledUntil > 0 && now >= d.entry.DisabledUntil {
		d.entry.Systemic, d.entry.InputDependent, d.entry.DisabledUntil = 0, 0, 0
	}
	d.entry.Scope, d.entry.LastError = scope, firstChars(text, maxErrorShown)
	most := inputFailures
	if of.Effects.Has(tool.Shell | tool.Browser) {
		most = inputFailuresShell
	}
	switch natureOf(of, err) {
	case final:
		d.entry.Systemic++
		d.off = true
	case severe:
		d.entry.Systemic++
		d.off = d.entry.Systemic >= severeFailures
	case systemic:
		d.entry.Systemic++
		d.off = d.entry.Systemic >= systemicFailures
	case inputDependent:
		d.entry.InputDependent++
		d.off = d.entry.InputDependent >= most
	}
	if d.off {
		pause := min(firstCooldown<<min(d.entry.Disables, 10), longestCooldown)
		d.entry.Disables++
		d.entry.DisabledUntil = now + pause.Milliseconds()
	}
	return d
}

func (d *disabling) apply(s *session.TaskState) {
	s.Tools.Failures = s.Tools.Failures.With(d.key, d.entry)
	if d.off {
		s.Recovery.DisabledScope = new(d.entry.Scope)
	}
}

// providerKey names a tool as one provider has it.
func providerKey(t tool.Spec) string { return t.Name + "@" + t.Provider }

// hostKey names a tool as it works with one host.
func hostKey(t tool.Spec, host string) string { return t.Name + "@//" + host }

// hostOf returns the host that a call is about, "" for none.
func hostOf(call session.ToolCall) string {
	u, err := url.Parse(argument(call, "url", "uri"))
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// failureKeys are the names under which failures of a call are kept.
func failureKeys(of tool.Spec, host string) []string {
	return []string{of.Name, providerKey(of), hostKey(of, host)}
}

// disabled is why a tool is off for a host, if it is.
func disabled(t session.TaskTools, of tool.Spec, host string, now int64) (session.ToolFailure, bool) {
	for _, key := range failureKeys(of, host) {
		if f, ok := t.Failures.Get(key); ok && f.DisabledUntil > now {
			return f, true
		}
	}
	return session.ToolFailure{}, false
}
