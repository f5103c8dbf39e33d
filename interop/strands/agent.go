package strands

import (
	"encoding/json"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// AgentSession is the session.json of one agent's folder.
type AgentSession struct {
	SessionID string // <id>_<agent>
	CreatedAt time.Time
	UpdatedAt time.Time
	Extra     Object
}

// Agent is the agent.json of one agent's folder. State, Manager and Internal
// are the SDK's own; NewAgent has them as it begins.
type Agent struct {
	ID        string // "default", whatever the agent is called in the spec
	State     Object
	Manager   Object // what keeps the conversation within the model's window
	Internal  Object
	CreatedAt time.Time
	UpdatedAt time.Time
	Extra     Object
}

// The SDK's ways to keep a conversation within the model's window.
const (
	slidingManager     = "SlidingWindowConversationManager"
	summarizingManager = "SummarizingConversationManager"
)

// NewAgent is an agent that has said nothing. With summaries its conversation is
// shortened by summarising the oldest part, else by leaving it out.
func NewAgent(summaries bool, now time.Time) Agent {
	a := Agent{ID: "default", CreatedAt: now, UpdatedAt: now}
	set := func(o *Object, key, raw string) { o.Set(key, json.RawMessage(raw)) }
	name := slidingManager
	if summaries {
		name = summarizingManager
		set(&a.Manager, "summary_message", "null")
	}
	set(&a.Manager, "__name__", `"`+name+`"`)
	set(&a.Manager, "removed_message_count", "0")
	set(&a.Internal, "interrupt_state", `{"interrupts":{},"context":{},"activated":false}`)
	return a
}

// Removed is how many of the oldest messages lie outside the window, and the
// message that summarises them, if there is one.
func (a Agent) Removed() (count int, summary *Body, err error) {
	r := reader{left: a.Manager}
	r.maybe("removed_message_count", &count)
	r.maybe("summary_message", &summary)
	r.check("removed_message_count", count >= 0, "is negative")
	if r.err != nil {
		return 0, nil, within("conversation_manager_state", r.err)
	}
	return count, summary, nil
}

// SetRemoved moves the window. A summary is kept only by an agent that was made
// for summaries.
func (a *Agent) SetRemoved(count int, summary *Body) error {
	removed, err := session.JSON(count)
	if err != nil {
		return err
	}
	said, err := session.JSON(summary)
	if err != nil {
		return err
	}
	_, summarizes := a.Manager.Get("summary_message")
	if summary != nil && !summarizes {
		return &session.InvalidError{Field: "summary", Reason: "has no place in the state of this conversation manager"}
	}
	a.Manager.Set("removed_message_count", removed)
	if summarizes {
		a.Manager.Set("summary_message", said)
	}
	return nil
}

// MarshalJSON writes the object of an agent's session.json.
func (s AgentSession) MarshalJSON() ([]byte, error) {
	var w writer
	w.put("session_id", s.SessionID)
	w.put("session_type", "AGENT")
	w.moment("created_at", s.CreatedAt)
	w.moment("updated_at", s.UpdatedAt)
	return w.end(s.Extra)
}

// UnmarshalJSON reads the object of an agent's session.json.
func (s *AgentSession) UnmarshalJSON(data []byte) error {
	*s = AgentSession{}
	r := read(data)
	var kind string
	r.need("session_id", &s.SessionID)
	r.need("session_type", &kind)
	r.check("session_type", kind == "AGENT", "is not AGENT")
	r.moment("created_at", &s.CreatedAt)
	r.moment("updated_at", &s.UpdatedAt)
	var err error
	s.Extra, err = r.rest()
	return err
}

// MarshalJSON writes the object of agent.json.
func (a Agent) MarshalJSON() ([]byte, error) {
	var w writer
	w.put("agent_id", a.ID)
	w.put("state", a.State)
	w.put("conversation_manager_state", a.Manager)
	w.put("_internal_state", a.Internal)
	w.moment("created_at", a.CreatedAt)
	w.moment("updated_at", a.UpdatedAt)
	return w.end(a.Extra)
}

// UnmarshalJSON reads the object of agent.json.
func (a *Agent) UnmarshalJSON(data []byte) error {
	*a = Agent{}
	r := read(data)
	r.maybe("agent_id", &a.ID)
	r.maybe("state", &a.State)
	r.maybe("conversation_manager_state", &a.Manager)
	r.maybe("_internal_state", &a.Internal)
	r.moment("created_at", &a.CreatedAt)
	r.moment("updated_at", &a.UpdatedAt)
	var err error
	if a.Extra, err = r.rest(); err != nil {
		return err
	}
	_, _, err = a.Removed()
	return err
}
