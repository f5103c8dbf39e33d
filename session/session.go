// Package session is the domain: what a session is and what may happen to it.
// It does no I/O and reads neither clock nor randomness; times and ids arrive
// as arguments.
//
// A Session is an immutable value of three parts: Info, the header that
// listings show; Definition, what the agent is; State, what it has done. New
// makes one, every With… returns another, and the old one stays as it was:
//
//	s, err := session.New(session.Identity{ID: id, AgentID: agentID}, def, session.Seed{}, now)
//	s, err = s.WithMessage(session.Message{ID: "m-1", Role: session.RoleUser, Content: session.Text("hello")}, now)
//
// Behind each With… stands a Change, one typed fact with a JSON form that is
// for ever. Numbered by Seq, the changes are the session's log, and the log is
// the truth: Fold makes the same value of it again. Changes not yet written
// are unsaved.
//
// A store writes them in one of two ways. Saving seals them into a version
// (Seal). While an execution runs they go to the open tail (Flush): durable, in
// force, and part of no version yet. After a crash ApplyTail applies the tail to
// the last version; DiscardTail takes back the changes of a refused action,
// which the log shows and no fold applies. So
//
//	Version  counts saves, and writers race by it
//	Info.Seq is the last change in the version
//	Base     is the last durable change (a function for stores)
//	Seq      is the last change of all
//
// Nothing is ever removed from a log. Clearing, rewinding and discarding only
// alter which stretches of it (Spans) make the transcript, and the Window says
// which part of the transcript the model is shown. Sendable repairs that part
// where a call or a result was left behind, so that a provider accepts it.
//
// What is taken in is copied, cleaned (UTF-8, microseconds, compact JSON) and
// checked; what cannot be kept is refused with an InvalidError that names the
// field. All errors a caller may match are in errors.go.
package session

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// Session is one conversation, task or workflow run of an agent: a header
// (Info), what the agent is (Definition) and what it has done (State).
//
// It is an immutable value. Every With… returns a new one, records what
// changed as an unsaved change, and leaves the old one as it was; the two share
// memory but never see each other's changes. What goes in and comes out is
// copied. Unsaved changes do not alter Version: only a store's Save does.
type Session struct{ b *body }

// body is never changed once a Session points to it.
type body struct {
	info Info
	def  *Definition
	st   State      // without messages
	msgs transcript // the transcript, or the part of it that was loaded

	windowHeld bool // a part was loaded, and all that the window shows is in it

	ledger vector[*Record] // of a workflow run, or the part of it that was loaded

	spans []Span // the stretches of the log that make the transcript

	base    int64 // last change known to be durable, sealed or in the open tail
	sum     baseSum
	live    int   // durable changes since the last version that are in force
	seq     int64 // last change, unsaved ones included
	unsaved *link

	retag bool // the metadata may differ from that of the last version
}

// link is one unsaved change and the body before it. A refused one is
// discarded by a later change and not in force.
type link struct {
	before  *body
	record  Record
	refused bool
}

// Seed is the state a new session begins with; all of it is optional.
type Seed struct {
	SystemPrompt   string
	Model          string
	ModelParams    *ModelParams
	ResponseFormat *ResponseFormat
	Metadata       Values
	Variables      map[string]json.RawMessage
	Messages       []Message
}

// Identity is what a new session needs besides its definition. ID and AgentID
// are required; an empty Tenant, Kind or Origin takes its default.
type Identity struct {
	ID            string
	AgentID       string
	Name          string
	Tenant        string
	UserID        string
	ParentID      string
	ParentAgentID string
	Origin        Origin
	Kind          Kind
	Depth         int
	ExpiresAt     *time.Time
	Status        Status
	CreatedAt     time.Time // zero: the time of creation
}

// New is a session at version 0 with all its changes unsaved. A
// definition's prompt and metadata win over the seed's. The seed's messages
// must be a valid transcript.
func New(identity Identity, def Definition, seed Seed, at time.Time) (Session, error) {
	def, err := def.normal()
	if err != nil {
		return Session{}, err
	}
	for key := range seed.Metadata {
		if err := checkMetadataKey(key); err != nil {
			return Session{}, err
		}
	}
	at = Instant(at)
	created := at
	if !identity.CreatedAt.IsZero() {
		created = Instant(identity.CreatedAt)
	}
	info := Info{
		ID: identity.ID, Name: identity.Name, Tenant: cmp.Or(identity.Tenant, DefaultTenant), UserID: identity.UserID,
		ParentID: identity.ParentID, Origin: cmp.Or(identity.Origin, OriginRoot), Kind: cmp.Or(identity.Kind, KindChat),
		Depth: identity.Depth, Status: cmp.Or(identity.Status, Active), AgentName: def.Name, AgentLabel: def.Title(),
		CreatedAt: created, UpdatedAt: at, ExpiresAt: instantPtr(identity.ExpiresAt),
	}
	state := State{
		AgentID: identity.AgentID, ParentAgentID: identity.ParentAgentID, CreatedAt: created, UpdatedAt: at,
		SystemPrompt: seed.SystemPrompt, Model: seed.Model, ModelParams: seed.ModelParams, ResponseFormat: seed.ResponseFormat,
		Metadata: seed.Metadata.Clone(), Window: Window{Keep: []int64{}}, TraceCount: new(0),
	}
	if state.ResponseFormat == nil {
		state.ResponseFormat = def.ResponseFormat.clone()
	}
	if strings.TrimSpace(def.SystemPrompt) != "" {
		state.SystemPrompt = def.SystemPrompt
	}
	for key, raw := range def.Metadata {
		state.Metadata[key] = raw
	}
	s, err := Session{}.record(at, SessionCreated{Header: info, Definition: def, State: state})
	if err != nil {
		return Session{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(seed.Variables)) {
		if s, err = s.WithVariable(key, seed.Variables[key], at); err != nil {
			return Session{}, err
		}
	}
	if err := ValidTranscript(seed.Messages); err != nil {
		return Session{}, err
	}
	for _, m := range seed.Messages {
		if s, err = s.WithMessage(m, at); err != nil {
			return Session{}, err
		}
	}
	return s, nil
}

// IsZero reports the zero Session, which no method but this one may be called on.
func (s Session) IsZero() bool { return s.b == nil }

// With applies changes at a moment, all of them or none. Creation, forks,
// rewinds, discarded tails and the list of tasks have methods of their own and
// are refused here.
func (s Session) With(at time.Time, changes ...Change) (Session, error) {
	next := s
	for _, c := range changes {
		switch c.(type) {
		case SessionCreated, SessionForked, SessionRewound, TailDiscarded:
			return s, invalid("change", "%s cannot be applied to an existing session", c.Kind())
		}
		if key, reserved := reservedMetadata(c); reserved {
			return s, invalid("key", "%s is reserved", quoted(key))
		}
		var err error
		if next, err = next.record(at, c); err != nil {
			return s, err
		}
	}
	return next, nil
}

// record applies one change and adds it to the unsaved ones. Its time is
// later than that of the change before it, whatever the clock says.
func (s Session) record(at time.Time, c Change) (Session, error) {
	c, err := c.normal()
	if err != nil {
		return s, err
	}
	r := Record{Seq: 1, At: Instant(at)}
	if s.b != nil {
		r = Record{Seq: s.b.seq + 1, At: after(s.b.st.UpdatedAt, at)}
	}
	if added, ok := c.(MessageAdded); ok {
		added.Message.Seq = r.Seq
		if added.Message.CreatedAt.IsZero() {
			added.Message.CreatedAt = r.At
		}
		c = added
	}
	r.Change = c
	next, err := s.b.folded(r)
	if err != nil {
		return s, err
	}
	next.unsaved = &link{before: s.b, record: r}
	return Session{next}, nil
}

// folded is a copy of the body with one record applied.
func (b *body) folded(r Record) (*body, error) {
	next := &body{}
	if b != nil {
		*next = *b
	}
	if err := r.Change.fold(next, recordTime{seq: r.Seq, at: r.At}); err != nil {
		return nil, err
	}
	if next.info.ID == "" {
		return nil, invalid("log", "does not begin with a created session but with %s", r.Change.Kind())
	}
	next.seq = r.Seq
	if _, ok := r.Change.(TailDiscarded); !ok { // a refusal leaves the state as it was
		next.st.UpdatedAt = r.At
	}
	return next, nil
}

func (l *link) earlier() *link {
	if l.before == nil {
		return nil
	}
	return l.before.unsaved
}

// ID is the session's id.
func (s Session) ID() string { return s.b.info.ID }

// Version is the version the session was loaded at or saved as; 0 before Create.
func (s Session) Version() int64 { return s.b.info.Version }

// Seq is the number of the last change, unsaved ones included.
func (s Session) Seq() int64 { return s.b.seq }

// HasTail reports durable changes in force that no version holds yet: an
// execution was interrupted after them.
func (s Session) HasTail() bool { return s.b.live > 0 }

// Status is the session's status.
func (s Session) Status() Status { return s.b.info.Status }

// Tenant is the owner.
func (s Session) Tenant() string { return s.b.info.Tenant }

// Info is the header.
func (s Session) Info() Info { return s.b.info.clone() }

// Definition is what the agent is.
func (s Session) Definition() Definition { return s.b.def.Clone() }

// ChangedAt is the time of the last change, unsaved ones included.
func (s Session) ChangedAt() time.Time { return s.b.st.UpdatedAt }

// AgentID is fixed for the life of the session.
func (s Session) AgentID() string { return s.b.st.AgentID }

// SystemPrompt is the prompt in force.
func (s Session) SystemPrompt() string { return s.b.st.SystemPrompt }

// Model is the model in force: the override, else the definition's, else "".
func (s Session) Model() string { return cmp.Or(s.b.st.Model, s.b.def.Model) }

// ModelParams are the parameters in force.
func (s Session) ModelParams() ModelParams {
	for _, p := range []*ModelParams{s.b.st.ModelParams, s.b.def.ModelParams} {
		if p != nil {
			return *p.clone()
		}
	}
	return ModelParams{}
}

// ResponseFormat is the form that answers must have, nil for any.
func (s Session) ResponseFormat() *ResponseFormat { return s.b.st.ResponseFormat.clone() }

// Metadata is a copy of all metadata.
func (s Session) Metadata() Values { return s.b.st.Metadata.Clone() }

// Variables is a copy of the session's own memory, deleted keys left out.
func (s Session) Variables() map[string]Variable {
	vars := cloneVariables(s.b.st.Variables)
	for key, v := range vars {
		if v.Deleted {
			delete(vars, key)
		}
	}
	return vars
}

// Window is what the model is shown.
func (s Session) Window() Window { return s.b.st.Window.clone() }

// Task is a copy of a task's state, nil for other sessions and for a task that
// has not begun. Its queues are empty: they are the session's inbox.
func (s Session) Task() *TaskState { return s.b.st.Task.Clone() }

// HasToolCall reports a tool call of that id among the messages this value
// holds.
func (s Session) HasToolCall(id string) bool {
	for _, m := range s.b.msgs.all() {
		if slices.ContainsFunc(m.ToolCalls, func(c ToolCall) bool { return c.ID == id }) {
			return true
		}
	}
	return false
}

// Execution is the running or last execution, nil where there is none.
func (s Session) Execution() *Execution { return s.b.st.Execution.clone() }

// Running reports an execution that has not ended.
func (s Session) Running() bool { return s.b.st.Execution.Open() }

// SetAside reports a session that was suspended because its execution was
// recovered again and again without coming to an end.
func (s Session) SetAside() bool {
	return s.Status() == Suspended && s.Running() && s.b.st.Execution.Recoveries > 0
}

// InferenceCount is the number of inferences answered or given up, for ever.
func (s Session) InferenceCount() int { return s.b.st.InferenceCount }

// Titled reports that a model was asked for a title of this session and has
// answered. Nobody asks again, also where the name is taken away.
func (s Session) Titled() bool { return s.b.st.Titled }

// Usage and cost are totals for ever.
func (s Session) Usage() (Usage, Cost) { return s.b.st.Usage, s.b.st.Cost }

// State is a deep copy of everything the session has done.
func (s Session) State() State {
	st := s.b.st
	st.Messages = s.Messages()
	st.Partial = s.Partial()
	return st.clone()
}

// Partial reports that only a part of the transcript, or of a run's ledger,
// was loaded.
func (s Session) Partial() bool {
	w := s.b.st.Workflow
	return s.b.msgs.len() < s.b.info.MessageCount || w != nil && s.b.ledger.len() < w.Entries
}

// TraceCount is how many messages of the whole transcript are traces. Sessions
// that were created before they were counted do not know.
func (s Session) TraceCount() (n int, known bool) {
	if s.b.st.TraceCount == nil {
		return 0, false
	}
	return *s.b.st.TraceCount, true
}

// Len is the number of messages this value holds.
func (s Session) Len() int { return s.b.msgs.len() }

// Message is a copy of the i-th message this value holds.
func (s Session) Message(i int) Message { return s.b.msgs.at(i).Clone() }

// All iterates over copies of the messages this value holds.
func (s Session) All() iter.Seq2[int, Message] {
	return func(yield func(int, Message) bool) {
		for i, m := range s.b.msgs.all() {
			if !yield(i, m.Clone()) {
				return
			}
		}
	}
}

// Messages is a copy of the messages this value holds.
func (s Session) Messages() []Message {
	messages := make([]Message, 0, s.Len())
	for _, m := range s.All() {
		messages = append(messages, m)
	}
	return messages
}

// MessagesFrom is a copy of those messages this value holds that have this
// number or a later one.
func (s Session) MessagesFrom(seq int64) []Message {
	return s.b.msgs.copies(s.b.msgs.from(seq), nil)
}

// Reply is the text of the last step's answer when that step was a final
// response and has text, else "".
func (s Session) Reply() string {
	e := s.b.st.Execution
	if e == nil || len(e.Steps) == 0 {
		return ""
	}
	last := e.Steps[len(e.Steps)-1]
	if last.Type != StepFinal || last.CompletedAt == nil {
		return ""
	}
	for i := s.Len() - 1; i >= 0; i-- {
		m := s.b.msgs.at(i)
		if m.StepID == last.ID && m.Role == RoleAssistant {
			if text := m.Content.Text(); strings.TrimSpace(text) != "" {
				return text
			}
			return ""
		}
	}
	return ""
}
