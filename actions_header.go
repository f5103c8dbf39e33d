package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// The actions of this file change a session's name, expiry, prompt, model or permission mode.

// RenameSession gives a session a human name; empty takes it away.
type RenameSession struct {
	To string `json:"to"`
}

// Name is RenameSession.
func (RenameSession) Name() string               { return "RenameSession" }
func (RenameSession) statuses() []session.Status { return notDeleted }

// Execute sets the name.
func (a RenameSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithName(a.To, actionTime(ctx))
}

// SetExpiry says from when a session may be swept; the zero time means never.
type SetExpiry struct {
	At time.Time `json:"at"`
}

// Name is SetExpiry.
func (SetExpiry) Name() string               { return "SetExpiry" }
func (SetExpiry) statuses() []session.Status { return notDeleted }

// Execute sets the expiry.
func (a SetExpiry) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.WithExpiry(a.At, actionTime(ctx))
}

// ChangeSystemPrompt sets the prompt in force. Empty text means no prompt;
// Reset returns to the definition's.
type ChangeSystemPrompt struct {
	Text  string `json:"text"`
	Reset bool   `json:"reset,omitempty"`
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
	return s.WithSystemPrompt(a.Text, actionTime(ctx))
}

// ChangeModel overrides the model; the very next inference goes to it. An
// empty model returns to the definition's, and nil parameters to its parameters.
type ChangeModel struct {
	Model  string               `json:"model"`
	Params *session.ModelParams `json:"params,omitempty"`
}

// Name is ChangeModel.
func (ChangeModel) Name() string               { return "ChangeModel" }
func (ChangeModel) statuses() []session.Status { return onlyOpen }

// Execute sets the model, which must exist.
func (a ChangeModel) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := requireEnv(ctx, a)
	if err != nil {
		return s, err
	}
	if err := checkSecrets("ChangeModel", a.Params); err != nil {
		return s, err
	}
	if a.Model != "" {
		if _, _, err := env.x.rt.Model(a.Model); err != nil {
			return s, &session.DefinitionError{Source: s.Info().AgentName, Problems: []session.Problem{{Field: "model", Message: err.Error()}}}
		}
	}
	return s.WithModel(a.Model, a.Params, env.Now())
}

// ChangePermissionMode sets what becomes of tool calls of a chat that no rule
// decides. The next call is decided by it.
type ChangePermissionMode struct {
	Mode string `json:"mode"`
}

// Name is ChangePermissionMode.
func (ChangePermissionMode) Name() string               { return "ChangePermissionMode" }
func (ChangePermissionMode) statuses() []session.Status { return onlyOpen }

// Execute sets the mode, which must exist.
func (a ChangePermissionMode) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	if err := session.CheckPermissionMode(a.Mode); err != nil {
		return s, err
	}
	if s.Info().Kind != session.KindChat {
		return s, &session.InvalidError{Field: "kind", Reason: fmt.Sprintf("the mode of a %s is changed by its own settings", s.Info().Kind)}
	}
	return s.With(actionTime(ctx), session.PermissionModeChanged(a.Mode))
}
