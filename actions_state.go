package holdfast

import (
	"context"

	"github.com/holdfast-dev/holdfast/session"
)

// The actions of this file change what an agent works with.

// RewindSession makes a session's state what it was at a version. Nothing is
// removed: rewinding to a later version undoes it. Status, name, owner, usage
// and counters stay. It needs a store with a log.
type RewindSession struct{ To int64 }

// Name is RewindSession.
func (RewindSession) Name() string               { return "RewindSession" }
func (RewindSession) statuses() []session.Status { return onlyOpen }

// Execute rewinds.
func (a RewindSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	rt := env.x.rt
	if rt.logs == nil {
		return s, rt.unsupported("rewinding")
	}
	target, err := rt.logs.LoadAt(ctx, env.x.ref, a.To)
	if err != nil {
		return s, err
	}
	return s.Rewound(target, env.Now())
}

// ChangeSystemPrompt sets the prompt in force. Empty text means no prompt;
// Reset returns to the definition's.
type ChangeSystemPrompt struct {
	Text  string
	Reset bool
}

// Name is ChangeSystemPrompt.
func (ChangeSystemPrompt) Name() string               { return "ChangeSystemPrompt" }
func (ChangeSystemPrompt) statuses() []session.Status { return onlyOpen }

// Execute sets the prompt.
func (a ChangeSystemPrompt) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	if a.Reset && a.Text != "" {
		return s, &session.InvalidError{Field: "text", Reason: "stands beside Reset; give one of the two"}
	}
	if a.Reset {
		a.Text = s.Definition().SystemPrompt
	}
	return s.WithSystemPrompt(a.Text, moment(ctx))
}

// ChangeModel overrides the model; the very next inference goes to it. An
// empty model returns to the definition's.
type ChangeModel struct {
	Model  string
	Params *session.ModelParams
}

// Name is ChangeModel.
func (ChangeModel) Name() string               { return "ChangeModel" }
func (ChangeModel) statuses() []session.Status { return onlyOpen }

// Execute sets the model, which must exist.
func (a ChangeModel) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := inside(ctx, a)
	if err != nil {
		return s, err
	}
	if err := checkSecrets("ChangeModel", a.Params); err != nil {
		return s, err
	}
	if a.Model != "" {
		if _, _, err := env.x.rt.model(a.Model); err != nil {
			return s, &session.DefinitionError{Source: s.Info().AgentName, Problems: []session.Problem{{Field: "model", Message: err.Error()}}}
		}
	}
	return s.WithModel(a.Model, a.Params, env.Now())
}

// WriteMetadata sets a metadata key to any JSON value, null included.
type WriteMetadata struct {
	Key   string
	Value any
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
	return s.WithMetadata(a.Key, raw, moment(ctx))
}

// RemoveMetadata removes a metadata key; a missing one is no error.
type RemoveMetadata struct{ Key string }

// Name is RemoveMetadata.
func (RemoveMetadata) Name() string               { return "RemoveMetadata" }
func (RemoveMetadata) statuses() []session.Status { return notDeleted }

// Execute removes.
func (a RemoveMetadata) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithoutMetadata(a.Key, moment(ctx))
}

// UpdateTask replaces the session's whole task list. At most 20 items, at most
// one of them in progress.
type UpdateTask struct{ Tasks []session.TaskItem }

// Name is UpdateTask.
func (UpdateTask) Name() string               { return "UpdateTask" }
func (UpdateTask) statuses() []session.Status { return onlyOpen }

// Execute replaces the list.
func (a UpdateTask) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithTasks(a.Tasks, moment(ctx))
}

// StoreVariable writes a value of the session's own memory. IfVersion, where
// set, must be the variable's version; 0 means it must not exist.
type StoreVariable struct {
	Key       string
	Value     any
	IfVersion *int64
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
	if err := sameVersion(s, a.Key, a.IfVersion); err != nil {
		return s, err
	}
	return s.WithVariable(a.Key, raw, moment(ctx))
}

// DeleteVariable removes a value of the session's own memory; one that is not
// there is no error. IfVersion, where set, must be the variable's version.
type DeleteVariable struct {
	Key       string
	IfVersion *int64
}

// Name is DeleteVariable.
func (DeleteVariable) Name() string               { return "DeleteVariable" }
func (DeleteVariable) statuses() []session.Status { return onlyOpen }

// Execute deletes.
func (a DeleteVariable) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	if err := sameVersion(s, a.Key, a.IfVersion); err != nil {
		return s, err
	}
	return s.With(moment(ctx), session.VariableDeleted{Key: a.Key})
}

// sameVersion refuses where a variable is not at the version that is wanted.
func sameVersion(s session.Session, key string, want *int64) error {
	have := s.Variables()[key]
	if have.Deleted {
		have.Version = 0
	}
	if want != nil && *want != have.Version {
		return &session.ConflictError{ID: key, Reason: session.ReasonStaleEntry, Want: *want, Have: have.Version}
	}
	return nil
}
