package session

import (
	"errors"
	"time"
)

// SessionCreated opens a log. Its state has no messages: they follow as
// changes of their own.
type SessionCreated struct {
	Header     Info       `json:"header"`
	Definition Definition `json:"definition"`
	State      State      `json:"state"`
}

// Kind is session_created.
func (SessionCreated) Kind() string { return "session_created" }

func (c SessionCreated) normal() (Change, error) {
	if len(c.State.Messages) > 0 || c.State.Partial || c.Header.Version != 0 || c.Header.Seq != 0 || c.Header.MessageCount != 0 {
		return nil, invalid("session_created", "a new session has no version, no seq and no messages of its own")
	}
	var err error
	if c.Header, err = c.Header.normal(); err != nil {
		return nil, err
	}
	if c.Definition, err = storedDefinition(c.Definition); err != nil {
		return nil, err
	}
	if c.State, err = c.State.normal(); err != nil {
		return nil, err
	}
	c.State.Messages = []Message{}
	return c, nil
}

// storedDefinition is a definition out of a log or a document, where it is
// not the caller's own: what is wrong with it makes the whole invalid.
func storedDefinition(d Definition) (Definition, error) {
	d, err := d.normal()
	var wrong *DefinitionError
	if errors.As(err, &wrong) {
		return d, invalid("definition."+wrong.Problems[0].Field, "%s", wrong.Problems[0].Message)
	}
	return d, err
}

func (c SessionCreated) fold(b *body, _ recordTime) error {
	if b.info.ID != "" {
		return invalid("session_created", "the log is already open")
	}
	b.info, b.def, b.st = c.Header, &c.Definition, c.State
	b.st.Messages = nil
	b.spans = []Span{{From: 1}}
	return nil
}

// SessionForked continues another session's history under a new id. Only the
// log of the parent up to Fork.Seq makes it whole.
type SessionForked struct {
	SessionID string    `json:"sessionId"`
	AgentID   string    `json:"agentId"`
	ParentID  string    `json:"parentId"`
	Fork      ForkPoint `json:"fork"`
}

// Kind is session_forked.
func (SessionForked) Kind() string { return "session_forked" }

func (c SessionForked) normal() (Change, error) {
	if err := checkToken("agentId", c.AgentID); err != nil {
		return nil, err
	}
	if c.Fork.Version < 0 || c.Fork.Seq < 0 || c.Fork.Depth < 0 {
		return nil, invalid("fork", "version, seq and depth are not negative")
	}
	if err := checkID("parentId", c.ParentID); err != nil {
		return nil, err
	}
	return c, CheckID(c.SessionID)
}

func (c SessionForked) fold(b *body, t recordTime) error {
	if b.info.ID != c.ParentID {
		return invalid("session_forked", "its parent is %s, not %s", quoted(c.ParentID), quoted(b.info.ID))
	}
	b.info.ID, b.info.ParentID, b.info.Fork = c.SessionID, c.ParentID, &c.Fork
	b.info.Origin, b.info.Status, b.info.Version, b.info.Seq = OriginFork, Active, 0, 0
	b.info.Name, b.info.ExpiresAt = "", nil
	b.forkTask()
	b.dropPending(func(p PendingCall) bool { return p.Unit == "" })
	if b.st.Permissions != nil { // what was granted for a while was granted to the parent
		p := b.st.Permissions.Clone()
		p.TemporaryGrants = Pairs[Grant]{}
		b.st.Permissions = &p
	}
	if b.st.Workflow == nil { // a fork of a run goes on with it
		b.info.Workflow = nil
	}
	b.info.CreatedAt, b.info.UpdatedAt = t.at, t.at
	b.st.AgentID, b.st.ParentAgentID, b.st.Execution, b.st.Titled = c.AgentID, "", nil, false
	b.st.CreatedAt = t.at
	b.setMetadata(b.st.Metadata.without(restoreKey))
	return nil
}

// SessionImported says where a session came from and what was left out.
type SessionImported struct {
	Format    string    `json:"format"`
	Version   int64     `json:"version"`   // the foreign one
	UpdatedAt time.Time `json:"updatedAt"` // the foreign one
	Dropped   []string  `json:"dropped"`   // paths, never values
}

// Kind is session_imported.
func (SessionImported) Kind() string { return "session_imported" }

func (c SessionImported) normal() (Change, error) {
	c.UpdatedAt, c.Dropped, c.Format = Instant(c.UpdatedAt), cloneList(c.Dropped), clean(c.Format)
	for i := range c.Dropped {
		cleanAll(&c.Dropped[i])
	}
	return c, nil
}

func (c SessionImported) fold(b *body, _ recordTime) error {
	b.info.Origin = OriginImport
	return nil
}

// SessionRewound makes the state what it was at an earlier or later version.
// Status, name, owner, usage and counters are not part of it.
type SessionRewound struct {
	Version      int64  `json:"version"`
	Seq          int64  `json:"seq"`
	MessageCount int    `json:"messageCount"`
	Spans        []Span `json:"spans"`
	State        State  `json:"state"` // without messages

	messages *transcript // the target's, where it is at hand; else Spans pick them
}

// Kind is session_rewound.
func (SessionRewound) Kind() string { return "session_rewound" }

func (c SessionRewound) normal() (Change, error) {
	c.Spans = cloneList(c.Spans)
	if err := checkSpans(c.Spans); err != nil {
		return nil, err
	}
	if c.Version < 1 || c.Seq < 1 || c.MessageCount < 0 {
		return nil, invalid("session_rewound", "version %d, seq %d and %d messages are no place in a log", c.Version, c.Seq, c.MessageCount)
	}
	var err error
	if c.State, err = c.State.normal(); err != nil {
		return nil, err
	}
	c.State.Messages, c.State.Partial = []Message{}, false
	return c, nil
}

func (c SessionRewound) fold(b *body, t recordTime) error {
	if b.st.Workflow != nil {
		return invalid("session_rewound", "a workflow run does not go back; fork it at the version to go on from")
	}
	old := b.st
	b.st = c.State
	b.st.Messages = nil
	b.st.AgentID, b.st.ParentAgentID, b.st.CreatedAt = old.AgentID, old.ParentAgentID, old.CreatedAt
	b.st.ExecutionCount, b.st.InferenceCount = old.ExecutionCount, old.InferenceCount
	b.st.Usage, b.st.Cost, b.st.Titled = old.Usage, old.Cost, old.Titled
	if b.st.Execution.Open() {
		b.st.Execution = nil
	}
	b.st.Permissions = old.Permissions // going back does not bring back a right that was withdrawn
	b.setPending(nil)
	b.setMetadata(b.st.Metadata.without(restoreKey)) // it goes with the status, which stays
	if raw, ok := old.Metadata[restoreKey]; ok {
		b.setMetadata(b.st.Metadata.with(restoreKey, raw))
	}
	b.info.MessageCount, b.windowHeld = c.MessageCount, false
	b.spans = append(clip(c.Spans, c.Seq), Span{From: t.seq + 1})
	if c.messages != nil {
		b.msgs = *c.messages
	} else {
		b.msgs = pick(b.msgs, nil, b.spans)
	}
	return nil
}

// restoreKey remembers, while a session is deleted, the status it had.
const restoreKey = reservedSpace + "statusBeforeDeletion"

// StatusChanged moves the session's status.
type StatusChanged struct {
	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// Kind is status_changed.
func (StatusChanged) Kind() string { return "status_changed" }

func (c StatusChanged) normal() (Change, error) {
	c.Reason = clean(c.Reason)
	if len(c.Reason) > maxReason {
		return nil, invalid("reason", "is longer than %d bytes", maxReason)
	}
	return c, oneOf("status", c.Status, Statuses())
}

func (c StatusChanged) fold(b *body, _ recordTime) error {
	switch {
	case c.Status == Deleted && b.info.Status != Deleted:
		raw, err := encode(b.info.Status)
		if err != nil {
			return err
		}
		b.setMetadata(b.st.Metadata.with(restoreKey, raw))
	case c.Status != Deleted:
		b.setMetadata(b.st.Metadata.without(restoreKey))
	}
	b.info.Status = c.Status
	return nil
}

// NameChanged gives the session a human name; empty takes it away.
type NameChanged struct {
	Name string `json:"name"`
}

// Kind is name_changed.
func (NameChanged) Kind() string { return "name_changed" }

func (c NameChanged) normal() (Change, error) { return c, checkName(c.Name) }

func (c NameChanged) fold(b *body, _ recordTime) error {
	b.info.Name = c.Name
	return nil
}

// SessionTitled is what a model answered when it was asked for a title. The
// first one names a session that has no name; no other changes the name.
type SessionTitled struct {
	Title string `json:"title"` // empty: the answer was of no use
	Model string `json:"model"`
	Usage Usage  `json:"usage"`
	Cost  Cost   `json:"cost"`
}

// Kind is session_titled.
func (SessionTitled) Kind() string { return "session_titled" }

func (c SessionTitled) normal() (Change, error) {
	cleanAll(&c.Model)
	if err := checkName(c.Title); err != nil {
		return nil, err
	}
	return c, checkSpent("title", c.Usage, c.Cost, 0)
}

func (c SessionTitled) fold(b *body, _ recordTime) error {
	if !b.st.Titled && b.info.Name == "" {
		b.info.Name = c.Title
	}
	b.st.Titled = true
	b.st.Usage, b.st.Cost = b.st.Usage.Plus(c.Usage), plus(b.st.Cost, c.Cost)
	return nil
}

// ExpiryChanged sets the moment from which the session may be swept.
type ExpiryChanged struct {
	ExpiresAt *time.Time `json:"expiresAt"` // nil: never
}

// Kind is expiry_changed.
func (ExpiryChanged) Kind() string { return "expiry_changed" }

func (c ExpiryChanged) normal() (Change, error) {
	c.ExpiresAt = instantPtr(c.ExpiresAt)
	return c, nil
}

func (c ExpiryChanged) fold(b *body, _ recordTime) error {
	b.info.ExpiresAt = c.ExpiresAt
	return nil
}

// SystemPromptChanged sets the prompt in force. The definition keeps its own.
type SystemPromptChanged struct {
	Text string `json:"text"`
}

// Kind is system_prompt_changed.
func (SystemPromptChanged) Kind() string { return "system_prompt_changed" }

func (c SystemPromptChanged) normal() (Change, error) {
	c.Text = clean(c.Text)
	return c, nil
}

func (c SystemPromptChanged) fold(b *body, _ recordTime) error {
	b.st.SystemPrompt = c.Text
	return nil
}

// ModelChanged sets the model and parameters in force; empty and nil return
// to the definition's.
type ModelChanged struct {
	Model  string       `json:"model"`
	Params *ModelParams `json:"params"`
}

// Kind is model_changed.
func (ModelChanged) Kind() string { return "model_changed" }

func (c ModelChanged) normal() (Change, error) {
	c.Model = clean(c.Model)
	var err error
	c.Params, err = c.Params.normal()
	return c, err
}

func (c ModelChanged) fold(b *body, _ recordTime) error {
	b.st.Model, b.st.ModelParams = c.Model, c.Params
	return nil
}

// ResponseFormatChanged sets the response format in force.
type ResponseFormatChanged struct {
	ResponseFormat *ResponseFormat `json:"responseFormat"`
}

// Kind is response_format_changed.
func (ResponseFormatChanged) Kind() string { return "response_format_changed" }

func (c ResponseFormatChanged) normal() (Change, error) {
	var err error
	c.ResponseFormat, err = c.ResponseFormat.normal()
	return c, err
}

func (c ResponseFormatChanged) fold(b *body, _ recordTime) error {
	b.st.ResponseFormat = c.ResponseFormat
	return nil
}

// TaskRowChanged replaces the header's task part.
type TaskRowChanged struct {
	Task TaskRow `json:"task"`
}

// Kind is task_row_changed.
func (TaskRowChanged) Kind() string { return "task_row_changed" }

func (c TaskRowChanged) normal() (Change, error) {
	c.Task.clean()
	return c, nil
}

func (c TaskRowChanged) fold(b *body, _ recordTime) error {
	if b.info.Kind != KindTask {
		return invalid("kind", "a session of kind %s has no task", b.info.Kind)
	}
	b.info.Task = &c.Task
	return nil
}

// WorkflowRowChanged replaces the header's workflow part.
type WorkflowRowChanged struct {
	Workflow WorkflowRow `json:"workflow"`
}

// Kind is workflow_row_changed.
func (WorkflowRowChanged) Kind() string { return "workflow_row_changed" }

func (c WorkflowRowChanged) normal() (Change, error) {
	c.Workflow.clean()
	return c, nil
}

func (c WorkflowRowChanged) fold(b *body, _ recordTime) error {
	if b.info.Kind != KindWorkflow {
		return invalid("kind", "a session of kind %s has no workflow", b.info.Kind)
	}
	b.info.Workflow = &c.Workflow
	return nil
}
