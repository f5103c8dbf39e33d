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

// NewAgent returns an agent that has said nothing. With summaries its conversation is
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

// Removed returns how many of the oldest messages lie outside the window, and the
// message that summarises them, if there is one.
func (a Agent) Removed() (count int, summary *Body, err error) {
	raw, err := a.Manager.MarshalJSON()
	if err == nil {
		err = fields{{"removed_message_count", &count, optional}, {"summary_message", &summary, optional}}.decode(raw, new(Object))
	}
	if err == nil && count < 0 {
		err = &session.InvalidError{Field: "removed_message_count", Reason: "is negative"}
	}
	if err != nil {
		return 0, nil, inField("conversation_manager_state", err)
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

// agentType is the key session_type, by which an agent's session is known.
type agentType struct{}

// MarshalJSON writes the only type there is.
func (agentType) MarshalJSON() ([]byte, error) { return []byte(`"AGENT"`), nil }

// UnmarshalJSON refuses another type.
func (agentType) UnmarshalJSON(data []byte) error {
	if string(data) != `"AGENT"` {
		return &session.InvalidError{Field: "value", Reason: "is not AGENT"}
	}
	return nil
}

func (s *AgentSession) fields() fields {
	return append(fields{
		{"session_id", &s.SessionID, required},
		{"session_type", &agentType{}, required},
	}, times(&s.CreatedAt, &s.UpdatedAt)...)
}

// MarshalJSON writes the object of an agent's session.json.
func (s AgentSession) MarshalJSON() ([]byte, error) { return s.fields().encode(s.Extra) }

// UnmarshalJSON reads the object of an agent's session.json.
func (s *AgentSession) UnmarshalJSON(data []byte) error {
	*s = AgentSession{}
	return s.fields().decode(data, &s.Extra)
}

func (a *Agent) fields() fields {
	return append(fields{
		{"agent_id", &a.ID, optional},
		{"state", &a.State, optional},
		{"conversation_manager_state", &a.Manager, optional},
		{"_internal_state", &a.Internal, optional},
	}, times(&a.CreatedAt, &a.UpdatedAt)...)
}

// MarshalJSON writes the object of agent.json.
func (a Agent) MarshalJSON() ([]byte, error) { return a.fields().encode(a.Extra) }

// UnmarshalJSON reads the object of agent.json.
func (a *Agent) UnmarshalJSON(data []byte) error {
	*a = Agent{}
	if err := a.fields().decode(data, &a.Extra); err != nil {
		return err
	}
	_, _, err := a.Removed()
	return err
}
