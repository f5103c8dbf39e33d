package taskruntime

import (
	"encoding/json"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
)

// State is a task as the format has it: its state, and what a session keeps
// beside that.
type State struct {
	session.TaskState
	Permissions Permissions `json:"permissions"`
	Approvals   []Approval  `json:"approvals"`
}

// Permissions are those of a session, with the question that was asked last.
type Permissions struct {
	Mode                string                        `json:"mode"`
	SessionRules        []session.Rule                `json:"sessionRules"`
	TemporaryGrants     session.Pairs[session.Grant]  `json:"temporaryGrants"`
	DenialTracking      session.Pairs[session.Denial] `json:"denialTracking"`
	LatestPromptContext *session.PromptContext        `json:"latestPromptContext"`
}

// Approval is something a task asked a person to allow or to answer.
type Approval struct {
	ID          string          `json:"id"`
	TaskID      string          `json:"taskId"`
	CallID      string          `json:"callId"`
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Details     json.RawMessage `json:"details,omitempty"`
	Status      string          `json:"status"` // pending, approved, denied, expired or cancelled
	RequestedAt int64           `json:"requestedAt"`
	ExpiresAt   int64           `json:"expiresAt,omitempty"`
	ResolvedAt  int64           `json:"resolvedAt,omitempty"`
	Action      string          `json:"action,omitempty"`
	By          string          `json:"by,omitempty"`
}

func newState() State {
	return State{TaskState: session.NewTaskState(), Permissions: permissionsOf(session.Permissions{Mode: session.PermissionDefault})}
}

// stateOf returns a session's task as the format has it. Its pending calls are
// open approvals.
func stateOf(s session.Session) State {
	state := newState()
	if t := s.Task(); t != nil {
		state.TaskState = *t
	}
	state.Permissions = permissionsOf(s.Permissions())
	for _, p := range s.PendingCalls() {
		if !p.Waiting() {
			continue
		}
		a := Approval{
			ID: p.ID, TaskID: s.ID(), CallID: p.CallID, Type: "tool", Description: p.Prompt, Details: p.Details, Status: "pending", RequestedAt: p.AskedAt.UnixMilli(),
		}
		if p.ExpiresAt != nil {
			a.ExpiresAt = p.ExpiresAt.UnixMilli()
		}
		var prompt session.PromptContext
		if p.Kind == session.PendingApproval && json.Unmarshal(p.Details, &prompt) == nil {
			state.Permissions.LatestPromptContext = &prompt
			if prompt.Type != "" {
				a.Type = prompt.Type
			}
		}
		state.Approvals = append(state.Approvals, a)
	}
	return state
}

func permissionsOf(p session.Permissions) Permissions {
	if p.SessionRules == nil {
		p.SessionRules = []session.Rule{}
	}
	return Permissions{Mode: p.Mode, SessionRules: p.SessionRules, TemporaryGrants: p.TemporaryGrants, DenialTracking: p.DenialTracking}
}

func (p Permissions) ofSession() session.Permissions {
	return session.Permissions{Mode: p.Mode, SessionRules: p.SessionRules, TemporaryGrants: p.TemporaryGrants, DenialTracking: p.DenialTracking}
}

func (s State) clone() State {
	s.TaskState = *s.Clone()
	s.Approvals = slices.Clone(s.Approvals)
	return s
}
