package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// mark is how far a piece of a run has come.
type mark int

const (
	markAhead  mark = iota // not begun
	markGoing              // somebody works on it
	markHalted             // begun, and nobody works on it
	markAsking             // a person is asked
	markDone               // it has its result
	markFailed             // it came to nothing, and may be taken up again
)

// piece is a unit of a run, or a question, as a person sees it.
type piece struct {
	unit, agent string
	mark        mark
	began       time.Time
	took        time.Duration
	used        session.Usage
	cost        session.Cost
	estimated   bool   // words were counted in place of tokens
	task        string // what it was asked, of a worker
	note        string // what came of it, in a word: a score, a person's answer
	writing     string // the end of an answer that is coming
}

// course is what has happened in a run: told by its log, then by its events.
// It is not safe for concurrent use.
type course struct {
	pieces map[string]*piece
	order  []*piece
	route  string // that was chosen
	used   session.Usage
	cost   session.Cost
}

func newCourse() *course { return &course{pieces: map[string]*piece{}} }

// courseOf reads the log of a run, which was loaded whole. Live says that
// somebody works on it.
func courseOf(s session.Session, live bool) *course {
	c := newCourse()
	for _, r := range s.Ledger() {
		c.apply(r)
	}
	c.used, c.cost = s.Usage()
	for _, m := range s.All() {
		if p := c.pieces[m.Unit]; p != nil && p.task == "" && m.Role == session.RoleUser {
			p.task = m.Content.Text()
		}
	}
	for _, p := range c.order {
		if p.mark == markGoing && !live {
			p.mark = markHalted
		}
	}
	return c
}

// at is the piece of a unit.
func (c *course) at(unit string) *piece {
	p := c.pieces[unit]
	if p == nil {
		p = &piece{unit: unit}
		c.pieces[unit] = p
		c.order = append(c.order, p)
		if name, ok := routeOf(unit); ok {
			c.route = name
		}
	}
	return p
}

// routeOf is the route that a unit is a step of.
func routeOf(unit string) (string, bool) {
	rest, ok := strings.CutPrefix(unit, "route/")
	end := strings.LastIndex(rest, "/step/")
	if !ok || end < 0 {
		return "", false
	}
	return rest[:end], true
}

// apply takes a change of the log in.
func (c *course) apply(r session.Record) {
	switch change := r.Change.(type) {
	case session.UnitStarted:
		p := c.at(change.Unit)
		p.agent, p.mark, p.began = change.Agent, markGoing, r.At
	case session.UnitAdvanced:
		p := c.at(change.Unit)
		p.mark = markGoing
		if answered, ok := change.Change.(session.InferenceAnswered); ok {
			p.used, p.cost = p.used.Plus(answered.Usage), p.cost+answered.Cost
			p.took += time.Duration(answered.ActiveSeconds * float64(time.Second))
			p.estimated = p.estimated || change.Estimated
		}
	case session.UnitFinished:
		p := c.at(change.Unit)
		p.mark, p.note = markDone, resultNote(change.Result)
	case session.UnitFailed:
		p := c.at(change.Unit)
		p.mark, p.note = markFailed, change.Error.Message
	case session.QuestionPut:
		p := c.at(change.Question.Unit)
		p.mark, p.note = markAsking, change.Question.Prompt
	case session.QuestionAnswered:
		p := c.at(change.Unit)
		p.mark, p.note = markDone, answerNote(change.Response, change.TimedOut)
	}
}

func answerNote(text string, timedOut bool) string {
	if timedOut {
		return fmt.Sprintf("%q, as nobody answered in time", text)
	}
	return fmt.Sprintf("%q", text)
}

// resultNote is what was read out of an answer, in a word: a score, a route.
func resultNote(raw json.RawMessage) string {
	var result struct {
		Value json.RawMessage `json:"value"`
	}
	if json.Unmarshal(raw, &result) != nil {
		return ""
	}
	var judged struct {
		Score *int `json:"score"`
	}
	if json.Unmarshal(result.Value, &judged) == nil && judged.Score != nil {
		return fmt.Sprintf("score %d", *judged.Score)
	}
	var route string
	if json.Unmarshal(result.Value, &route) == nil && route != "" {
		return "→ " + route
	}
	return ""
}

// hear takes news of a run in.
func (c *course) hear(e workflow.Event, now time.Time) {
	text := func(name string) string {
		s, _ := e.Data[name].(string)
		return s
	}
	switch e.Type {
	case workflow.StepStart, workflow.TaskStart, workflow.WorkerStart, workflow.NodeStart:
		p := c.at(text("unit"))
		p.agent, p.mark, p.began, p.note, p.writing = text("agent"), markGoing, now, "", ""
		p.task = text("task")
	case workflow.StepComplete, workflow.TaskComplete, workflow.WorkerComplete, workflow.NodeComplete:
		p := c.at(text("unit"))
		p.agent, p.mark, p.note, p.writing = text("agent"), markDone, "", ""
		if !p.began.IsZero() {
			p.took = now.Sub(p.began)
		}
		c.spend(e.Data)
	case workflow.RoutingDecision:
		c.route = text("chosen_route")
	case workflow.HITLPause:
		p := c.at(text("unit"))
		p.mark, p.note = markAsking, text("prompt")
	case workflow.HITLAnswer:
		late, _ := e.Data["timed_out"].(bool)
		p := c.at(text("unit"))
		p.mark, p.note = markDone, answerNote(text("response"), late)
	case workflow.ErrorEvent:
		c.fail(text("unit"), text("error"))
	}
}

// fail marks the unit that failed; others that were begun are left as they are.
func (c *course) fail(unit, why string) {
	if p := c.pieces[unit]; p != nil {
		p.mark, p.note, p.writing = markFailed, why, ""
	}
}

// spend takes what the run has used so far from an event.
func (c *course) spend(data map[string]any) {
	usage, ok := data["usage"].(map[string]any)
	if !ok {
		return
	}
	if n, ok := usage["input_tokens"].(int64); ok {
		c.used.Input = n
	}
	if n, ok := usage["output_tokens"].(int64); ok {
		c.used.Output = n
	}
	if cost, ok := usage["cost"].(session.Cost); ok {
		c.cost = cost
	}
}

// halt says that nobody works on the run any more.
func (c *course) halt() {
	for _, p := range c.order {
		if p.writing = ""; p.mark == markGoing {
			p.mark = markHalted
		}
	}
}

// count is how many pieces have a mark.
func (c *course) count(m mark) int {
	n := 0
	for _, p := range c.order {
		if p.mark == m {
			n++
		}
	}
	return n
}

// last is the piece of the highest number among those whose units begin so.
func (c *course) last(prefix string) *piece {
	var found *piece
	for _, p := range c.order {
		if strings.HasPrefix(p.unit, prefix) {
			found = p
		}
	}
	return found
}

// specOf is the spec in force of a run that was loaded whole, with the
// variables it was started with.
func specOf(s session.Session) (*spec.Spec, error) {
	raw, vars := begunWith(s)
	var snap spec.Snapshot
	if err := json.Unmarshal(raw, &snap); err != nil {
		return nil, &session.CorruptError{ID: s.ID(), Path: "log", Reason: fmt.Sprintf("the spec cannot be read: %v", err)}
	}
	return spec.Loader{Lenient: true}.Parse(snap.Source(), vars)
}

// begunWith is what the log of a run says about its spec and its variables.
func begunWith(s session.Session) (raw json.RawMessage, vars spec.Map[string]) {
	for _, r := range s.Ledger() {
		switch change := r.Change.(type) {
		case session.WorkflowBegun:
			raw = change.Spec
			for _, v := range change.Variables {
				vars = vars.With(v.Name, v.Value)
			}
		case session.WorkflowSpecChanged:
			raw = change.Spec
		}
	}
	return raw, vars
}
