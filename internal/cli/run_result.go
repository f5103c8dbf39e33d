package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// outcomeOfRun is what a run has come to, for programs.
type outcomeOfRun struct {
	SessionID    *string             `json:"session_id"` // null: it was refused before there was one
	Status       *workflow.Status    `json:"status"`
	Pattern      *spec.PatternType   `json:"pattern"`
	Agent        *string             `json:"agent"`
	LastResponse *string             `json:"last_response"`
	Question     *workflow.HITLState `json:"question"`
	Artifacts    []string            `json:"artifacts"`
	Usage        usageOfRun          `json:"usage"`
	ExitCode     int                 `json:"exit_code"`
	Error        *string             `json:"error"`
}

type usageOfRun struct {
	workflow.TokenUsage
	Cost      session.Cost `json:"cost"`
	Estimated []string     `json:"estimated"` // agents whose tokens were counted by words
}

// tell shows what the pass has come to, and is the error that the program ends
// with.
func (j *runPass) tell(err error) error {
	switch r := j.result; {
	case errors.Is(err, errLeft):
		err = errQuestionPrinted // the question stays open
	case err == nil && r.Status == workflow.StatusPaused && len(r.Waiting) > 0:
		err = errQuestionPrinted
	}
	if err != nil && !errors.Is(err, errQuestionPrinted) {
		err = j.explain(err)
	}
	if len(j.result.Changed) > 0 {
		j.WarnEarly("the spec has changed since the run began, which goes on with its own copy; --accept-changes takes these over: %s", strings.Join(j.result.Changed, ", "))
	}
	if j.JSON {
		if printed := j.PrintJSON(j.outcome(err)); printed != nil {
			return printed
		}
		return err
	}
	switch {
	case errors.Is(err, errQuestionPrinted):
		j.showWaiting()
	case err == nil:
		for _, path := range j.result.Wrote {
			j.Err.Status("wrote %s", path)
		}
		if j.view != nil && j.view.Live {
			fmt.Fprintln(j.Err)
		}
		return j.Out.Print(j.ForOutput(j.result.LastResponse) + "\n")
	}
	return err
}

// outcome is the result as JSON has it.
func (j *runPass) outcome(err error) outcomeOfRun {
	r := j.result
	o := outcomeOfRun{Question: r.Question, Artifacts: append([]string{}, r.Artifacts...), Usage: usageOfRun{TokenUsage: r.Usage, Cost: r.Cost, Estimated: []string{}}}
	o.ExitCode, _ = exitCodeOf(err)
	if o.Usage.ByAgent == nil {
		o.Usage.ByAgent = map[string]int64{}
	}
	if r.SessionID != "" {
		o.SessionID = &r.SessionID
	}
	if r.Status != "" {
		o.Status, o.Pattern = &r.Status, &r.Pattern
	}
	if r.Agent != "" {
		o.Agent = &r.Agent
	}
	if r.Agent != "" || r.LastResponse != "" { // that of several branches is nobody's
		o.LastResponse = &r.LastResponse
	}
	if !j.final.IsZero() && j.final.Workflow() != nil {
		o.Usage.Estimated = estimated(j.final)
	}
	if err != nil && !errors.Is(err, errQuestionPrinted) {
		text := err.Error()
		o.Error = &text
	}
	return o
}

// estimated are the agents whose providers did not say what they used.
func estimated(s session.Session) []string {
	names := []string{}
	agents := s.Workflow().Agents
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		if agents[name].Estimated {
			names = append(names, name)
		}
	}
	return names
}

// specFileError is a spec that is not there, or cannot be read.
type specFileError struct {
	path string
	err  error
}

func (e *specFileError) Error() string {
	why := e.err.Error()
	if errors.Is(e.err, fs.ErrNotExist) {
		why = "there is no such file"
	}
	return fmt.Sprintf("spec %s: %s; give the path of a .yaml, .yml or .json file", e.path, why)
}

func (e *specFileError) Unwrap() []error { return []error{session.ErrSpec, e.err} }

// misfitError is a spec that cannot be run here, with all its reasons.
type misfitError struct {
	*workflow.UnsupportedError
	report string // where they were written
}

func (e *misfitError) Error() string {
	text := e.File + " cannot be run here:"
	for _, issue := range e.Issues {
		text += fmt.Sprintf("\n  %s: %s; %s", issue.Pointer, issue.Reason, issue.Remediation)
	}
	if e.report != "" {
		text += "\n  this was written to " + e.report
	}
	return text
}

func (e *misfitError) Unwrap() error { return e.UnsupportedError }

// passError is a pass that did not come to the end of its run.
type passError struct {
	err  error
	text string // of the error, without the values of keys
	next string // the command that goes on with it
}

func (e *passError) Error() string { return e.text }

func (e *passError) Unwrap() error { return e.err }

// hint is what to do about it.
func (e *passError) hint() string {
	var (
		busy    *session.BusyError
		status  *session.StatusError
		changed *workflow.ChangedError
		failed  *workflow.RunError

		cancelled *workflow.CancelledError
	)
	switch {
	case errors.As(e.err, &busy):
		text := display.HolderText(busy.Holder) + " is at work on it"
		if !busy.Until.IsZero() {
			text += ", for now until " + busy.Until.Local().Format(time.TimeOnly)
		}
		return text + "; see: holdfast sessions show " + display.ShortID(busy.ID)
	case errors.As(e.err, &cancelled):
		return "go on with it all the same: " + e.next + " --reopen"
	case errors.As(e.err, &status) && status.Status == session.Status(workflow.StatusCancelled):
		return "it was cancelled; go on with it all the same: " + e.next + " --reopen"
	case errors.As(e.err, &status) && status.Status == session.Deleted:
		return "bring it back first: holdfast sessions restore " + display.ShortID(status.ID)
	case errors.As(e.err, &status) && status.Status == session.Completed:
		return "it is complete; do a part of it again: " + e.next + " --redo UNIT, or fork an earlier version: holdfast sessions fork " + display.ShortID(status.ID) + " --at VERSION"
	case errors.As(e.err, &changed) && changed.Unit != "":
		return "go on without the changes: " + e.next
	case errors.As(e.err, &changed):
		return "go on with the spec as it was: " + e.next + ", or take the changes over with --accept-changes"
	case errors.As(e.err, &failed) && failed.Kind == workflow.KindBudget:
		return "raise the budget in the spec, then: " + e.next + " --accept-changes"
	case errors.As(e.err, &failed) && failed.Kind == workflow.KindTemplate:
		return "what was answered is kept; correct the spec, then: " + e.next + " --accept-changes"
	case errors.As(e.err, &failed) && failed.Kind == workflow.KindArtifact:
		return "nothing is asked again; go on with: " + e.next
	case errors.Is(e.err, session.ErrInterrupted):
		return "go on with: " + e.next
	case errors.Is(e.err, session.ErrInvalid), errors.Is(e.err, session.ErrFenced), errors.Is(e.err, session.ErrCorrupt):
		return ""
	}
	return "what was answered is kept; go on with: " + e.next
}

// explain is an error with what to do about it.
func (j *runPass) explain(err error) error {
	var lacks *workflow.UnsupportedError
	if errors.As(err, &lacks) {
		m := &misfitError{UnsupportedError: lacks}
		path := filepath.Join(j.options.out, workflow.FileName(j.spec.Name)+"-unsupported.md")
		if failed := setup.WriteWhole(path, []byte(issuesText(j.spec, lacks.Issues))); failed != nil {
			j.WarnEarly("the reasons were not written: %v", failed)
		} else {
			m.report = path
		}
		return m
	}
	if j.result.SessionID == "" {
		return err
	}
	return &passError{err: err, text: j.Redactor.Redact(err.Error()), next: j.next(j.result.SessionID)}
}

// issuesText is why a spec cannot be run, for a file.
func issuesText(s *spec.Spec, issues []spec.Issue) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s cannot be run here\n\nSpec: `%s`\n", s.Name, s.Path())
	for _, issue := range issues {
		fmt.Fprintf(&b, "\n## `%s`\n\n%s.\n\nWhat to do: %s.\n", issue.Pointer, issue.Reason, issue.Remediation)
	}
	return b.String()
}

// next is the command that goes on with a run, from here.
func (j *runPass) next(id string) string {
	text := j.nextRun(id)
	if j.options.out != "artifacts" {
		text += " --out " + quotedArgument(j.options.out)
	}
	return text
}

// nextRun is the command that goes on with a run.
func (p *program) nextRun(id string) string {
	text := "holdfast run --resume " + display.ShortID(id)
	if p.Store != "" {
		text += " --store " + quotedArgument(p.Store)
	}
	if p.Server != "" {
		text += " --server " + quotedArgument(p.Server)
	}
	if p.Tenant != "" {
		text += " --tenant " + quotedArgument(p.Tenant)
	}
	return text
}

// quotedArgument is an argument as a shell takes it.
func quotedArgument(text string) string {
	if text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@%+=,", r)
	}) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// errLeft is a person who went away from a question.
var errLeft = errors.New("the question was left unanswered")

// asker asks a person at the terminal, nil where nobody is asked.
func (j *runPass) asker() func(context.Context, workflow.HITLState) (string, error) {
	if !j.options.interactive {
		return nil
	}
	return func(ctx context.Context, q workflow.HITLState) (text string, err error) {
		j.view.Aside(func() {
			j.showQuestion(q, nil, false)
			text, err = j.answer(ctx, q)
		})
		return text, err
	}
}

// answer reads a person's answer; an empty line is the default, if there is one.
func (j *runPass) answer(ctx context.Context, q workflow.HITLState) (string, error) {
	e := j.NewEditor(nil)
	defer e.Close()
	text, err := terminal.WaitFor(ctx, func() (string, error) {
		if e != nil {
			return e.Response("> ")
		}
		fmt.Fprint(j.Err, "> ")
		return j.In.ReadLine()
	})
	switch {
	case ctx.Err() != nil:
		return "", &session.InterruptedError{ID: j.result.SessionID, Err: ctx.Err()}
	case errors.Is(err, io.EOF):
		fmt.Fprintln(j.Err)
		return "", errLeft
	case err != nil:
		return "", err
	case strings.TrimSpace(text) == "" && q.DefaultResponse != nil:
		return *q.DefaultResponse, nil
	}
	return text, nil
}

// showWaiting shows what the run waits for, and how to respond.
func (j *runPass) showWaiting() {
	if q := j.result.Question; q != nil {
		j.showQuestion(*q, j.result.Pending, true)
	}
	for _, p := range j.result.Waiting {
		if p.Kind != session.PendingQuestion {
			j.Err.Status("\n? %s · %s", p.Unit, terminal.OneLine(j.Redactor.Redact(display.WaitText(p))))
			fmt.Fprintf(j.Err, "%s %s, then: %s\n", j.Err.Paint(terminal.Dim, "respond with:"), respondCommand(j.result.SessionID, p), j.next(j.result.SessionID))
		}
	}
}

// respondCommand is the command that responds to a pending call.
func respondCommand(id string, p session.PendingCall) string {
	what := map[session.PendingKind]string{session.PendingApproval: "approve", session.PendingResult: "result '…'", session.PendingQuestion: "answer '…'"}
	return "holdfast respond " + display.ShortID(id) + " " + quotedArgument(p.ID) + " " + what[p.Kind]
}

// showQuestion shows what a person is asked and, where nobody waits for the
// answer here, how to give it.
func (j *runPass) showQuestion(q workflow.HITLState, all []workflow.HITLState, how bool) {
	fmt.Fprint(j.Err, j.Redactor.Redact(j.questionText(j.Err, q)))
	if !how {
		return
	}
	for _, other := range all {
		if other.Unit != q.Unit && other.BranchID != nil {
			j.Err.Status("  branch %s waits too: answer it with --hitl-target %s", *other.BranchID, quotedArgument(*other.BranchID))
		}
	}
	j.Err.Status("\nsession %s", j.result.SessionID)
	fmt.Fprintf(j.Err, "%s %s --hitl-response '…'\n", j.Err.Paint(terminal.Dim, "answer with:"), j.next(j.result.SessionID))
}

// questionText is a question as a screen shows it.
func (p *program) questionText(to *terminal.Screen, q workflow.HITLState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s %s\n", to.Paint(terminal.Yellow, "?"), to.Paint(terminal.Bold, strings.TrimSpace(terminal.Printable(q.Prompt))))
	if q.ContextDisplay != "" {
		fmt.Fprintf(&b, "\n%s\n", display.SetIn(terminal.Printable(q.ContextDisplay)))
	}
	if len(q.Choices) > 0 {
		fmt.Fprintf(&b, "%s\n", to.Paint(terminal.Dim, "  options: "+terminal.OneLine(strings.Join(q.Choices, ", "))))
	}
	if q.DefaultResponse != nil {
		fmt.Fprintf(&b, "%s\n", to.Paint(terminal.Dim, fmt.Sprintf("  default: %s", terminal.OneLine(*q.DefaultResponse))))
	}
	if q.TimeoutAt != nil {
		fmt.Fprintf(&b, "%s\n", to.Paint(terminal.Dim, "  until: "+*q.TimeoutAt))
	}
	return b.String()
}
