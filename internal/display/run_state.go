package display

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// mark is how far a unit of a run has come.
type mark int

const (
	markAhead  mark = iota // not begun
	markGoing              // somebody works on it
	markHalted             // begun, and nobody works on it
	markAsking             // a person is asked
	markDone               // it has its result
	markFailed             // it came to nothing, and may be taken up again
)

// unitState is a unit of a run, or a question, as a person sees it.
type unitState struct {
	unit, agent string
	mark        mark
	began       time.Time
	resumed     time.Time // it was taken up again
	took        time.Duration
	used        session.Usage
	cost        session.Cost
	estimated   bool   // words were counted in place of tokens
	task        string // what it was asked, of a worker
	note        string // what came of it, in a word: a score, a person's answer
	writing     string // the end of an answer that is coming
	answer      string // the last whole one
}

// RunState is how far a run has come, made of the items of its projection. It is
// not safe for concurrent use.
type RunState struct {
	items *projector.Projector
	units map[string]*unitState
	order []*unitState
	route string // that was chosen
	used  session.Usage
	cost  session.Cost
}

// NewRunState returns the state of a run that has not begun.
func NewRunState() *RunState {
	return &RunState{items: projector.New(""), units: map[string]*unitState{}}
}

// RunStateOf shows a run that was loaded whole. Live says that somebody works on
// it.
func RunStateOf(s session.Session, live bool) *RunState {
	c := NewRunState()
	c.items = projector.Of(s)
	for _, i := range c.items.Items() {
		c.show(projector.Change{Op: projector.Updated, Item: i})
		if w := i.Work; w != nil {
			c.units[i.Unit].took = time.Duration(w.ActiveSeconds * float64(time.Second)) // it may have been worked on again and again
		}
	}
	c.used, c.cost = s.Usage()
	if !live {
		c.halt()
	}
	return c
}

// at returns the state of a unit.
func (c *RunState) at(unit string) *unitState {
	p := c.units[unit]
	if p == nil {
		p = &unitState{unit: unit}
		c.units[unit] = p
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

// update takes in what happens to the run.
func (c *RunState) update(u holdfast.Update) []projector.Change {
	changes := c.items.Apply(u)
	for _, change := range changes {
		c.show(change)
		if used := change.Item.Usage; used != nil && change.Op == projector.Added {
			c.used, c.cost = c.used.Plus(used.Usage), c.cost+used.Cost
		}
	}
	if u.Dropped != nil {
		if p := c.units[u.Dropped.Unit]; p != nil {
			p.writing, p.note = "", "the model gave no answer"
		}
	}
	return changes
}

// show takes an item of a unit in.
func (c *RunState) show(change projector.Change) {
	i := change.Item
	switch {
	case i.Work != nil:
		c.work(i)
	case i.Pending != nil && i.Pending.CallID != "" && c.units[i.Unit] != nil:
		c.units[i.Unit].wait(i.Pending)
	case i.Pending != nil && i.Unit != "" && i.Pending.CallID == "":
		p := c.at(i.Unit)
		p.mark, p.note = markAsking, i.Pending.Prompt
		if r := i.Pending.Response; r != nil {
			p.mark, p.note = markDone, answerNote(r.Text, r.Action == session.RespondExpire)
		}
	case i.Message != nil && c.units[i.Unit] != nil && i.Message.Role == session.RoleAssistant:
		p := c.units[i.Unit]
		switch {
		case change.Op == projector.Grew:
			p.mark, p.note, p.writing = markGoing, "", lastRunes(p.writing+i.Message.Text, 200)
		case i.Done:
			p.answer, p.writing = i.Message.Text, ""
		}
	case i.Call != nil && i.Call.State == projector.CallStreaming && c.units[i.Unit] != nil:
		c.units[i.Unit].writing = "→ " + i.Call.Name + " "
	}
}

// wait shows a unit whose call waits for a response, or has it.
func (p *unitState) wait(call *projector.Pending) {
	p.mark, p.writing, p.note = markAsking, "", WaitText(call.PendingCall)
	if call.Response != nil {
		p.mark, p.note = markGoing, ""
	}
}

// WaitText says what a call within a unit waits for.
func WaitText(p session.PendingCall) string {
	switch p.Kind {
	case session.PendingApproval:
		return p.Tool + " waits for an approval: " + p.Prompt
	case session.PendingResult:
		return p.Tool + " waits for its result"
	}
	return p.Prompt
}

// work shows how far a unit has come.
func (c *RunState) work(i projector.Item) {
	w, p := i.Work, c.at(i.Unit)
	p.agent, p.began, p.task = w.Agent, w.StartedAt, w.Input
	if p.resumed.After(p.began) { // nobody worked on it in between
		p.began = p.resumed
	}
	p.used, p.cost, p.estimated = w.Usage, w.Cost, w.Estimated
	switch w.State {
	case projector.WorkFinished:
		p.mark, p.note, p.took = markDone, resultNote(w.Result), w.EndedAt.Sub(p.began)
	case projector.WorkReset:
		p.mark, p.note, p.writing = markAhead, "", ""
	case projector.WorkFailed:
		p.mark, p.note, p.writing = markFailed, w.Error.Message, ""
	default:
		p.mark, p.note = markGoing, ""
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

// resume says that somebody works on the run again, and on which units.
func (c *RunState) resume(now time.Time) (resumed []*unitState) {
	for _, p := range c.order {
		if p.mark == markHalted || p.mark == markFailed {
			p.mark, p.note, p.began, p.resumed = markGoing, "", now, now
			resumed = append(resumed, p)
		}
	}
	return resumed
}

// halt says that nobody works on the run any more.
func (c *RunState) halt() {
	for _, p := range c.order {
		if p.writing = ""; p.mark == markGoing {
			p.mark = markHalted
		}
	}
}

// last is the unit of the highest number among those whose units begin so.
func (c *RunState) last(prefix string) *unitState {
	var found *unitState
	for _, p := range c.order {
		if strings.HasPrefix(p.unit, prefix) {
			found = p
		}
	}
	return found
}

// SpecOf is the spec in force of a run that was loaded whole, with the
// variables it was started with.
func SpecOf(s session.Session) (*spec.Spec, error) {
	raw, vars := StartedWith(s)
	var snap spec.Snapshot
	if err := json.Unmarshal(raw, &snap); err != nil {
		return nil, &session.CorruptError{ID: s.ID(), Path: "log", Reason: fmt.Sprintf("the spec cannot be read: %v", err)}
	}
	return spec.Loader{Lenient: true}.Parse(snap.Source(), vars)
}

// StartedWith is what the log of a run says about its spec and its variables.
func StartedWith(s session.Session) (raw json.RawMessage, vars spec.Map[string]) {
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
