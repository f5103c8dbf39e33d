package problem_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
)

// Titles are sentences, whoever made the problem.
func TestNew_hasATitleInWords(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{
		problem.CodeUnauthenticated: 401, problem.CodeForbidden: 403, problem.CodeRateLimited: 429, problem.CodeWrongHost: 421,
		problem.CodeCrossOrigin: 403, problem.CodeNoRoute: 404, problem.CodeBadRequest: 400, problem.CodeInternal: 500,
		problem.CodeCancelled: 499, problem.CodeMediaType: 415, problem.CodeIssuer: 503, "invalid": 422, "busy": 409,
	} {
		if title := problem.New(status, code, "x").Title; title == "" || title == http.StatusText(status) {
			t.Errorf("%s has the title %q", code, title)
		}
	}
}

// An error that went over the wire has the type, the fields and the text it had.
func TestProblem_errorsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		err    error
		status int
		code   string
	}{
		{session.NotFound("s-1"), 404, "not_found"},
		{&session.NotFoundError{What: "model", ID: "gpt", Available: []string{"a", "b"}}, 404, "not_found"},
		{&session.ConflictError{ID: "s-1", Reason: session.ReasonStale, Want: 3, Have: 5}, 409, "conflict_stale"},
		{&session.ConflictError{ID: "s-1", Reason: session.ReasonKeyReused}, 422, "conflict_key_reused"},
		{&session.ConflictError{What: "schedule", ID: "daily", Reason: session.ReasonExists}, 409, "conflict_exists"},
		{&session.InvalidError{Field: "limit", Reason: "-1 is negative"}, 422, "invalid"},
		{errors.Join(&session.InvalidError{Field: "cron", Reason: "is empty"}, &session.InvalidError{Field: "text", Reason: "is blank"}), 422, "invalid"},
		{&session.StatusError{ID: "s-1", Status: session.Failed, Action: "SendMessage"}, 409, "wrong_status"},
		{&session.BusyError{ID: "s-1", Holder: "host/7", Until: noon}, 409, "busy"},
		{&session.BusyError{ID: "s-1"}, 409, "busy"},
		{&session.FencedError{ID: "s-1", Token: 3, Have: 4}, 503, "fenced"},
		{&session.RespondedError{ID: "s-1", Response: session.Response{PendingID: "p-1", Action: session.RespondDeny, By: "ann"}}, 409, "responded"},
		{&session.QueuedError{ID: "s-1", InboxID: "i-1"}, 202, "queued"},
		{&session.InterruptedError{ID: "s-1", Seq: 9, Err: session.NotFound("x")}, 503, "interrupted"},
		{&session.UnknownOutcomeError{ID: "s-1", CommitID: "c-1", Err: &session.InvalidError{Field: "a", Reason: "b"}}, 500, "unknown_outcome"},
		{&session.CorruptError{ID: "s-1", Reason: "missing header"}, 500, "corrupt"},
		{&session.HookError{Stage: session.BeforeSave, Hook: "audit", Err: session.NotFound("x")}, 422, "hook_refused"},
		{&session.AfterSaveError{ID: "s-1", Version: 4, Stage: session.AfterSave, Hook: "mail", Err: session.NotFound("x")}, 200, "after_save"},
		{&session.ExecutionError{ID: "s-1", Version: 4, ExecutionID: "x-1", Err: session.NotFound("x")}, 200, "execution_failed"},
		{&session.DefinitionError{Problems: []session.Problem{{Field: "a", Message: "x"}, {Field: "b", Message: "y"}}}, 422, "invalid_definition"},
		{&session.AmbiguousError{Ref: "ab", Candidates: []string{"abc", "abd"}}, 409, "ambiguous"},
		{&session.BlockError{Block: "plan", Reason: session.BlockTooLong, Have: 9, Want: 8}, 422, "block"},
		{&session.RuleError{Field: "scope", Reason: "is empty"}, 422, "rule"},
		{&session.TaskError{ID: "t", Status: "completed", Err: session.ErrTaskTerminal}, 409, "task_ended"},
		{&session.TaskError{ID: "t", Status: "failed", Reason: "r", Err: session.ErrNotResumable}, 409, "not_resumable"},
	} {
		t.Run(fmt.Sprintf("%T %s", tt.err, tt.code), func(t *testing.T) {
			t.Parallel()
			p := problem.Of(tt.err)
			if p.Status != tt.status || p.Code != tt.code {
				t.Errorf("%d %s, want %d %s", p.Status, p.Code, tt.status, tt.code)
			}
			data, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			var read problem.Problem
			if err := json.Unmarshal(data, &read); err != nil {
				t.Fatal(err)
			}
			if got := read.Err(); !reflect.DeepEqual(any(got), any(tt.err)) || got.Error() != tt.err.Error() {
				t.Errorf("came back as %#v (%v)", got, got)
			}
		})
	}
}

// Errors without members of their own keep what callers match.
func TestProblem_otherErrorsMatchTheirSentinel(t *testing.T) {
	t.Parallel()
	for _, is := range []error{
		session.ErrClosed, session.ErrTooLarge, session.ErrBudget, session.ErrPermissionDenied, session.ErrScope,
		session.ErrContextLength, session.ErrChecklist, session.ErrUnsupported, session.ErrReadOnly, session.ErrSpec, session.ErrNewerFormat,
	} {
		p := problem.Of(fmt.Errorf("while testing: %w", is))
		if err := p.Err(); !errors.Is(err, is) || err.Error() != "while testing: "+is.Error() {
			t.Errorf("%v came back as %v", is, err)
		}
	}
}

func TestProblem_anUnknownErrorKeepsItsText(t *testing.T) {
	t.Parallel()
	p := problem.Of(errors.New("disk full"))
	if p.Status != 500 || p.Code != "internal" || p.Err().Error() != "disk full" {
		t.Errorf("%+v", p)
	}
	if problem.Of(nil) != nil {
		t.Error("no error has a problem")
	}
}
