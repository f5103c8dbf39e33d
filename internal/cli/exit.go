package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

// The exit codes of the program, the same for every command.
const (
	exitOK          = 0
	exitDiffers     = 1  // a replay came to something else
	exitUsage       = 2  // usage, or input that was refused
	exitDefinition  = 3  // an invalid definition or spec
	exitFailed      = 10 // the model, a tool or a pattern failed
	exitIO          = 12 // file or store I/O
	exitSession     = 17 // the session cannot
	exitUnsupported = 18 // not supported or not configured here
	exitWaiting     = 19 // waiting for a person
	exitPartial     = 20 // budget used up, or only part done
	exitInterrupted = 21 // can be resumed
	exitCancelled   = 22
	exitBug         = 70
)

// outcomes is what an error means to the caller of the program. An error may
// be several of these: the first that fits decides, so what says most about
// the state that is left behind comes first.
var outcomes = []struct {
	is   error
	kind string // as JSON names it
	code int
}{
	{terminal.ErrReaderGone, "", exitOK}, // `holdfast … | head`: nobody is left to tell
	{errUsage, "UsageError", exitUsage},
	{terminal.ErrDeclined, "CancelledError", exitCancelled},
	{errQuestionPrinted, "WaitingError", exitWaiting},
	{errWaiting, "WaitingError", exitWaiting},
	{session.ErrPanic, "PanicError", exitBug},
	{session.ErrInterrupted, "InterruptedError", exitInterrupted},
	{errPartial, "PartialError", exitPartial},
	{errModel, "ModelError", exitFailed},
	{session.ErrExecutionFailed, "ExecutionError", exitFailed},
	{session.ErrAfterSave, "AfterSaveError", exitFailed},
	{session.ErrQueued, "QueuedError", exitPartial},
	{session.ErrUnknownOutcome, "UnknownOutcomeError", exitIO},
	{session.ErrHook, "HookError", exitUsage},
	{session.ErrDefinition, "DefinitionError", exitDefinition},
	{session.ErrSpec, "SpecError", exitDefinition},
	{session.ErrSecret, "SecretError", exitDefinition},
	{session.ErrUnsupported, "UnsupportedError", exitUnsupported},
	{session.ErrReadOnly, "ReadOnlyError", exitIO},
	{session.ErrTaskTerminal, "TaskError", exitSession},
	{session.ErrNotResumable, "TaskError", exitSession},
	{session.ErrNoPlan, "NoPlanError", exitSession},
	{session.ErrResponded, "RespondedError", exitSession},
	{session.ErrUnsupportedVersion, "UnsupportedVersionError", exitSession},
	{session.ErrSnapshot, "SnapshotError", exitSession},
	{session.ErrBudget, "BudgetError", exitPartial},
	{session.ErrChecklist, "ChecklistError", exitUsage},
	{session.ErrRule, "RuleError", exitUsage},
	{session.ErrPermissionDenied, "PermissionDeniedError", exitFailed},
	{session.ErrTooLarge, "TooLargeError", exitIO},
	{session.ErrCorrupt, "CorruptError", exitSession},
	{session.ErrNewerFormat, "NewerFormatError", exitSession},
	{session.ErrNotFound, "NotFoundError", exitSession},
	{session.ErrConflict, "ConflictError", exitSession},
	{session.ErrResponded, "RespondedError", exitSession},
	{session.ErrStatus, "StatusError", exitSession},
	{session.ErrBusy, "BusyError", exitSession},
	{session.ErrFenced, "FencedError", exitSession},
	{session.ErrAmbiguous, "AmbiguousError", exitSession},
	{session.ErrNothingToDo, "NothingToDoError", exitSession},
	{session.ErrSetAside, "SetAsideError", exitSession},
	{session.ErrBlock, "BlockError", exitUsage},
	{session.ErrInvalid, "InvalidError", exitUsage},
	{session.ErrDepth, "DepthError", exitUsage},
	{session.ErrScope, "ScopeError", exitUsage},
	{session.ErrContextLength, "ContextLengthError", exitFailed},
	{context.Canceled, "CancelledError", exitCancelled},
}

// exitCodeOf returns the exit code of an error and its name. Errors without a type of
// their own come from the system: files, disks, terminals.
func exitCodeOf(err error) (code int, kind string) {
	if err == nil {
		return exitOK, ""
	}
	var stopped *stoppedError
	if errors.As(err, &stopped) {
		return stopped.code(), "StoppedError"
	}
	var resting *restError
	if errors.As(err, &resting) {
		return resting.code(), "TaskError"
	}
	var differs *differsError
	if errors.As(err, &differs) {
		return exitDiffers, "DiffersError"
	}
	var definition *session.DefinitionError
	if errors.As(err, &definition) && len(definition.Problems) > 0 && !slices.ContainsFunc(definition.Problems, func(p session.Problem) bool { return !p.Unconfigured }) {
		return exitUnsupported, "DefinitionError"
	}
	if refusedByServer(err) {
		return exitUnsupported, "ServerError"
	}
	if code, kind, ok := exitCodeOfRun(err); ok {
		return code, kind
	}
	for _, o := range outcomes {
		if errors.Is(err, o.is) {
			return o.code, o.kind
		}
	}
	return exitIO, "IOError"
}

// exitCodeOfRun returns what became of a workflow run, where its error says so.
func exitCodeOfRun(err error) (code int, kind string, ok bool) {
	var (
		stored *workflow.CommitError
		failed *workflow.RunError
	)
	switch {
	case errors.As(err, &stored) && errors.Is(err, session.ErrFenced):
		return exitSession, "FencedError", true
	case errors.As(err, &stored) && errors.Is(err, session.ErrConflict): // somebody else wrote
		return exitSession, "ConflictError", true
	case errors.As(err, &stored):
		return exitIO, "CommitError", true
	case !errors.As(err, &failed) || errors.Is(err, session.ErrPanic):
		return 0, "", false
	}
	switch failed.Kind {
	case workflow.KindArtifact:
		code = exitIO
	case workflow.KindBudget:
		code = exitPartial
	default:
		code = exitFailed
	}
	return code, string(failed.Kind), true
}

var (
	errUsage           = errors.New("usage")
	errQuestionPrinted = errors.New("a person is asked")
	errWaiting         = errors.New("calls wait for responses")
	errPartial         = errors.New("only part done")
	errModel           = errors.New("the model failed")
)

// stoppedError is an execution that ended before its answer. The session was saved.
type stoppedError struct {
	id   string
	stop session.Signal
}

// checkStopped returns the error of a session whose last execution was stopped, else nil.
func checkStopped(s session.Session) error {
	e := s.Execution()
	if e == nil || e.Status != session.ExecutionStopped || e.Stop == nil {
		return nil
	}
	return &stoppedError{id: s.ID(), stop: *e.Stop}
}

func (e *stoppedError) Error() string {
	text := fmt.Sprintf("stopped before an answer (%s)", e.stop.Reason)
	if e.stop.Message != "" {
		text += ": " + e.stop.Message
	}
	return text
}

func (e *stoppedError) code() int {
	switch e.stop.Reason {
	case session.StopRequested, session.StopUserRequested:
		return exitCancelled
	case session.StopInterrupted:
		return exitInterrupted
	case session.StopSteps, session.StopTokens, session.StopTime, session.StopCost, session.StopDeadline:
		return exitPartial
	}
	return exitFailed
}
