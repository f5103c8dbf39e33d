package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// WithMessage appends a message. Its Seq is set here; an empty CreatedAt
// becomes the time of the change.
func (s Session) WithMessage(m Message, at time.Time) (Session, error) {
	return s.With(at, MessageAdded{Message: m})
}

// WithStatus moves the session's status. Reason may be empty.
func (s Session) WithStatus(status Status, reason string, at time.Time) (Session, error) {
	if s.Status() == status {
		return s, nil
	}
	return s.With(at, StatusChanged{Status: status, Reason: reason})
}

// StatusBeforeDeletion is where RestoreSession leads.
func (s Session) StatusBeforeDeletion() Status {
	return cmp.Or(Status(s.b.st.Metadata.String(restoreKey)), Active)
}

// WithName names the session; empty takes the name away.
func (s Session) WithName(name string, at time.Time) (Session, error) {
	return s.With(at, NameChanged{Name: name})
}

// WithExpiry sets the moment from which the session may be swept; the zero
// time means never.
func (s Session) WithExpiry(expires, at time.Time) (Session, error) {
	if expires.IsZero() {
		return s.With(at, ExpiryChanged{})
	}
	return s.With(at, ExpiryChanged{ExpiresAt: &expires})
}

// WithMetadata sets a key to a JSON value. Reserved keys are refused.
func (s Session) WithMetadata(key string, value json.RawMessage, at time.Time) (Session, error) {
	if err := checkMetadataKey(key); err != nil {
		return s, err
	}
	return s.With(at, MetadataWritten{Key: key, Value: value})
}

// WithoutMetadata removes a key; a missing one changes nothing.
func (s Session) WithoutMetadata(key string, at time.Time) (Session, error) {
	if err := checkMetadataKey(key); err != nil {
		return s, err
	}
	if _, ok := s.b.st.Metadata[key]; !ok {
		return s, nil
	}
	return s.With(at, MetadataRemoved{Key: key})
}

// WithVariable stores a value in the session's own memory.
func (s Session) WithVariable(key string, value json.RawMessage, at time.Time) (Session, error) {
	return s.With(at, VariableStored{Key: key, Value: value})
}

// WithSystemPrompt sets the prompt in force; empty means none.
func (s Session) WithSystemPrompt(text string, at time.Time) (Session, error) {
	return s.With(at, SystemPromptChanged{Text: text})
}

// WithModel overrides model and parameters; empty and nil return to the
// definition's.
func (s Session) WithModel(model string, params *ModelParams, at time.Time) (Session, error) {
	return s.With(at, ModelChanged{Model: model, Params: params})
}

// Cleared has an empty transcript and window and no execution; everything
// else stays.
func (s Session) Cleared(at time.Time) (Session, error) {
	return s.With(at, TranscriptCleared{})
}

// TaskStatus is where one item of a task list stands.
type TaskStatus string

// The statuses of a task list's items.
const (
	TaskPending    TaskStatus = "pending"
	TaskInProgress TaskStatus = "in_progress"
	TaskCompleted  TaskStatus = "completed"
)

const maxTasks = 20

// TaskItem is one line of a session's task list.
type TaskItem struct {
	Content    string     `json:"content"`
	Status     TaskStatus `json:"status"`
	ActiveForm string     `json:"activeForm"`
}

// WithTasks replaces the whole task list, kept under the metadata key "tasks".
func (s Session) WithTasks(items []TaskItem, at time.Time) (Session, error) {
	if len(items) > maxTasks {
		return s, invalid("tasks", "has %d items, at most %d are kept", len(items), maxTasks)
	}
	list := make([]TaskItem, len(items))
	running := -1
	for i, item := range items {
		field := fmt.Sprintf("tasks[%d]", i)
		item.Content, item.ActiveForm = strings.TrimSpace(clean(item.Content)), strings.TrimSpace(clean(item.ActiveForm))
		item.Status = cmp.Or(TaskStatus(strings.TrimSpace(string(item.Status))), TaskPending)
		item.ActiveForm = cmp.Or(item.ActiveForm, item.Content)
		if item.Content == "" {
			return s, invalid(field+".content", "is blank")
		}
		if err := oneOf(field+".status", item.Status, []TaskStatus{TaskPending, TaskInProgress, TaskCompleted}); err != nil {
			return s, err
		}
		if item.Status == TaskInProgress {
			if running >= 0 {
				return s, invalid(field+".status", "item %d is in progress already", running)
			}
			running = i
		}
		list[i] = item
	}
	raw, err := JSON(list)
	if err != nil {
		return s, err
	}
	return s.record(at, MetadataWritten{Key: reservedKey, Value: raw})
}

// Tasks is the task list.
func (s Session) Tasks() []TaskItem {
	var items []TaskItem
	if raw, ok := s.b.st.Metadata[reservedKey]; ok && json.Unmarshal(raw, &items) != nil {
		return nil
	}
	return items
}

// Fork is a new session, at version 0, with the same history. Any store's
// Create accepts it. The two never affect each other again. There is no
// merge: compare the logs instead. It forks what is saved: a session with
// unsaved changes or an open tail is refused.
func (s Session) Fork(newID, newAgentID string, at time.Time) (Session, error) {
	if s.b.unsaved != nil || s.b.seq != s.b.info.Seq {
		return Session{}, invalid("fork", "session %s has changes that are not part of a version", quoted(s.ID()))
	}
	if newAgentID == s.AgentID() || newID == s.ID() {
		return Session{}, invalid("fork", "a fork needs an id and an agent id of its own")
	}
	point := ForkPoint{Version: s.Version(), Seq: s.b.info.Seq}
	if above := s.b.info.Fork; above != nil {
		point.Depth = above.Depth + 1
	}
	return s.record(at, SessionForked{SessionID: newID, AgentID: newAgentID, ParentID: s.ID(), Fork: point})
}

// Rewound is the session with the state, transcript and window it had when
// target was saved. Nothing is removed: rewinding to a later version undoes it.
func (s Session) Rewound(target Session, at time.Time) (Session, error) {
	if target.ID() != s.ID() || target.AgentID() != s.AgentID() || target.b.unsaved != nil {
		return s, invalid("rewind", "the target is not a saved version of session %s", quoted(s.ID()))
	}
	if target.Version() < 1 || target.Version() > s.Version() {
		return s, invalid("version", "%d is not between 1 and %d", target.Version(), s.Version())
	}
	return s.record(at, SessionRewound{
		Version: target.Version(), Seq: target.b.info.Seq, MessageCount: target.b.info.MessageCount,
		Spans: target.b.spans, State: target.b.st, messages: &target.b.msgs,
	})
}

// ChangedIdentity names the first field that no action or hook may change and
// that differs between the two sessions; "" when there is none.
func ChangedIdentity(before, after Session) string {
	a, b := before.b.info, after.b.info
	switch {
	case a.ID != b.ID:
		return "id"
	case a.Kind != b.Kind:
		return "kind"
	case a.Version != b.Version:
		return "version"
	case before.AgentID() != after.AgentID():
		return "agentId"
	case a.Tenant != b.Tenant:
		return "tenant"
	case a.ParentID != b.ParentID:
		return "parentId"
	case a.Origin != b.Origin:
		return "origin"
	case (a.Fork == nil) != (b.Fork == nil) || a.Fork != nil && *a.Fork != *b.Fork:
		return "fork"
	case !a.CreatedAt.Equal(b.CreatedAt):
		return "createdAt"
	}
	return ""
}
