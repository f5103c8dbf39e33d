package strands

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// history is what a directory says of the units and questions of its run: the
// workflow.History of an import.
type history struct {
	spec      *spec.Spec
	own       bool // the directory is as this package wrote it
	completed bool
	strict    bool // the directory must know what the log knows
	state     patternState
	records   map[string]workflow.UnitRecord // by unit; of units that are tried again, by the key without the number
	prompts   map[string]string              // of questions, by unit
	passed    map[string]string              // questions that must have been answered, with an answer that fits
	threads   []*thread
	lostRoute string // the only route that steps without one can be of
	notes     []string
	differs   bool // from the log
}

var _ workflow.History = (*history)(nil)

func newHistory(c *contents) (*history, error) {
	h := &history{
		spec: c.spec, own: c.state.Holdfast != nil, completed: c.state.Metadata.Status == workflow.StatusCompleted,
		records: map[string]workflow.UnitRecord{}, prompts: map[string]string{}, passed: map[string]string{},
	}
	var err error
	if h.state, err = c.state.pattern(); err != nil {
		return nil, err
	}
	for _, t := range c.conversations {
		h.threads = append(h.threads, newThread(t))
	}
	h.readPattern()
	h.strict = len(h.records) > 0 || !h.completed
	return h, nil
}

func (h *history) note(format string, args ...any) {
	h.notes = append(h.notes, fmt.Sprintf(format, args...))
}

// Unit returns what the directory says of a unit.
func (h *history) Unit(u workflow.Unit) workflow.UnitRecord {
	rec := h.recordOf(u)
	if u.Logged {
		if rec.Done && rec.Response != nil && *rec.Response != u.Response || !rec.Done && h.strict && u.Read == nil {
			h.differs = true
		}
		return rec
	}
	t := h.threadOf(u)
	if rec.Done {
		rec.Messages = t.claim(u, rec.Response)
	} else {
		rec.Messages = t.ahead(u)
	}
	if t.Lane == u.Lane {
		rec.System = t.System
	}
	return rec
}

// recordOf returns what the pattern state says of a unit. A question whose answer
// is read, and asked again if it cannot be, is recorded once for all attempts: an
// answer that bears an attempt's name and cannot be read was given before.
func (h *history) recordOf(u workflow.Unit) workflow.UnitRecord {
	if u.Read == nil {
		return h.records[u.Key]
	}
	base, number, _ := strings.Cut(u.Key, "#")
	rec := h.records[base]
	named := h.threadOf(u).named
	text, said := answer(named[u.Key])
	k, err := strconv.Atoi(number)
	if !said || err != nil {
		return rec
	}
	if value, err := u.Read(text); err == nil {
		rec.Response = &text
		if rec.Value == nil {
			rec.Value = value
		}
		return rec
	}
	again := len(named[fmt.Sprintf("%s#%d", base, k+1)]) > 0
	return workflow.UnitRecord{Done: rec.Done || again, Response: &text}
}

// Question returns a question as the directory shows it.
func (h *history) Question(q workflow.HITLState) (put workflow.HITLState, timedOut bool) {
	rec, recorded := h.records[q.Unit]
	if q.UserResponse != nil {
		h.differs = h.differs || recorded && rec.Response != nil && *rec.Response != *q.UserResponse
		return put, false
	}
	shown := h.shownAt(q)
	answer := rec.Response
	if answer == nil && shown != nil && !shown.Active {
		answer = shown.UserResponse
	}
	if passed, ok := h.passed[q.Unit]; answer == nil && (ok || recorded) {
		answer = &passed
	}
	if shown == nil && answer == nil {
		return put, false
	}
	timedOut = answer != nil && h.state.TimedOut && h.state.DefaultUsed == *answer && q.TimeoutAt != nil
	put = q
	put.UserResponse, put.TimeoutAt = answer, nil
	if shown != nil {
		put.Prompt, put.ContextDisplay, put.DefaultResponse, put.TimeoutAt = shown.Prompt, shown.ContextDisplay, shown.DefaultResponse, shown.TimeoutAt
	} else if prompt := h.prompts[q.Unit]; prompt != "" {
		put.Prompt = prompt
	}
	if timedOut {
		put.TimeoutAt = &h.state.TimedOutAt
	}
	return put, timedOut
}

// shownAt returns the question of the directory that stands where q does.
func (h *history) shownAt(q workflow.HITLState) *workflow.HITLState {
	for i := range h.state.Pending {
		if h.isAt(q, h.state.Pending[i]) {
			return &h.state.Pending[i]
		}
	}
	if h.state.Question != nil && h.isAt(q, *h.state.Question) {
		return h.state.Question
	}
	return nil
}

// isAt reports that a question of the directory is this one.
func (h *history) isAt(q, shown workflow.HITLState) bool {
	if !fits(q.StepIndex, shown.StepIndex) || !fits(q.TaskID, shown.TaskID) || !fits(q.BranchID, shown.BranchID) ||
		!fits(q.StepType, shown.StepType) || !fits(q.IterationIndex, shown.IterationIndex) ||
		!fits(q.Phase, shown.Phase) || !fits(q.RouterReview, shown.RouterReview) || !fits(q.NodeID, shown.NodeID) {
		return false
	}
	if q.NodeID != nil { // the last visit
		visit := 0
		for _, node := range h.state.Path {
			if node == *q.NodeID {
				visit++
			}
		}
		if shown.Active {
			visit++
		}
		return q.Unit == visitKey(*q.NodeID, visit)
	}
	if c := h.spec.Pattern.Orchestrator; c != nil && c.ReduceReview != nil && c.Reduce != nil && c.Reduce.Ask != nil && *q.Phase == "reduce" {
		return q.Prompt == shown.Prompt // two questions stand in one place
	}
	return true
}

// fits reports a part of a place that does not matter, or is equal.
func fits[T comparable](want, have *T) bool {
	return want == nil || have != nil && *want == *have
}

// addLostRoute records the steps of a route whose name is lost: the pattern does
// not reach them before the router has chosen again.
func (h *history) addLostRoute(w *workflow.Recorder) {
	if h.lostRoute == "" {
		return
	}
	route, _ := h.spec.Pattern.Routing.Routes.Get(h.lostRoute)
	for i, s := range route.Then {
		key := fmt.Sprintf("%sstep/%d", routePrefix(h.lostRoute), i)
		rec, ok := h.records[key]
		switch {
		case !ok:
			return
		case s.Ask == nil:
			u := workflow.Unit{Key: key, Agent: s.Agent, Lane: workflow.LaneMain}
			w.AddUnit(u, h.Unit(u))
		default:
			q := workflow.HITLState{Unit: key, Prompt: h.prompts[key], DefaultResponse: s.Ask.Default, UserResponse: rec.Response}
			if q.UserResponse == nil {
				q.UserResponse = new(string)
			}
			w.AddQuestion(q, false)
		}
	}
}
