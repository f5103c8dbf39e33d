// Package workflow runs specs: several agents in a pattern, as one session.
//
// A run is made of units, the smallest pieces of work whose result is one
// commit: a step of a chain, a task, a visit to a node. What a unit was asked,
// what its model answered and what its tools did is in the log before anything
// relies on it. A pattern is a program that asks for units in the order of its
// spec; what the log has comes back at once. So a run that was interrupted at
// any instant continues where it was, and no answer is paid for twice.
//
// A run waits in one way only: a pending call of its session. The spec asks a
// person, or an agent calls a tool that waits for an approval, an answer or a
// client's result. Runtime.Respond brings the response, from any process; the
// next Resume takes it.
//
//	models, err := catalog.New(catalog.Config{})
//	host := workflow.HostFromCatalog(models)
//	spec, err := workflow.Load("review.yaml", nil)
//	res, err := workflow.Start(ctx, rt, spec, workflow.RunOptions{Host: host})
//	// res.Status is paused: a person is asked something
//	res, err = workflow.Resume(ctx, rt, res.SessionID, workflow.ResumeOptions{Host: host, Answer: &yes})
//
// Project shows the state of a run: the same program replays the log and asks
// nobody.
package workflow

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Status is how far a run has come. Its session has a status of its own.
type Status string

// The statuses of a run. A run that was killed still reads as running: the
// session's lease says whether somebody works on it.
const (
	StatusRunning   Status = "running"
	StatusPaused    Status = "paused"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled" // for good: only Redo, a fork and ResumeOptions.Reopen go on with it
)

// Statuses lists them.
func Statuses() []Status {
	return []Status{StatusRunning, StatusPaused, StatusCompleted, StatusFailed, StatusCancelled}
}

// Result says how far a run has come. Status paused comes with what it waits
// for, or with an InterruptedError when it was stopped.
type Result struct {
	SessionID    string
	Name         string // of the spec
	Pattern      spec.PatternType
	Agent        string // who gave the last response; "hitl" for a person
	LastResponse string
	Status       Status
	Question     *HITLState  // the first that waits, of the spec or of an agent
	Pending      []HITLState // all that wait, where there are several
	Waiting      []session.PendingCall
	Usage        TokenUsage
	Cost         session.Cost
	Artifacts    []string // files of the run
	Wrote        []string // those that were written now
	Version      int64
	Error        string // "<Kind>: <message>" of a failed run
	Resumed      bool   // it was there before
	Changed      []string
}

// Load reads a spec; see spec.Load.
func Load(path string, vars spec.Map[string]) (*spec.Spec, error) { return spec.Load(path, vars) }

// Check lists what keeps a spec from being run here; see spec.Check.
func Check(s *spec.Spec, env spec.Env) []spec.Issue { return spec.Check(s, env) }

// NewSessionID returns a random id for a run.
func NewSessionID() string { return uuid.NewString() }

// SpecHash returns the lower-case hex SHA-256 of a spec's file.
func SpecHash(path string) (string, error) { return spec.HashFile(path) }

// NowISO8601 returns this moment in UTC as runs write it.
func NowISO8601() string { return iso8601(time.Now()) }

// iso8601 has microseconds, unless they are zero.
func iso8601(t time.Time) string {
	t = t.UTC()
	if t.Nanosecond()/1000 == 0 {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}

// Kind says what sort of failure ended a run.
type Kind string

// The kinds. That of a pattern is used for everything without one of its own.
const (
	KindTemplate Kind = "TemplateError"
	KindProvider Kind = "ProviderError"
	KindArtifact Kind = "ArtifactError"
	KindBudget   Kind = "BudgetExceededError"
	KindOutput   Kind = "OutputError" // an answer that does not fit its output_schema
)

var patternKinds = map[spec.PatternType]Kind{
	spec.ChainPattern: "ChainExecutionError", spec.WorkflowPattern: "WorkflowExecutionError", spec.RoutingPattern: "RoutingExecutionError",
	spec.ParallelPattern: "ParallelExecutionError", spec.EvaluatorPattern: "EvaluatorOptimizerExecutionError",
	spec.OrchestratorPattern: "OrchestratorExecutionError", spec.GraphPattern: "GraphExecutionError",
}

// RunError says why a run failed. The session says the same and can be resumed.
type RunError struct {
	Kind Kind
	Unit string // empty where it was none
	Err  error
}

func (e *RunError) Error() string {
	if e.Unit == "" {
		return fmt.Sprintf("%s: %v", e.Kind, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Kind, e.Unit, e.Err)
}

// Unwrap returns the cause.
func (e *RunError) Unwrap() error { return e.Err }

// CancelledError says that somebody cancelled a run. What its units did is kept.
type CancelledError struct{ ID string }

func (e *CancelledError) Error() string { return fmt.Sprintf("run %q was cancelled", e.ID) }

// Is makes it a cancellation like any other.
func (e *CancelledError) Is(target error) bool { return target == context.Canceled }

// UnsupportedError says why a spec cannot be run here.
type UnsupportedError struct {
	File   string
	Issues []spec.Issue
}

func (e *UnsupportedError) Error() string {
	reasons := make([]string, len(e.Issues))
	for i, issue := range e.Issues {
		reasons[i] = fmt.Sprintf("%s: %s (%s)", issue.Pointer, issue.Reason, issue.Remediation)
	}
	return fmt.Sprintf("%s cannot be run here: %s", e.File, strings.Join(reasons, "; "))
}

// Is makes it an unsupported thing like any other.
func (e *UnsupportedError) Is(target error) bool { return target == session.ErrUnsupported }

// CommitError says that a write to the store failed. The run stopped there.
type CommitError struct {
	Unit string
	Err  error
}

func (e *CommitError) Error() string { return fmt.Sprintf("write %s: %v", e.Unit, e.Err) }

// Unwrap returns the store's error.
func (e *CommitError) Unwrap() error { return e.Err }

// ChangedError says that a spec differs from the one a run was started with,
// where it must not.
type ChangedError struct {
	ID      string
	Changes []string // JSON pointers and files
	Unit    string   // the first finished unit that is affected; empty: none may be
}

func (e *ChangedError) Error() string {
	list := strings.Join(e.Changes, ", ")
	if e.Unit == "" {
		return fmt.Sprintf("the spec of run %q has changed: %s", e.ID, list)
	}
	return fmt.Sprintf("the spec of run %q has changed (%s) and unit %s was done with the old one", e.ID, list, e.Unit)
}

// Is makes it a conflict.
func (e *ChangedError) Is(target error) bool { return target == session.ErrConflict }
