package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

// WriteMetadata sets a metadata key to any JSON value, null included.
type WriteMetadata struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// Name is WriteMetadata.
func (WriteMetadata) Name() string               { return "WriteMetadata" }
func (WriteMetadata) statuses() []session.Status { return notDeleted }

// Execute writes.
func (a WriteMetadata) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	raw, err := session.JSON(a.Value)
	if err != nil {
		return s, err
	}
	return s.WithMetadata(a.Key, raw, actionTime(ctx))
}

// RemoveMetadata removes a metadata key; a missing one is no error.
type RemoveMetadata struct {
	Key string `json:"key"`
}

// Name is RemoveMetadata.
func (RemoveMetadata) Name() string               { return "RemoveMetadata" }
func (RemoveMetadata) statuses() []session.Status { return notDeleted }

// Execute removes.
func (a RemoveMetadata) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithoutMetadata(a.Key, actionTime(ctx))
}

// UpdateTask replaces the session's whole task list. At most 20 items, at most
// one of them in progress.
type UpdateTask struct {
	Tasks []session.TaskItem `json:"tasks"`
}

// Name is UpdateTask.
func (UpdateTask) Name() string               { return "UpdateTask" }
func (UpdateTask) statuses() []session.Status { return onlyOpen }

// Execute replaces the list.
func (a UpdateTask) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithTasks(a.Tasks, actionTime(ctx))
}

// StoreVariable writes a value of the session's own memory. IfVersion, where
// set, must be the variable's version; 0 means it must not exist.
type StoreVariable struct {
	Key       string          `json:"key"`
	Value     any             `json:"value"`
	Labels    *session.Labels `json:"labels,omitempty"`
	IfVersion *int64          `json:"ifVersion,omitempty"`
}

// Name is StoreVariable.
func (StoreVariable) Name() string               { return "StoreVariable" }
func (StoreVariable) statuses() []session.Status { return onlyOpen }

// Execute stores.
func (a StoreVariable) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	raw, err := session.JSON(a.Value)
	if err != nil {
		return s, err
	}
	at := actionTime(ctx)
	if err := checkVariableVersion(s, a.Key, a.IfVersion, at); err != nil {
		return s, err
	}
	if err := checkBlockValue(s.Definition().Memory, memory.ScopeSession, a.Key, raw); err != nil {
		return s, err
	}
	return s.With(at, session.VariableStored{Key: a.Key, Value: raw, Labels: a.Labels})
}

// DeleteVariable removes a value of the session's own memory; one that is not
// there is no error. IfVersion, where set, must be the variable's version.
type DeleteVariable struct {
	Key       string `json:"key"`
	IfVersion *int64 `json:"ifVersion,omitempty"`
}

// Name is DeleteVariable.
func (DeleteVariable) Name() string               { return "DeleteVariable" }
func (DeleteVariable) statuses() []session.Status { return onlyOpen }

// Execute deletes.
func (a DeleteVariable) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	at := actionTime(ctx)
	if err := checkVariableVersion(s, a.Key, a.IfVersion, at); err != nil {
		return s, err
	}
	return s.With(at, session.VariableDeleted{Key: a.Key})
}

// checkVariableVersion refuses a variable that is not at the wanted version; one
// that does not exist, or has expired, has version 0.
func checkVariableVersion(s session.Session, key string, want *int64, at time.Time) error {
	have := s.Variables()[key]
	if have.Labels.Expired(at) {
		have = session.Variable{}
	}
	if want != nil && *want != have.Version {
		return &session.ConflictError{ID: key, Reason: session.ReasonStaleEntry, Want: *want, Have: have.Version}
	}
	return nil
}
