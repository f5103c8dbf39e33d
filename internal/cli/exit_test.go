package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

func TestOutcome_everyErrorHasItsCode(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	stop := func(r session.StopReason) error { return &stoppedError{stop: session.Signal{Reason: r}} }
	for _, c := range []struct {
		err  error
		code int
		kind string
	}{
		{nil, 0, ""},
		{terminal.ErrReaderGone, 0, ""},
		{&usageError{err: cause}, 2, "UsageError"},
		{&session.InvalidError{}, 2, "InvalidError"},
		{&session.HookError{Err: cause}, 2, "HookError"},
		{&session.DepthError{}, 2, "DepthError"},
		{&session.ScopeError{}, 2, "ScopeError"},
		{&session.BlockError{}, 2, "BlockError"},
		{&session.DefinitionError{}, 3, "DefinitionError"},
		{&session.SecretError{}, 3, "SecretError"},
		{&session.ExecutionError{Err: cause}, 10, "ExecutionError"},
		{&session.ExecutionError{Err: session.NotFound("x")}, 10, "ExecutionError"},
		{&session.AfterSaveError{Err: cause}, 10, "AfterSaveError"},
		{&session.ContextLengthError{}, 10, "ContextLengthError"},
		{stop(session.StopFinishReason), 10, "StoppedError"},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}, 12, "IOError"},
		{&session.UnknownOutcomeError{Err: cause}, 12, "UnknownOutcomeError"},
		{cause, 12, "IOError"},
		{session.NotFound("x"), 17, "NotFoundError"},
		{&session.ConflictError{}, 17, "ConflictError"},
		{&session.StatusError{}, 17, "StatusError"},
		{&session.BusyError{}, 17, "BusyError"},
		{&session.FencedError{}, 17, "FencedError"},
		{&session.CorruptError{}, 17, "CorruptError"},
		{&session.SnapshotError{}, 17, "SnapshotError"},
		{&session.UnsupportedVersionError{}, 17, "UnsupportedVersionError"},
		{&session.NewerFormatError{}, 17, "NewerFormatError"},
		{&session.AmbiguousError{}, 17, "AmbiguousError"},
		{&session.UnsupportedError{}, 18, "UnsupportedError"},
		{&session.ReadOnlyError{}, 12, "ReadOnlyError"},
		{&session.SpecError{}, 3, "SpecError"},
		{&specFileError{err: fs.ErrNotExist}, 3, "SpecError"},
		{&workflow.RunError{Kind: workflow.KindProvider, Err: session.NotFound("x")}, 10, "ProviderError"},
		{&workflow.RunError{Kind: workflow.KindTemplate, Err: cause}, 10, "TemplateError"},
		{&workflow.RunError{Kind: "ChainExecutionError", Err: cause}, 10, "ChainExecutionError"},
		{&workflow.RunError{Kind: workflow.KindArtifact, Err: cause}, 12, "ArtifactError"},
		{&workflow.RunError{Kind: workflow.KindBudget, Err: cause}, 20, "BudgetExceededError"},
		{&workflow.CommitError{Err: cause}, 12, "CommitError"},
		{&workflow.CommitError{Err: &session.FencedError{}}, 17, "FencedError"},
		{&workflow.CommitError{Err: &session.ConflictError{}}, 17, "ConflictError"},
		{errors.Join(&workflow.RunError{Kind: workflow.KindBudget, Err: cause}, &workflow.CommitError{Err: cause}), 12, "CommitError"},
		{&workflow.ChangedError{}, 17, "ConflictError"},
		{&misfitError{UnsupportedError: &workflow.UnsupportedError{}}, 18, "UnsupportedError"},
		{&passError{err: &session.InterruptedError{Err: context.Canceled}}, 21, "InterruptedError"},
		{errQuestionPrinted, 19, "WaitingError"},
		{&session.QueuedError{}, 20, "QueuedError"},
		{errPartial, 20, "PartialError"},
		{&copyInterrupted{left: 3}, 21, "InterruptedError"},
		{stop(session.StopSteps), 20, "StoppedError"},
		{stop(session.StopTokens), 20, "StoppedError"},
		{stop(session.StopTime), 20, "StoppedError"},
		{stop(session.StopCost), 20, "StoppedError"},
		{stop(session.StopDeadline), 20, "StoppedError"},
		{&session.InterruptedError{Err: context.Canceled}, 21, "InterruptedError"},
		{stop(session.StopInterrupted), 21, "StoppedError"},
		{stop(session.StopUserRequested), 22, "StoppedError"},
		{stop(session.StopRequested), 22, "StoppedError"},
		{context.Canceled, 22, "CancelledError"},
		{terminal.ErrDeclined, 22, "CancelledError"},
		{&session.PanicError{Where: "here", Value: session.NotFound("x")}, 70, "PanicError"},
	} {
		all := []error{c.err, wrapped(c.err)}
		if c.err != nil && strings.HasPrefix(fmt.Sprintf("%T", c.err), "*session.") { // it may come from a server
			all = append(all, overTheWire(t, c.err), overTheWire(t, wrapped(c.err)))
		}
		for _, err := range all {
			if code, kind := exitCodeOf(err); code != c.code || kind != c.kind {
				t.Errorf("%T %v is %d %s, want %d %s", c.err, err, code, kind, c.code, c.kind)
			}
		}
	}
}

// overTheWire returns the error that a client of a server returns.
func overTheWire(t *testing.T, err error) error {
	t.Helper()
	data, failed := json.Marshal(problem.Of(err))
	var read problem.Problem
	if failed == nil {
		failed = json.Unmarshal(data, &read)
	}
	if failed != nil {
		t.Fatal(failed)
	}
	return read.Err()
}

func wrapped(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("do something: %w", err)
}

func TestRun_panicIsABugOfOurs(t *testing.T) {
	t.Parallel()
	for _, debug := range []string{"", "1"} {
		var out, errs bytes.Buffer
		p := &program{Setup: setup.New(&terminal.Console{
			In: terminal.NewInput(strings.NewReader("")), Out: terminal.NewScreen(&out), Err: terminal.NewScreen(&errs),
			Getenv: func(name string) string {
				switch name {
				case "HOLDFAST_DEBUG":
					return debug
				case "NO_COLOR":
					panic("the cause")
				}
				return ""
			},
		}, nil, time.Now)}
		if code := p.run([]string{"version"}); code != exitBug {
			t.Errorf("exit code %d, want %d", code, exitBug)
		}
		if !strings.Contains(errs.String(), "the cause") {
			t.Errorf("the cause is not told: %s", &errs)
		}
		if shown := strings.Contains(errs.String(), "goroutine"); shown != (debug != "") {
			t.Errorf("HOLDFAST_DEBUG=%q: a stack is shown: %t", debug, shown)
		}
	}
}

// Ctrl-C while a command waits ends it in words of its own.
func TestReport_whatWasStoppedSaysSo(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if code := d.program(strings.NewReader("")).report(fmt.Errorf("send: %w", context.Canceled)); code != exitCancelled {
		t.Errorf("exit code %d", code)
	}
	if got := d.err.String(); got != "holdfast: send: it was stopped\n" {
		t.Errorf("it says %q", got)
	}
}
