package task

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

// Classes of failures.
const (
	ClassBudget       = "budget_exhausted"
	ClassTool         = "tool_error"
	ClassContract     = "contract_error"
	ClassVerification = "required_verification"
	ClassDependency   = "dependency_unavailable"
	ClassQuota        = "provider_quota"
	ClassUser         = "user_blocker"
	ClassUnknown      = "unknown"
)

// Kinds of results, as a task's own work or somebody else's ends.
const (
	KindSuccess       = "success"
	KindExternal      = "external_completed"
	KindDeterministic = "deterministic_handled"
	KindPartial       = "partial_success"
	KindTimedOut      = "timed_out"
	KindCancelled     = "cancelled"
	KindNeedsUser     = "needs_user_action"
	KindFailed        = "failed"
)

// statusOfKind is the terminal status and the class of a kind of result. A
// class that is given wins; a good end has none.
func statusOfKind(kind, class string) (terminalStatus, failureClass string) {
	switch kind {
	case KindSuccess, KindExternal, KindDeterministic:
		return TerminalOK, ""
	case KindPartial:
		return TerminalPartial, cmp.Or(class, ClassContract)
	case KindTimedOut, KindCancelled:
		return TerminalPartial, cmp.Or(class, ClassBudget)
	case KindNeedsUser:
		return TerminalNeedsUser, class
	}
	return TerminalFailed, cmp.Or(class, ClassUnknown)
}

// outcome is what a task is to end with.
type outcome struct {
	status         string // completed, failed, paused, blocked or interrupted
	terminalStatus string
	class          string
	error          string
}

// enoughSummary is how long a summary must be to count as a result.
const enoughSummary = 160

// BestOutcome is the best a task has had to show so far.
type BestOutcome struct {
	ResultSummary string   `json:"resultSummary"`
	OutputFiles   []string `json:"outputFiles"`
	CapturedAt    int64    `json:"capturedAt"`
}

// evidence reports that there is something to show.
func evidence(row session.TaskRow) bool {
	shows := func(summary string, files []string) bool {
		return len(files) > 0 || utf8.RuneCountInString(strings.TrimSpace(summary)) >= enoughSummary
	}
	var best BestOutcome
	if len(row.BestKnownOutcome) > 0 {
		_ = json.Unmarshal(row.BestKnownOutcome, &best) // what cannot be read shows nothing
	}
	return shows(row.ResultSummary, row.OutputFiles) || shows(best.ResultSummary, best.OutputFiles)
}

// settled is what becomes of an outcome, given what the row has to show: nobody
// calls a task that left something useful a failure, and nobody one without
// its verification a success.
func (w outcome) settled(row session.TaskRow) outcome {
	hard := w.class == ClassVerification || w.class == ClassUser
	shows := evidence(row)
	switch {
	case w.status == Blocked || w.terminalStatus == TerminalAwaitingApproval:
		return outcome{Blocked, TerminalAwaitingApproval, w.class, w.error}
	case w.status == Paused || w.terminalStatus == TerminalNeedsUser && w.status != Completed:
		return outcome{Paused, TerminalNeedsUser, w.class, w.error}
	case w.status == Completed && w.terminalStatus == TerminalNeedsUser:
		return w
	case w.status == Interrupted:
		return outcome{Interrupted, TerminalResumeAvailable, w.class, w.error}
	case w.status == Failed:
		if shows && !hard {
			return outcome{Completed, TerminalPartial, cmp.Or(w.class, ClassContract), w.error}
		}
		return outcome{Failed, TerminalFailed, cmp.Or(w.class, ClassUnknown), w.error}
	case w.terminalStatus == TerminalFailed:
		return outcome{Failed, TerminalFailed, cmp.Or(w.class, ClassUnknown), w.error}
	case w.terminalStatus == TerminalPartial:
		return outcome{Completed, TerminalPartial, cmp.Or(w.class, ClassContract), w.error}
	case w.class != "" && shows && !hard:
		return outcome{Completed, TerminalPartial, w.class, w.error}
	}
	return outcome{Completed, TerminalOK, "", ""}
}

// unresolved are the failed steps that nothing was done about, and whether one
// of them is a verification that must hold.
func unresolved(s session.TaskState) (ids []string, blocking bool) {
	for _, step := range orPlan(s.Plan).Steps {
		if step.Status != stepFailed || step.Waived ||
			s.Recovery.Recovered.Has(step.ID) || s.Steps.FailedOptional.Has(step.ID) {
			continue
		}
		ids = append(ids, step.ID)
		blocking = blocking || s.Steps.FailedRequired.Has(step.ID)
	}
	return ids, blocking
}

// gated turns a completion into a failure while a step that matters has
// failed and nothing was done about it.
func (w outcome) gated(s session.TaskState) outcome {
	open, blocking := unresolved(s)
	if w.status != Completed || len(open) == 0 {
		return w
	}
	class := cmp.Or(w.class, ClassContract)
	if blocking {
		class = ClassVerification
	}
	return outcome{status: Failed, class: class, error: cmp.Or(w.error, completionBlockedText+strings.Join(open, ", "))}
}

// shown is what the row has to show of a state: the last words, the files, and
// the best of all that came before.
func shown(row *session.TaskRow, s *session.TaskState, now int64) {
	for _, text := range []*string{s.Said.Result, s.Said.Answer, s.Said.Shown} {
		if text != nil && strings.TrimSpace(*text) != "" {
			row.ResultSummary = strings.TrimSpace(*text)
			break
		}
	}
	for _, file := range s.Files.Created {
		if !slices.Contains(row.OutputFiles, file) {
			row.OutputFiles = append(row.OutputFiles, file)
		}
	}
	if shows := *row; evidence(session.TaskRow{ResultSummary: shows.ResultSummary, OutputFiles: shows.OutputFiles}) {
		row.BestKnownOutcome = raw(BestOutcome{ResultSummary: row.ResultSummary, OutputFiles: append([]string{}, row.OutputFiles...), CapturedAt: now})
	}
}
