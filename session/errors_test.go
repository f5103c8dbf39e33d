package session_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

func TestErrors_matchNameAndWrap(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	for _, tt := range []struct {
		err      error
		sentinel error
		names    []string
		wraps    error
	}{
		{session.NotFound("s-1"), session.ErrNotFound, []string{`session "s-1"`}, nil},
		{&session.NotFoundError{What: "model", ID: "gpt", Available: []string{"a", "b"}}, session.ErrNotFound, []string{`model "gpt"`, "a, b"}, nil},
		{&session.NotFoundError{What: "tool", ID: "x", Available: []string{}}, session.ErrNotFound, []string{"available: none"}, nil},
		{&session.ConflictError{ID: "s-1", Reason: session.ReasonExists}, session.ErrConflict, []string{`"s-1"`, "already exists"}, nil},
		{&session.ConflictError{ID: "s-1", Reason: session.ReasonNonzeroVersion, Want: 3}, session.ErrConflict, []string{`"s-1"`, "version 3"}, nil},
		{&session.ConflictError{ID: "s-1", Reason: session.ReasonReplaced}, session.ErrConflict, []string{`"s-1"`, "made again"}, nil},
		{&session.ConflictError{ID: "s-1", Reason: session.ReasonStale, Want: 3, Have: 5}, session.ErrConflict, []string{`"s-1"`, "version 3", "version 5"}, nil},
		{&session.ConflictError{ID: "s-1", Reason: session.ReasonOpenTail, Want: 3, Have: 5}, session.ErrConflict, []string{`"s-1"`, "3", "5"}, nil},
		{&session.ConflictError{ID: "s-1", Reason: session.ReasonKeyReused}, session.ErrConflict, []string{`"s-1"`, "key"}, nil},
		{&session.ConflictError{ID: "s-1", Reason: session.ReasonDiffers, Have: 7}, session.ErrConflict, []string{`"s-1"`, "already there", "change 7"}, nil},
		{&session.ConflictError{ID: "s-1", Reason: "other"}, session.ErrConflict, []string{`"s-1"`, "other"}, nil},
		{&session.InvalidError{Field: "limit", Reason: "-1 is negative"}, session.ErrInvalid, []string{"limit", "-1 is negative"}, nil},
		{&session.StatusError{ID: "s-1", Status: session.Failed, Action: "SendMessage"}, session.ErrStatus, []string{`"s-1"`, "failed", "SendMessage"}, nil},
		{&session.BusyError{ID: "s-1"}, session.ErrBusy, []string{`"s-1"`}, nil},
		{&session.BusyError{ID: "s-1", Holder: "host/7", Until: noon}, session.ErrBusy, []string{`"s-1"`, "host/7", "2026-03-01T12:00:00Z"}, nil},
		{&session.FencedError{ID: "s-1", Token: 3, Have: 4}, session.ErrFenced, []string{`"s-1"`, "3", "4"}, nil},
		{&session.RespondedError{ID: "s-1", Response: session.Response{PendingID: "p-1", Action: session.RespondDeny, By: "ann"}}, session.ErrResponded, []string{`"s-1"`, `"p-1"`, "deny", "ann"}, nil},
		{&session.QueuedError{ID: "s-1", InboxID: "i-1"}, session.ErrQueued, []string{`"s-1"`, `"i-1"`}, nil},
		{&session.InterruptedError{ID: "s-1", Seq: 9, Err: cause}, session.ErrInterrupted, []string{`"s-1"`, "can be continued"}, cause},
		{&session.UnknownOutcomeError{ID: "s-2", Err: cause}, session.ErrUnknownOutcome, []string{`"s-2": whether the write was saved is unknown`}, cause},
		{&session.UnknownOutcomeError{ID: "s-1", CommitID: "c-1", Err: cause}, session.ErrUnknownOutcome, []string{`"s-1"`, `"c-1"`, "reload"}, cause},
		{&session.CorruptError{ID: "s-1", Path: "a/s-1.json", Reason: "missing header"}, session.ErrCorrupt, []string{`"s-1"`, "a/s-1.json", "missing header"}, nil},
		{&session.CorruptError{ID: "s-1", Reason: "missing header"}, session.ErrCorrupt, []string{`"s-1"`, "missing header"}, nil},
		{&session.NewerFormatError{What: "format version", Have: "2", Know: "1"}, session.ErrNewerFormat, []string{"format version 2", "1"}, nil},
		{&session.HookError{Stage: session.BeforeSave, Hook: "audit", Err: cause}, session.ErrHook, []string{`"audit"`, "before_save"}, cause},
		{&session.AfterSaveError{ID: "s-1", Version: 4, Stage: session.AfterSave, Hook: "mail", Err: cause}, session.ErrAfterSave, []string{`"s-1"`, "saved as version 4", `"mail"`, "after_save"}, cause},
		{&session.ExecutionError{ID: "s-1", Version: 4, ExecutionID: "x-1", Err: cause}, session.ErrExecutionFailed, []string{"the cause; session", `"s-1"`, "saved as version 4"}, cause},
		{&session.DefinitionError{Source: "a.yaml", Problems: []session.Problem{{Field: "name", Message: "is missing"}}}, session.ErrDefinition, []string{"a.yaml", "name: is missing"}, nil},
		{&session.DefinitionError{Problems: []session.Problem{{Field: "a", Message: "x"}, {Field: "b", Message: "y"}}}, session.ErrDefinition, []string{"2 problems", "a: x", "b: y"}, nil},
		{&session.SpecError{File: "a.yaml", Pointer: "/name", Reason: "is missing"}, session.ErrSpec, []string{"a.yaml", "/name: is missing"}, nil},
		{&session.SpecError{File: "a.yaml", Reason: "is empty", Also: []session.SpecProblem{{Pointer: "/b", Reason: "y"}}}, session.ErrSpec, []string{"2 problems", "is empty", "/b: y"}, nil},
		{&session.UnsupportedError{Store: "file", Ability: "inbox"}, session.ErrUnsupported, []string{"file", "inbox"}, nil},
		{&session.ReadOnlyError{Store: "the sqlite store a.db", Reason: "no space for a log"}, session.ErrReadOnly, []string{"a.db", "can only be read", "log"}, nil},
		{&session.AmbiguousError{Ref: "ab", Candidates: []string{"abc", "abd"}}, session.ErrAmbiguous, []string{`"ab"`, "abc, abd"}, nil},
		{&session.DepthError{Depth: 4, Max: 3}, session.ErrDepth, []string{"4", "3"}, nil},
		{&session.SecretError{Source: "a.yaml", Key: "apiKey"}, session.ErrSecret, []string{"a.yaml", `"apiKey"`}, nil},
		{&session.PanicError{Where: "tool shell", Value: "boom"}, session.ErrPanic, []string{"tool shell", "boom"}, nil},
		{&session.PanicError{Where: "hook audit", Value: cause}, session.ErrPanic, []string{"hook audit"}, cause},
		{&session.ScopeError{Scope: "user", Allowed: []string{"session"}}, session.ErrScope, []string{`"user"`, "session"}, nil},
		{&session.BlockError{Block: "plan", Reason: session.BlockTooLong, Have: 9, Want: 8}, session.ErrBlock, []string{`"plan"`, "9", "8", "shorten"}, nil},
		{&session.BlockError{Block: "plan", Reason: session.BlockTextMissing}, session.ErrBlock, []string{`"plan"`, "old text"}, nil},
		{&session.BlockError{Block: "plan", Reason: session.BlockTextRepeated, Have: 2}, session.ErrBlock, []string{`"plan"`, "2 times"}, nil},
		{&session.BlockError{Block: "plan", Reason: session.BlockNoLine, Have: 2, Want: 3}, session.ErrBlock, []string{`"plan"`, "2 lines", "line 3"}, nil},
		{&session.BlockError{Block: "plan", Reason: session.BlockReadOnly}, session.ErrBlock, []string{`"plan"`, "read"}, nil},
		{&session.ContextLengthError{Model: "m", Have: 9, Max: 8}, session.ErrContextLength, []string{`"m"`, "9", "8"}, nil},
		{&session.RuleError{Field: "scope.prefix", Reason: "is empty"}, session.ErrRule, []string{"scope.prefix", "is empty"}, nil},
		{&session.PermissionDeniedError{Reason: "a rule says so"}, session.ErrPermissionDenied, []string{"denied", "a rule says so"}, nil},
		{&session.TaskError{ID: "t-1", Status: "completed", Err: session.ErrTaskTerminal}, session.ErrTaskTerminal, []string{`"t-1"`, "completed", "ended"}, nil},
		{&session.TaskError{ID: "t-1", Status: "blocked", Reason: "it waits", Err: session.ErrNotResumable}, session.ErrNotResumable, []string{`"t-1"`, "blocked", "it waits"}, nil},
		{&session.BudgetError{Kind: session.BudgetLifetime, Used: 5, Max: 4}, session.ErrBudget, []string{"lifetime turn limit exceeded: 5/4 turns"}, nil},
		{&session.BudgetError{Kind: session.BudgetFuse, Used: 5, Max: 4}, session.ErrBudget, []string{"emergency turn fuse exceeded: 5/4 turns"}, nil},
		{&session.BudgetError{Kind: session.BudgetTurns, Used: 5, Max: 4}, session.ErrBudget, []string{"global turn limit exceeded: 5/4 turns"}, nil},
		{&session.BudgetError{Kind: session.BudgetIterations, Used: 5, Max: 4}, session.ErrBudget, []string{"iteration limit exceeded: 5/4 iterations"}, nil},
		{&session.BudgetError{Kind: session.BudgetTokens, Used: 5, Max: 4}, session.ErrBudget, []string{"token budget exceeded: 5/4 tokens"}, nil},
		{&session.BudgetError{Kind: session.BudgetCost, Used: 0.5, Max: 0.25}, session.ErrBudget, []string{"cost budget exceeded: 0.5000/0.2500"}, nil},
		{&session.BudgetError{Kind: "time", Used: 5, Max: 4}, session.ErrBudget, []string{"time", "5/4"}, nil},
		{&session.ChecklistError{Message: "no item"}, session.ErrChecklist, []string{"no item"}, nil},
		{&session.UnsupportedVersionError{Schema: "x", Version: "3", Where: "checkpoint"}, session.ErrUnsupportedVersion, []string{"checkpoint", `"x"`, `"3"`}, nil},
		{&session.SnapshotError{Where: "loop", Reason: "is no object"}, session.ErrSnapshot, []string{"loop", "is no object"}, nil},
		{&session.ApprovalResolvedError{ID: "a-1", Action: "allow_once"}, session.ErrApprovalResolved, []string{`"a-1"`, "allow_once"}, nil},
	} {
		kind := reflect.TypeOf(tt.err)
		outer := fmt.Errorf("send: %w", tt.err)
		if !errors.Is(outer, tt.sentinel) {
			t.Errorf("%v is not %v", kind, tt.sentinel)
		}
		as := reflect.New(kind)
		if !errors.As(outer, as.Interface()) || as.Elem().Interface() != any(tt.err) {
			t.Errorf("%v is not found with errors.As", kind)
		}
		if tt.wraps != nil && !errors.Is(outer, tt.wraps) {
			t.Errorf("%v hides its cause", kind)
		}
		text := tt.err.Error()
		for _, name := range tt.names {
			if !strings.Contains(text, name) {
				t.Errorf("%v says %q, which lacks %q", kind, text, name)
			}
		}
		if tt.wraps != nil && !strings.Contains(text, tt.wraps.Error()) {
			t.Errorf("%v says %q, which lacks its cause", kind, text)
		}
		if first, _ := utf8.DecodeRuneInString(text); unicode.IsUpper(first) || strings.HasSuffix(text, ".") {
			t.Errorf("%v says %q", kind, text)
		}
	}
}

func TestErrors_withoutACauseSayNothingOfIt(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&session.InterruptedError{ID: "s"}, &session.UnknownOutcomeError{ID: "s"}, &session.HookError{Hook: "h"},
		&session.AfterSaveError{ID: "s"}, &session.ExecutionError{ID: "s"},
	} {
		if text := err.Error(); strings.Contains(text, "nil") || errors.Is(err, session.ErrClosed) {
			t.Errorf("%T says %q", err, text)
		}
	}
}

func TestErrors_sentinelsAreApart(t *testing.T) {
	t.Parallel()
	all := []error{
		session.ErrNotFound, session.ErrConflict, session.ErrInvalid, session.ErrStatus, session.ErrBusy, session.ErrFenced, session.ErrQueued, session.ErrResponded,
		session.ErrInterrupted, session.ErrUnknownOutcome, session.ErrCorrupt, session.ErrNewerFormat, session.ErrHook, session.ErrAfterSave,
		session.ErrExecutionFailed, session.ErrDefinition, session.ErrSpec, session.ErrUnsupported, session.ErrReadOnly, session.ErrAmbiguous, session.ErrDepth, session.ErrSecret,
		session.ErrPanic, session.ErrScriptExhausted, session.ErrClosed, session.ErrBrokenTrace, session.ErrScope, session.ErrContextLength,
		session.ErrRule, session.ErrBlock, session.ErrPermissionDenied, session.ErrTaskTerminal, session.ErrNotResumable, session.ErrNoPlan, session.ErrBudget,
		session.ErrChecklist, session.ErrUnsupportedVersion, session.ErrSnapshot, session.ErrTooLarge, session.ErrApprovalNotFound, session.ErrApprovalResolved,
	}
	for i, a := range all {
		for j, b := range all {
			if errors.Is(a, b) != (i == j) {
				t.Errorf("%v and %v", a, b)
			}
		}
	}
}

func TestErrors_quoteWhatIsLongOrHostile(t *testing.T) {
	t.Parallel()
	text := session.NotFound(strings.Repeat("x", 10_000)).Error()
	if len(text) > 200 || !strings.Contains(text, "10000 bytes") {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
	if text := session.NotFound("a\nb\x00").Error(); strings.ContainsAny(text, "\n\x00") {
		t.Errorf("%q", text)
	}
}
