// Package problem carries the domain's errors over HTTP: Of turns an error into
// an RFC 9457 problem document, and Problem.Err turns the document back into an
// error that matches the same types. Server and client share it, so a caller
// handles one set of errors wherever the runtime runs.
package problem

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// ContentType is the media type of a problem document.
const ContentType = "application/problem+json"

// Problem is an error as the API reports it. Code is stable and what programs
// should look at; Detail is for people. The other members are set where the
// code needs them.
type Problem struct {
	Title  string `json:"title" doc:"What kind of problem it is, in words"`
	Status int    `json:"status" doc:"The HTTP status that it has as a response"`
	Code   string `json:"code" doc:"The stable name of the problem"`
	Detail string `json:"detail,omitempty" doc:"What happened, for people"`

	ID         string            `json:"id,omitempty" doc:"The thing that it is about, as a rule a session"`
	What       string            `json:"what,omitempty" doc:"What kind of thing that is"`
	Reason     string            `json:"reason,omitempty"`
	Action     string            `json:"action,omitempty"`
	StatusName string            `json:"statusName,omitempty" doc:"The status that does not permit the action"`
	Available  []string          `json:"available,omitempty" doc:"What there is instead"`
	Version    int64             `json:"version,omitempty" doc:"The version that was saved nevertheless"`
	Want       int64             `json:"want,omitempty"`
	Have       int64             `json:"have,omitempty"`
	Holder     string            `json:"holder,omitempty" doc:"Who executes on the session"`
	Until      *time.Time        `json:"until,omitempty"`
	Seq        int64             `json:"seq,omitempty" doc:"The last change that was written"`
	InboxID    string            `json:"inboxId,omitempty" doc:"The inbox item that was written"`
	Execution  string            `json:"executionId,omitempty"`
	Stage      string            `json:"stage,omitempty"`
	Hook       string            `json:"hook,omitempty"`
	Response   *session.Response `json:"response,omitempty" doc:"The response that counts"`
	Errors     []FieldError      `json:"errors,omitempty" doc:"Everything that is wrong with the request"`
	Cause      *Problem          `json:"cause,omitempty"`
	RetryAfter int               `json:"retryAfter,omitempty" doc:"Seconds to wait before the request is repeated"`
}

// FieldError is one thing wrong with a request.
type FieldError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Codes that are not errors of the domain.
const (
	CodeUnauthenticated = "unauthenticated"
	CodeForbidden       = "forbidden"
	CodeRateLimited     = "rate_limited"
	CodeWrongHost       = "wrong_host"
	CodeCrossOrigin     = "cross_origin"
	CodeNoRoute         = "no_route"
	CodeBadRequest      = "bad_request"
	CodeInternal        = "internal"
	CodeCancelled       = "cancelled"
	CodeMediaType       = "unsupported_media_type"
	CodeIssuer          = "issuer_unreachable"
)

// kind is one row of the table of errors.
type kind struct {
	is     error
	status int
	code   string
	title  string
	retry  int // seconds; 0: a repetition does not help
}

// kinds has every error that the runtime returns. An error may be several of
// them: the first that fits decides, so what says most about the state that is
// left behind comes first.
var kinds = []kind{
	{session.ErrUnknownOutcome, 500, "unknown_outcome", "It is unknown whether the change was saved", 0},
	{session.ErrExecutionFailed, 200, "execution_failed", "The execution failed and that was saved", 0},
	{session.ErrAfterSave, 200, "after_save", "A hook failed after the session was saved", 0},
	{session.ErrQueued, 202, "queued", "The message waits in the session's inbox", 0},
	{session.ErrInterrupted, 503, "interrupted", "The execution was interrupted and can be continued", 1},
	{session.ErrFenced, 503, "fenced", "Another process took over the session", 1},
	{session.ErrClosed, 503, "draining", "The server is shutting down", 1},
	{session.ErrPanic, 500, "panic", "A part of the program failed", 0},
	{session.ErrHook, 422, "hook_refused", "A hook refused the change", 0},
	{session.ErrDefinition, 422, "invalid_definition", "The definition cannot be used", 0},
	{session.ErrSpec, 422, "invalid_spec", "The workflow spec cannot be used", 0},
	{session.ErrSecret, 422, "secret", "A secret stands where none may stand", 0},
	{session.ErrUnsupported, 501, "unsupported", "This is not supported or not set up here", 0},
	{session.ErrReadOnly, 503, "read_only", "The store can only be read", 0},
	{session.ErrTaskTerminal, 409, "task_ended", "The task has ended", 0},
	{session.ErrNotResumable, 409, "not_resumable", "The task cannot be resumed", 0},
	{session.ErrUnsupportedVersion, 422, "unsupported_version", "The snapshot has a form that is not known", 0},
	{session.ErrSnapshot, 422, "snapshot", "The snapshot cannot be used", 0},
	{session.ErrNoPlan, 409, "no_plan", "The task has no plan", 0},
	{session.ErrResponded, 409, "responded", "The call already has a response", 0},
	{session.ErrBudget, 409, "budget", "A budget is used up", 0},
	{session.ErrChecklist, 422, "checklist", "The checklist cannot be used", 0},
	{session.ErrBlock, 422, "block", "The block cannot be changed so", 0},
	{session.ErrRule, 422, "rule", "The rule cannot be used", 0},
	{session.ErrPermissionDenied, 403, "permission_denied", "The permissions refuse it", 0},
	{session.ErrTooLarge, 413, "too_large", "The request is too large", 0},
	{session.ErrCorrupt, 500, "corrupt", "The stored data is damaged", 0},
	{session.ErrNewerFormat, 500, "newer_format", "The stored data needs a newer version of the program", 0},
	{session.ErrAmbiguous, 409, "ambiguous", "The reference fits several sessions", 0},
	{session.ErrNotFound, 404, "not_found", "There is no such thing", 0},
	{session.ErrConflict, 409, "conflict", "Somebody else was faster", 0},
	{session.ErrStatus, 409, "wrong_status", "The session's status does not permit it", 0},
	{session.ErrBusy, 409, "busy", "Somebody else executes on the session", 1},
	{session.ErrDepth, 422, "depth", "It would be too deep", 0},
	{session.ErrScope, 422, "scope", "The memory scope is not allowed", 0},
	{session.ErrContextLength, 422, "context_length", "The request does not fit the model", 0},
	{session.ErrBrokenTrace, 422, "broken_trace", "The request's trace is incomplete", 0},
	{session.ErrNothingToDo, 422, "nothing_to_do", "There is nothing to do", 0},
	{session.ErrSetAside, 409, "set_aside", "The session was set aside", 0},
	{session.ErrInvalid, 422, "invalid", "The request is not valid", 0},
	{context.DeadlineExceeded, 504, "timeout", "It took too long", 1},
	{context.Canceled, 499, CodeCancelled, "The caller went away", 0},
}

// conflictStatus is the status of a conflict by its reason where it is not 409.
var conflictStatus = map[session.ConflictReason]int{
	session.ReasonKeyReused: http.StatusUnprocessableEntity,
}

// New makes a problem that is no error of the domain.
func New(status int, code, detail string) *Problem {
	return &Problem{Title: titleOf(status, code), Status: status, Code: code, Detail: detail}
}

// titles are those of the codes that are not errors of the domain.
var titles = map[string]string{
	CodeUnauthenticated: "The request does not say who asks",
	CodeForbidden:       "The caller may not do it",
	CodeRateLimited:     "There are too many requests",
	CodeWrongHost:       "The server does not answer for this host",
	CodeCrossOrigin:     "The request comes from another site",
	CodeNoRoute:         "There is no such address",
	CodeBadRequest:      "The request cannot be read",
	CodeInternal:        "The server failed",
	CodeMediaType:       "The body has a media type that is not taken",
	CodeIssuer:          "The issuer of the token cannot be reached",
}

// titleOf returns what kind of problem a code stands for, in words. A code that
// only one route has is described by its status.
func titleOf(status int, code string) string {
	if title, ok := titles[code]; ok {
		return title
	}
	for _, k := range kinds {
		if k.code == code {
			return k.title
		}
	}
	return http.StatusText(status)
}

// Of returns the problem of an error, nil for nil. Errors of no known type are
// "internal" and keep their text: a caller never gets a failure without a cause.
func Of(err error) *Problem {
	if err == nil {
		return nil
	}
	var already *Problem
	if errors.As(err, &already) {
		return already
	}
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			p := &Problem{Title: k.title, Status: k.status, Code: k.code, Detail: err.Error(), RetryAfter: k.retry}
			p.describe(err)
			return p
		}
	}
	return &Problem{Title: titles[CodeInternal], Status: http.StatusInternalServerError, Code: CodeInternal, Detail: err.Error()}
}

// Saved reports that the request was carried out nevertheless: a version or an
// inbox item was written.
func (p *Problem) Saved() bool { return p.Status < 300 }

// Error makes a Problem an error by itself.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return strings.ToLower(p.Title)
}

// Unwrap lets a problem match the sentinel of its code.
func (p *Problem) Unwrap() error {
	for _, k := range kinds {
		if p.is(k.code) {
			return k.is
		}
	}
	return nil
}

// is reports whether the problem has this code. The code of a conflict carries
// its reason.
func (p *Problem) is(code string) bool {
	return p.Code == code || code == "conflict" && strings.HasPrefix(p.Code, "conflict_")
}

// GetStatus and ContentType make a problem an error that huma writes as it is.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of a problem.
func (p *Problem) ContentType(string) string { return ContentType }
