package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast/session"
)

// index is the ledger and the transcript of a run by unit: the units that were
// started and finished, the questions and their answers. It is a fold: the same
// records make the same index.
type index struct {
	begun     session.WorkflowBegun
	spec      json.RawMessage // in force
	runtime   json.RawMessage // in force
	units     map[string]*entry
	finished  []*entry             // in the order in which they finished
	done      int                  // how many of them agents worked on, without summaries
	questions map[string]*question // of the spec, by unit
	answered  []*question          // in the order of the answers
	systems   map[string]string    // the prompt of an agent in a lane
	timedOut  *question            // the last one that nobody answered in time
	withdrawn map[string]string    // the last id of questions that were reset, by unit
}

// entry is one unit of work.
type entry struct {
	key, lane, agent string
	changes          []session.Record  // of the unit's execution, to continue from
	messages         []session.Message // what was said
	done             bool
	result           result
	note             string
	at               time.Time // when it finished
	failure          *session.Failure
}

// result is what a finished unit leaves behind, beside its messages.
type result struct {
	Response *string         `json:"response,omitempty"` // where no message says it
	Tokens   int             `json:"tokens"`             // the words of input and answer
	Value    json.RawMessage `json:"value,omitempty"`    // what was read out of the answer
	From     string          `json:"from,omitempty"`     // of a summary: the first unit it covers
	UpTo     string          `json:"upTo,omitempty"`     // and the last
	For      string          `json:"for,omitempty"`      // and the unit before which it was made
}

// question is one that the spec has asked.
type question struct {
	session.PendingCall
	answer     *string
	timedOut   bool
	answeredAt time.Time
}

// readIndex indexes a run that was read whole.
func readIndex(s session.Session) (*index, error) {
	x := newIndex()
	messages, ledger := s.Messages(), s.Ledger()
	for len(messages) > 0 || len(ledger) > 0 {
		if len(ledger) == 0 || len(messages) > 0 && messages[0].Seq < ledger[0].Seq {
			x.apply(session.MessageAdded{Message: messages[0]}, messages[0].CreatedAt)
			messages = messages[1:]
			continue
		}
		x.apply(ledger[0].Change, ledger[0].At)
		ledger = ledger[1:]
	}
	if x.spec == nil {
		return nil, &session.CorruptError{ID: s.ID(), Path: "log", Reason: "the run has no beginning"}
	}
	return x, nil
}

func newIndex() *index {
	return &index{units: map[string]*entry{}, questions: map[string]*question{}, systems: map[string]string{}, withdrawn: map[string]string{}}
}

// apply adds one change.
func (x *index) apply(c session.Change, at time.Time) {
	switch c := c.(type) {
	case session.WorkflowBegun:
		x.begun, x.spec, x.runtime = c, c.Spec, c.Runtime
	case session.WorkflowSpecChanged:
		x.spec, x.runtime = c.Spec, c.Runtime
		if len(c.Variables) > 0 {
			x.begun.Variables = c.Variables
		}
	case session.UnitStarted:
		e := x.unit(c.Unit) // one that was started before starts again
		e.lane, e.agent, e.failure, e.messages, e.changes = c.Lane, c.Agent, nil, nil, nil
		if c.System != nil {
			x.systems[conversation(c.Agent, c.Lane)] = *c.System
		}
	case session.MessageAdded:
		if c.Message.Unit != "" {
			e := x.unit(c.Message.Unit)
			e.messages = append(e.messages, c.Message)
			e.add(c, at)
		}
	case session.UnitAdvanced:
		x.unit(c.Unit).add(c.Change, at)
	case session.UnitFinished:
		x.finish(c, at)
	case session.UnitFailed:
		x.unit(c.Unit).failure = &c.Error
	case session.UnitsReset:
		x.reset(c.Units)
	case session.CallPending, session.CallResponded, session.QuestionPut, session.QuestionAnswered:
		x.applyPending(c, at)
	}
}

func (x *index) unit(key string) *entry {
	e := x.units[key]
	if e == nil {
		e = &entry{key: key}
		x.units[key] = e
	}
	return e
}

func (e *entry) add(c session.Change, at time.Time) {
	e.changes = append(e.changes, session.Record{At: at, Change: c})
}

func (x *index) finish(c session.UnitFinished, at time.Time) {
	e := x.unit(c.Unit)
	e.done, e.note, e.at, e.failure, e.changes = true, c.Note, at, nil, nil
	if c.Agent != "" {
		e.agent = c.Agent
	}
	if json.Unmarshal(c.Result, &e.result) != nil { // it was written by this package
		e.result = result{}
	}
	x.finished = append(x.finished, e)
	if e.counts() {
		x.done++
	}
}

// counts reports whether a unit is one that the spec asks an agent for.
func (e *entry) counts() bool { return Counts(e.key, e.agent) }

// Counts reports whether a unit is one that the spec asks an agent for: neither a
// question to a person nor a summary of what came before. Those are the units of
// session.WorkflowRow.
func Counts(unit, agent string) bool { return agent != "" && !isSummary(unit) }

// reset forgets units and the questions in the place of some.
func (x *index) reset(units []string) {
	for _, unit := range units {
		delete(x.units, unit)
		if q := x.questions[unit]; q != nil {
			x.withdrawn[unit] = q.ID
			delete(x.questions, unit)
		}
	}
	gone := make(map[string]bool, len(units))
	for _, unit := range units {
		gone[unit] = true
	}
	x.finished = slices.DeleteFunc(x.finished, func(e *entry) bool {
		if gone[e.key] && e.counts() {
			x.done--
		}
		return gone[e.key]
	})
	x.answered = slices.DeleteFunc(x.answered, func(q *question) bool { return gone[q.Unit] })
	if q := x.timedOut; q != nil && gone[q.Unit] {
		x.timedOut = nil
	}
}

// applyPending adds a question of the spec or its answer. A call that waits
// within a unit belongs to the unit's execution, which knows no units.
func (x *index) applyPending(c session.Change, at time.Time) {
	switch c := c.(type) {
	case session.CallPending:
		if c.Call.BySpec() {
			x.questions[c.Call.Unit] = &question{PendingCall: c.Call}
		} else if e := x.unit(c.Call.Unit); c.Call.Unit != "" {
			c.Call.Unit, c.Seconds = "", 0
			e.add(c, at)
		}
	case session.CallResponded:
		if q := x.questions[c.Unit]; q != nil && q.ID == c.Response.PendingID {
			x.answer(q, c.Response.Text, c.Response.Action == session.RespondExpire, at)
		} else if e := x.unit(c.Unit); c.Unit != "" {
			c.Unit = ""
			e.add(c, at)
		}
	case session.QuestionPut:
		x.questions[c.Question.Unit] = &question{PendingCall: c.Question.Call()}
	case session.QuestionAnswered:
		if q := x.questions[c.Unit]; q != nil {
			x.answer(q, c.Response, c.TimedOut, at)
		}
	}
}

func (x *index) answer(q *question, text string, timedOut bool, at time.Time) {
	q.answer, q.timedOut, q.answeredAt = &text, timedOut, at
	x.answered = append(x.answered, q)
	if timedOut && q.ExpiresAt != nil {
		x.timedOut = q
	}
}

// words sums the estimates of all units.
func (x *index) words() int {
	n := 0
	for _, e := range x.finished {
		n += e.result.Tokens
	}
	return n
}

// response returns what a finished unit answered.
func (e *entry) response() string {
	if e.result.Response != nil {
		return *e.result.Response
	}
	for i := len(e.messages) - 1; i >= 0; i-- {
		if m := e.messages[i]; m.Role == session.RoleAssistant {
			return m.Content.Text()
		}
	}
	return ""
}

// input returns what the unit was asked.
func (e *entry) input() (string, bool) {
	for _, m := range e.messages {
		if m.Role == session.RoleUser {
			return m.Content.Text(), true
		}
	}
	return "", false
}

// toolNames lists the tools that the unit has called, in order.
func (e *entry) toolNames() []string {
	names := []string{}
	for _, m := range e.messages {
		for _, call := range m.ToolCalls {
			names = append(names, call.Name)
		}
	}
	return names
}

// conversation names what an agent says in a lane.
func conversation(agent, lane string) string { return lane + "\x00" + agent }

func (r result) json() json.RawMessage {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("workflow: a result is no JSON: %v", err)) // texts, numbers and JSON always are
	}
	return raw
}

// countWords estimates tokens where nobody counts them.
func countWords(texts ...string) int {
	n := 0
	for _, t := range texts {
		n += len(strings.FieldsFunc(t, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }))
	}
	return n
}
