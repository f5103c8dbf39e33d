package session

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Sentinels: match them with errors.Is. Where an error has data, the type of
// the same name matches with errors.As, and its sentinel too.
var (
	ErrNotFound        = errors.New("not found")
	ErrConflict        = errors.New("conflict")
	ErrInvalid         = errors.New("invalid")
	ErrStatus          = errors.New("wrong status")
	ErrNothingToDo     = errors.New("nothing to do")
	ErrSetAside        = errors.New("set aside")
	ErrBusy            = errors.New("busy")
	ErrFenced          = errors.New("fenced")
	ErrQueued          = errors.New("queued")
	ErrResponded       = errors.New("already has a response")
	ErrInterrupted     = errors.New("interrupted")
	ErrUnknownOutcome  = errors.New("unknown outcome")
	ErrCorrupt         = errors.New("corrupt")
	ErrNewerFormat     = errors.New("newer format")
	ErrHook            = errors.New("hook refused")
	ErrAfterSave       = errors.New("failed after save")
	ErrExecutionFailed = errors.New("execution failed")
	ErrDefinition      = errors.New("invalid definition")
	ErrSpec            = errors.New("invalid workflow spec")
	ErrUnsupported     = errors.New("unsupported")
	ErrReadOnly        = errors.New("read-only")
	ErrAmbiguous       = errors.New("ambiguous")
	ErrDepth           = errors.New("too deep")
	ErrSecret          = errors.New("secret refused")
	ErrPanic           = errors.New("panic")
	ErrScriptExhausted = errors.New("script exhausted")
	ErrClosed          = errors.New("closed")
	ErrBrokenTrace     = errors.New("broken trace")
	ErrScope           = errors.New("scope not allowed")
	ErrContextLength   = errors.New("context length exceeded")
	ErrRule            = errors.New("invalid rule")
	ErrBlock           = errors.New("block not changed")

	ErrPermissionDenied   = errors.New("permission denied")
	ErrTaskTerminal       = errors.New("the task has ended")
	ErrNotResumable       = errors.New("the task cannot be resumed")
	ErrNoPlan             = errors.New("the task has no plan")
	ErrBudget             = errors.New("budget used up")
	ErrChecklist          = errors.New("invalid checklist")
	ErrUnsupportedVersion = errors.New("unsupported version")
	ErrSnapshot           = errors.New("invalid snapshot")
	ErrTooLarge           = errors.New("too large")
	ErrApprovalNotFound   = errors.New("approval not found")
	ErrApprovalResolved   = errors.New("approval was answered already")
)

// NotFoundError says which session is not there. Available lists the names
// that are, where the thing looked for has a closed set of names.
type NotFoundError struct {
	What      string // "session", "definition", "model" …
	ID        string
	Available []string
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("%s %s not found", e.What, quoted(e.ID))
	if e.Available != nil {
		text += "; available: " + listed(e.Available)
	}
	return text
}
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// NotFound is the error for a session that is not in the store.
func NotFound(id string) error { return &NotFoundError{What: "session", ID: id} }

// ConflictReason says which check a write lost.
type ConflictReason string

// The reasons of a ConflictError.
const (
	ReasonExists         ConflictReason = "exists"
	ReasonNonzeroVersion ConflictReason = "nonzero_version"
	ReasonReplaced       ConflictReason = "replaced"
	ReasonStale          ConflictReason = "stale"
	ReasonOpenTail       ConflictReason = "open_tail"
	ReasonKeyReused      ConflictReason = "key_reused"
	ReasonDiffers        ConflictReason = "differs"
	ReasonStaleEntry     ConflictReason = "stale_entry"
)

// ConflictError is a lost race or a repeated id. Nothing was written; reload
// and decide again. Want is what the writer came with, Have what is stored.
type ConflictError struct {
	What   string // empty: session
	ID     string
	Reason ConflictReason
	Want   int64
	Have   int64
}

func (e *ConflictError) Error() string {
	id, what := quoted(e.ID), cmp.Or(e.What, "session")
	switch e.Reason {
	case ReasonExists:
		return fmt.Sprintf("%s %s already exists", what, id)
	case ReasonNonzeroVersion:
		return fmt.Sprintf("session %s has version %d and cannot be created again", id, e.Want)
	case ReasonReplaced:
		return fmt.Sprintf("session %s was purged and made again since it was loaded", id)
	case ReasonStale:
		return fmt.Sprintf("session %s was loaded at version %d but is at version %d now; reload it", id, e.Want, e.Have)
	case ReasonOpenTail:
		return fmt.Sprintf("session %s has unsealed changes up to %d, loaded up to %d; reload it with its tail", id, e.Have, e.Want)
	case ReasonKeyReused:
		return fmt.Sprintf("%s %s: the idempotency key was used for another request", what, id)
	case ReasonStaleEntry:
		if e.Have == 0 {
			return fmt.Sprintf("key %s is wanted at version %d but does not exist", id, e.Want)
		}
		return fmt.Sprintf("key %s is wanted at version %d but is at version %d", id, e.Want, e.Have)
	case ReasonDiffers:
		return fmt.Sprintf("session %s is already there and differs from change %d on; it is left as it is", id, e.Have)
	}
	return fmt.Sprintf("session %s: conflict (%s)", id, e.Reason)
}
func (e *ConflictError) Unwrap() error { return ErrConflict }

// InvalidError is input that cannot be taken. Nothing was changed.
type InvalidError struct{ Field, Reason string }

func (e *InvalidError) Error() string { return fmt.Sprintf("invalid %s: %s", e.Field, e.Reason) }
func (e *InvalidError) Unwrap() error { return ErrInvalid }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// reasonOf is what is wrong, without the field an InvalidError names.
func reasonOf(err error) string {
	var e *InvalidError
	if errors.As(err, &e) {
		return e.Reason
	}
	return err.Error()
}

// StatusError is an action the session's status does not permit. Nothing was changed.
type StatusError struct {
	ID     string
	Status Status
	Action string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("session %s is %s: %s is not permitted", quoted(e.ID), e.Status, e.Action)
}
func (e *StatusError) Unwrap() error { return ErrStatus }

// NothingToDoError is a request to continue, retry, abandon or cancel an
// execution where there is none that could be. It is an InvalidError too.
type NothingToDoError struct {
	ID   string
	What string // "continue", "retry" …
}

func (e *NothingToDoError) Error() string {
	return fmt.Sprintf("session %s: there is nothing to %s", quoted(e.ID), e.What)
}
func (e *NothingToDoError) Unwrap() []error { return []error{ErrNothingToDo, ErrInvalid} }

// SetAsideError says that a session was suspended because its execution was
// recovered so often without coming to an end. It continues on request.
type SetAsideError struct {
	ID         string
	Recoveries int
}

func (e *SetAsideError) Error() string {
	return fmt.Sprintf("session %s was set aside: its execution was recovered %d times and did not end; retry or abandon it", quoted(e.ID), e.Recoveries)
}
func (e *SetAsideError) Unwrap() error { return ErrSetAside }

// BusyError is a lease or lock somebody else holds. Until is zero where the
// holder set no end.
type BusyError struct {
	ID     string
	Holder string
	Until  time.Time
}

func (e *BusyError) Error() string {
	text := fmt.Sprintf("session %s is busy", quoted(e.ID))
	if e.Holder != "" {
		text += ": held by " + e.Holder
	}
	if !e.Until.IsZero() {
		text += " until " + e.Until.UTC().Format(time.RFC3339)
	}
	return text
}
func (e *BusyError) Unwrap() error { return ErrBusy }

// FencedError is a write under a lease that has passed to another holder.
// Nothing was written.
type FencedError struct {
	ID    string
	Token int64 // the writer's
	Have  int64 // the newest, 0 where it is not known
}

func (e *FencedError) Error() string {
	if e.Have <= e.Token {
		return fmt.Sprintf("session %s: lease %d is no longer valid", quoted(e.ID), e.Token)
	}
	return fmt.Sprintf("session %s: lease %d is no longer valid, %d is the newest", quoted(e.ID), e.Token, e.Have)
}
func (e *FencedError) Unwrap() error { return ErrFenced }

// QueuedError says the input went to the inbox of a running session: there is
// no answer to it yet.
type QueuedError struct{ ID, InboxID string }

func (e *QueuedError) Error() string {
	return fmt.Sprintf("session %s is running: queued as %s", quoted(e.ID), quoted(e.InboxID))
}
func (e *QueuedError) Unwrap() error { return ErrQueued }

// RespondedError says that a pending call was settled by another response.
type RespondedError struct {
	ID       string
	Response Response // the one that counts
}

func (e *RespondedError) Error() string {
	by := ""
	if e.Response.By != "" {
		by = " by " + e.Response.By
	}
	return fmt.Sprintf("the call %s of session %s already has a response: %s%s", quoted(e.Response.PendingID), quoted(e.ID), e.Response.Action, by)
}
func (e *RespondedError) Unwrap() error { return ErrResponded }

// InterruptedError says an execution was interrupted. What was durable up to
// Seq stays in the open tail; the next message or ContinueExecution goes on from it.
type InterruptedError struct {
	ID  string
	Seq int64
	Err error
}

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("session %s was interrupted and can be continued%s", quoted(e.ID), because(e.Err))
}
func (e *InterruptedError) Unwrap() []error { return []error{ErrInterrupted, e.Err} }

// UnknownOutcomeError says a save may or may not have happened. Reload before retrying.
type UnknownOutcomeError struct {
	ID       string
	CommitID string
	Err      error
}

func (e *UnknownOutcomeError) Error() string {
	what := "the write"
	if e.CommitID != "" {
		what = "commit " + quoted(e.CommitID)
	}
	return fmt.Sprintf("session %s: whether %s was saved is unknown, reload before retrying%s", quoted(e.ID), what, because(e.Err))
}
func (e *UnknownOutcomeError) Unwrap() []error { return []error{ErrUnknownOutcome, e.Err} }

// CorruptError is stored data that cannot be used. It is left as it is. Path
// is a file, or a place inside a document or a store. Record is the number of
// the log's record that is wrong, 0 where it is none of them.
type CorruptError struct {
	ID     string `json:"id"`
	Path   string `json:"path,omitempty"`
	Record int64  `json:"record,omitempty"`
	Reason string `json:"reason"`
}

func (e *CorruptError) Error() string {
	text := "it is corrupt"
	if e.ID != "" {
		text = fmt.Sprintf("session %s is corrupt", quoted(e.ID))
	}
	if e.Path != "" {
		text += " (" + e.Path + ")"
	}
	if e.Record > 0 {
		text += fmt.Sprintf(": record %d", e.Record)
	}
	return text + ": " + e.Reason
}
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// NewerFormatError is data written by a newer program. It is refused, never
// downgraded.
type NewerFormatError struct {
	What string // "format version", "change kind" …
	Have string
	Know string
}

func (e *NewerFormatError) Error() string {
	return fmt.Sprintf("%s %s is newer than this program knows (%s); use a newer holdfast", e.What, e.Have, e.Know)
}
func (e *NewerFormatError) Unwrap() error { return ErrNewerFormat }

// HookError is the refusal of one hook. At after_load, after_action,
// before_create and before_save nothing was saved.
type HookError struct {
	Stage Stage
	Hook  string
	Err   error
}

func (e *HookError) Error() string {
	return fmt.Sprintf("hook %s at %s refused%s", quoted(e.Hook), e.Stage, because(e.Err))
}
func (e *HookError) Unwrap() []error { return []error{ErrHook, e.Err} }

// AfterSaveError is a hook that failed when the session was already saved.
// The session stays saved as Version.
type AfterSaveError struct {
	ID      string
	Version int64
	Stage   Stage
	Hook    string
	Err     error
}

func (e *AfterSaveError) Error() string {
	return fmt.Sprintf("session %s was saved as version %d; then hook %s at %s failed%s", quoted(e.ID), e.Version, quoted(e.Hook), e.Stage, because(e.Err))
}
func (e *AfterSaveError) Unwrap() []error { return []error{ErrAfterSave, e.Err} }

// ExecutionError is an agent loop that failed. The session was saved as
// Version with what happened up to then.
type ExecutionError struct {
	ID          string
	Version     int64
	ExecutionID string
	Err         error
}

func (e *ExecutionError) Error() string {
	cause := e.Err
	if cause == nil {
		cause = ErrExecutionFailed
	}
	return fmt.Sprintf("%v; session %s was saved as version %d", cause, quoted(e.ID), e.Version)
}
func (e *ExecutionError) Unwrap() []error { return []error{ErrExecutionFailed, e.Err} }

// UnsupportedError is an ability the store or program does not have.
type UnsupportedError struct{ Store, Ability string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("%s does not support %s", e.Store, e.Ability)
}
func (e *UnsupportedError) Unwrap() error { return ErrUnsupported }

// ReadOnlyError is a write to a store that can only be read here. Nothing was
// written.
type ReadOnlyError struct {
	Store  string
	Reason string
}

func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("%s can only be read: %s", e.Store, e.Reason)
}
func (e *ReadOnlyError) Unwrap() error { return ErrReadOnly }

// AmbiguousError is a reference that fits several sessions.
type AmbiguousError struct {
	Ref        string
	Candidates []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s fits several sessions: %s", quoted(e.Ref), listed(e.Candidates))
}
func (e *AmbiguousError) Unwrap() error { return ErrAmbiguous }

// LimitError is something larger than allowed. Nothing was changed. Field is the
// setting that raises the limit.
type LimitError struct {
	What        string // "the message"
	Size, Limit int    // bytes
	Field       string // "Config.Limits.Message"
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s has %d bytes, the limit is %d: send less, or raise %s", e.What, e.Size, e.Limit, e.Field)
}
func (e *LimitError) Unwrap() error { return ErrTooLarge }

// DepthError is a subagent, or a fork of forks, that would lie deeper than
// allowed.
type DepthError struct{ Depth, Max int }

func (e *DepthError) Error() string {
	return fmt.Sprintf("depth %d is beyond the limit of %d", e.Depth, e.Max)
}
func (e *DepthError) Unwrap() error { return ErrDepth }

// SecretError is a credential where none may stand. It names the key, never
// the value.
type SecretError struct{ Source, Key string }

func (e *SecretError) Error() string {
	text := fmt.Sprintf("key %q looks like a secret; name an environment variable in the provider's set-up instead", e.Key)
	if e.Source != "" {
		text = e.Source + ": " + text
	}
	return text
}
func (e *SecretError) Unwrap() error { return ErrSecret }

// PanicError is a recovered panic of an action, hook or tool.
type PanicError struct {
	Where string
	Value any
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.Where, e.Value) }
func (e *PanicError) Unwrap() []error {
	if err, ok := e.Value.(error); ok {
		return []error{ErrPanic, err}
	}
	return []error{ErrPanic}
}

// BrokenTraceError is a request that says which one it came from but not with
// which one all began.
type BrokenTraceError struct{ RequestID, ParentID string }

func (e *BrokenTraceError) Error() string {
	return fmt.Sprintf("request %s has the parent %s but no rootRequestId", e.RequestID, e.ParentID)
}
func (e *BrokenTraceError) Unwrap() error { return ErrBrokenTrace }

// ScopeError is a memory scope the policy does not allow.
type ScopeError struct {
	Scope   string
	Allowed []string
}

func (e *ScopeError) Error() string {
	return fmt.Sprintf("memory scope %q is not allowed; allowed: %s", e.Scope, listed(e.Allowed))
}
func (e *ScopeError) Unwrap() error { return ErrScope }

// ContextLengthError is a request that does not fit the model.
type ContextLengthError struct {
	Model     string
	Have, Max int
}

func (e *ContextLengthError) Error() string {
	return fmt.Sprintf("the request has %d tokens, model %q takes %d", e.Have, e.Model, e.Max)
}
func (e *ContextLengthError) Unwrap() error { return ErrContextLength }

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// because is the end of a text that gives a cause, where there is one.
func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
