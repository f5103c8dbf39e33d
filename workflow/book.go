package workflow

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-dev/holdfast/session"
)

// book is what the log of a run says: the units that were begun and finished,
// the questions and their answers. It is a fold: the same records make the
// same book.
type book struct {
	begun     session.WorkflowBegun
	spec      json.RawMessage // in force
	runtime   json.RawMessage // in force
	units     map[string]*entry
	finished  []*entry // in the order in which they finished
	questions map[string]*asked
	answered  []*asked          // in the order of the answers
	systems   map[string]string // the prompt of an agent in a lane
	timedOut  *asked            // the last question that nobody answered in time
}

// entry is one unit of work.
type entry struct {
	key, lane, agent string
	course           []session.Record  // what was said and done, to go on from
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

// asked is a question that was put.
type asked struct {
	session.Question
	at       time.Time
	answer   *string
	timedOut bool
	late     time.Time // when it was answered
}

func newBook() *book {
	return &book{units: map[string]*entry{}, questions: map[string]*asked{}, systems: map[string]string{}}
}

// bookOf folds the ledger and transcript of a run.
func bookOf(s session.Session) (*book, error) {
	b := newBook()
	messages, ledger := s.Messages(), s.Ledger()
	for len(messages) > 0 || len(ledger) > 0 {
		if len(ledger) == 0 || len(messages) > 0 && messages[0].Seq < ledger[0].Seq {
			b.apply(session.MessageAdded{Message: messages[0]}, messages[0].CreatedAt)
			messages = messages[1:]
			continue
		}
		b.apply(ledger[0].Change, ledger[0].At)
		ledger = ledger[1:]
	}
	if b.spec == nil {
		return nil, &session.CorruptError{ID: s.ID(), Path: "log", Reason: "the run has no beginning"}
	}
	return b, nil
}

// apply takes one change in.
func (b *book) apply(c session.Change, at time.Time) {
	switch c := c.(type) {
	case session.WorkflowBegun:
		b.begun, b.spec, b.runtime = c, c.Spec, c.Runtime
	case session.WorkflowSpecChanged:
		b.spec, b.runtime = c.Spec, c.Runtime
	case session.UnitStarted:
		e := b.unit(c.Unit) // one that was begun before begins anew
		e.lane, e.agent, e.failure, e.messages, e.course = c.Lane, c.Agent, nil, nil, nil
		if c.System != nil {
			b.systems[conversation(c.Agent, c.Lane)] = *c.System
		}
	case session.MessageAdded:
		if c.Message.Unit == "" {
			return
		}
		e := b.unit(c.Message.Unit)
		e.messages = append(e.messages, c.Message)
		e.course = append(e.course, session.Record{At: at, Change: c})
	case session.UnitAdvanced:
		e := b.unit(c.Unit)
		e.course = append(e.course, session.Record{At: at, Change: c.Change})
	case session.UnitFinished:
		b.finish(c, at)
	case session.UnitFailed:
		b.unit(c.Unit).failure = &c.Error
	case session.QuestionPut:
		b.questions[c.Question.Unit] = &asked{Question: c.Question, at: at}
	case session.QuestionAnswered:
		b.answer(c, at)
	}
}

func (b *book) unit(key string) *entry {
	e := b.units[key]
	if e == nil {
		e = &entry{key: key}
		b.units[key] = e
	}
	return e
}

func (b *book) finish(c session.UnitFinished, at time.Time) {
	e := b.unit(c.Unit)
	e.done, e.note, e.at, e.failure, e.course = true, c.Note, at, nil, nil
	if c.Agent != "" {
		e.agent = c.Agent
	}
	if json.Unmarshal(c.Result, &e.result) != nil { // it was written by this package
		e.result = result{}
	}
	b.finished = append(b.finished, e)
}

func (b *book) answer(c session.QuestionAnswered, at time.Time) {
	q := b.questions[c.Unit]
	if q == nil {
		return
	}
	q.answer, q.timedOut, q.late = &c.Response, c.TimedOut, at
	b.answered = append(b.answered, q)
	if q.timedOut && q.TimeoutAt != nil {
		b.timedOut = q
	}
}

// words sums the estimates of all calls.
func (b *book) words() int {
	n := 0
	for _, e := range b.finished {
		n += e.result.Tokens
	}
	return n
}

// response is what a finished unit answered.
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

// input is what the unit was asked.
func (e *entry) input() (string, bool) {
	for _, m := range e.messages {
		if m.Role == session.RoleUser {
			return m.Content.Text(), true
		}
	}
	return "", false
}

// conversation names what an agent says in a lane.
func conversation(agent, lane string) string { return lane + "\x00" + agent }

// words is how many words a text has.
func words(texts ...string) int {
	n := 0
	for _, t := range texts {
		n += len(strings.FieldsFunc(t, func(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }))
	}
	return n
}
