package session

import (
	"errors"
	"fmt"
)

// The errors of rules, permissions and tasks. Their sentinels are in errors.go.

// RuleError is a permission rule that cannot be meant so. Nothing was added.
type RuleError struct{ Field, Reason string }

func (e *RuleError) Error() string { return fmt.Sprintf("invalid rule: %s: %s", e.Field, e.Reason) }
func (e *RuleError) Unwrap() error { return ErrRule }

// RuleFileError is a file of permission rules that cannot be used. None of its
// rules counts; Next says what to do about it.
type RuleFileError struct{ File, Reason, Next string }

func (e *RuleFileError) Error() string {
	return fmt.Sprintf("the rules in %s cannot be used: %s; %s", e.File, e.Reason, e.Next)
}
func (e *RuleFileError) Unwrap() error { return ErrRule }

// PermissionDeniedError is a call that the permissions refused. It did not run.
type PermissionDeniedError struct{ Reason string }

func (e *PermissionDeniedError) Error() string { return "permission denied: " + e.Reason }
func (e *PermissionDeniedError) Unwrap() error { return ErrPermissionDenied }

// TaskError is something a task cannot do as it stands. Nothing was changed.
// Err is ErrTaskTerminal or ErrNotResumable.
type TaskError struct {
	ID     string
	Status string // canonical
	Reason string // may be empty
	Err    error
}

func (e *TaskError) Error() string {
	text := fmt.Sprintf("task %s is %s: %v", quoted(e.ID), e.Status, e.Err)
	if errors.Is(e.Err, ErrTaskTerminal) { // its status says so
		text = fmt.Sprintf("task %s has ended: it is %s", quoted(e.ID), e.Status)
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}
func (e *TaskError) Unwrap() error { return e.Err }

// ChecklistError is a checklist that is not taken. Nothing was changed.
type ChecklistError struct{ Message string }

func (e *ChecklistError) Error() string { return e.Message }
func (e *ChecklistError) Unwrap() error { return ErrChecklist }

// UnsupportedVersionError is a snapshot of a form that this program does not
// read. Nothing was taken from it.
type UnsupportedVersionError struct {
	Schema  string // empty where it has none
	Version string // as it is written
	Where   string // "checkpoint", "event 12" …
}

func (e *UnsupportedVersionError) Error() string {
	return fmt.Sprintf("%s has schema %s and version %s; known is session_runtime_v2 with version 2", e.Where, quoted(e.Schema), quoted(e.Version))
}
func (e *UnsupportedVersionError) Unwrap() error { return ErrUnsupportedVersion }

// SnapshotError is a snapshot that cannot be used. Nothing was taken from it.
type SnapshotError struct{ Where, Reason string }

func (e *SnapshotError) Error() string { return fmt.Sprintf("snapshot: %s: %s", e.Where, e.Reason) }
func (e *SnapshotError) Unwrap() error { return ErrSnapshot }

// ApprovalResolvedError is a second answer that differs from the first, which
// stands. Action is the first one.
type ApprovalResolvedError struct{ ID, Action string }

func (e *ApprovalResolvedError) Error() string {
	return fmt.Sprintf("approval %s was answered already: %s", quoted(e.ID), e.Action)
}
func (e *ApprovalResolvedError) Unwrap() error { return ErrApprovalResolved }
