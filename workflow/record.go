package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Recorder adds to a run's session what was done outside this package, in the
// changes that a run writes itself: resuming the session repeats nothing that
// was recorded.
type Recorder struct {
	s       session.Session
	r       *run
	at      time.Time
	logged  map[string]bool // units that the log had finished, questions it had answered
	history History
	changes []session.Change
}

// History says what was done in a run. A Recorder asks it about units and
// questions in the order in which the pattern reaches them.
type History interface {
	// Unit returns what is known of a unit. The zero record: nothing.
	Unit(u Unit) UnitRecord
	// Question gets a question as the log has it, or as it would be asked. It
	// returns the question as it was asked, with its answer if there is one, and
	// whether the time limit answered it. Without a Unit: it was never asked.
	Question(q HITLState) (asked HITLState, timedOut bool)
}

// Unit is a piece of work for an agent.
type Unit struct {
	Key, Agent, Lane string
	Logged           bool                                       // it was finished before the Recorder began
	Response         string                                     // what it answered then
	Input            func() (string, error)                     // what the agent is asked
	Read             func(text string) (json.RawMessage, error) // takes the value out of an answer; nil: there is none
}

// UnitRecord is what is known of a unit.
type UnitRecord struct {
	System   string            // the agent's prompt; empty: not known
	Messages []session.Message // what was said. Those without a unit are kept in the log and shown to no model
	Done     bool
	Response *string         // nil: the last message says it
	Tokens   *int            // the words of input and answer; nil: they are counted
	Value    json.RawMessage // what was read out of the answer
	Failure  string          // why the last attempt failed
}

// NewRecorder takes a whole session of a run. At is when the changes happened.
func NewRecorder(s session.Session, at time.Time) (*Recorder, error) {
	r, err := readRun(s)
	if err != nil {
		return nil, err
	}
	w := &Recorder{s: s, r: r, at: at, logged: map[string]bool{}}
	for key, e := range r.index.units {
		w.logged[key] = e.done
	}
	for key, q := range r.index.questions {
		w.logged[key] = q.answer != nil
	}
	r.recorder = w
	return w, nil
}

// Spec returns the spec in force.
func (w *Recorder) Spec() *spec.Spec { return w.r.spec }

// Replay records everything that the history knows of the units and questions
// that the pattern reaches. Ended: the pattern reached its end.
func (w *Recorder) Replay(h History) (ended bool) {
	w.history = h
	_, _, err := w.r.replay(context.Background())
	return err == nil
}

// Waits reports a question without an answer.
func (w *Recorder) Waits() bool {
	for _, q := range w.r.index.questions {
		if q.answer == nil {
			return true
		}
	}
	return false
}

// unit asks the history about a unit before the pattern looks it up.
func (w *Recorder) unit(u unit) {
	known := Unit{Key: u.key, Agent: u.agent, Lane: u.lane, Logged: w.logged[u.key], Input: u.input, Read: u.read}
	switch e, done := w.r.done(u.key); {
	case known.Logged:
		known.Response = e.response()
	case done: // recorded a moment ago
		return
	}
	w.AddUnit(known, w.history.Unit(known))
}

// question asks the history about a question before the pattern looks it up.
func (w *Recorder) question(p prompt) {
	known := w.r.index.questions[p.unit]
	switch {
	case known != nil && known.answer != nil && !w.logged[p.unit]: // recorded a moment ago
		return
	case known == nil:
		known = &question{PendingCall: w.r.call(p)}
	}
	state := known.state(p.place)
	if end := p.expiry(w.at); state.TimeoutAt == nil && end != nil {
		state.TimeoutAt = ptr(iso8601(*end))
	}
	if asked, timedOut := w.history.Question(state); asked.Unit != "" {
		w.AddQuestion(asked, timedOut)
	}
}

// AddUnit records a unit, unless the log has finished it.
func (w *Recorder) AddUnit(u Unit, rec UnitRecord) {
	if _, done := w.r.done(u.Key); done {
		return
	}
	w.addMessages(u, rec)
	switch {
	case rec.Done:
		w.finish(u, rec)
	case rec.Failure != "":
		w.add(session.UnitFailed{Unit: u.Key, Agent: u.Agent, Seconds: w.seconds(), Error: session.Failure{
			Kind: string(patternKinds[w.r.spec.Pattern.Type]), Message: rec.Failure,
		}})
	}
}

func (w *Recorder) add(changes ...session.Change) {
	for _, c := range changes {
		w.changes = append(w.changes, c)
		w.r.index.apply(c, w.at)
	}
}

// seconds returns how long the run has worked. What was done elsewhere took none of
// it.
func (w *Recorder) seconds() float64 { return w.s.Workflow().Seconds }

// addMessages records what was said in a unit. A unit that has to continue needs
// the prompt it was begun with; else the prompt is made when it is needed.
func (w *Recorder) addMessages(u Unit, rec UnitRecord) {
	e, said := w.r.index.unit(u.Key), rec.Messages
	if _, asked := e.input(); asked {
		for len(said) > 0 && said[0].Role == session.RoleUser { // it was asked that before
			said = said[1:]
		}
	}
	if len(said) == 0 {
		return
	}
	if e.agent == "" {
		started, system := session.UnitStarted{Unit: u.Key, Lane: u.Lane, Agent: u.Agent}, rec.System
		if system == "" && !rec.Done {
			made, _ := w.r.spec.Agents.Get(u.Agent)
			system = systemText(w.r.spec, u.Agent, made.Prompt, "")
		}
		if _, known := w.r.index.systems[conversation(u.Agent, u.Lane)]; !known && system != "" {
			started.System = &system
		}
		w.add(started)
	}
	w.add(w.loopChanges(u, said, len(e.messages))...)
}

// loopChanges returns messages as the agent's loop writes them, so that it can
// continue after them. To record the same again gives the same ids.
func (w *Recorder) loopChanges(u Unit, said []session.Message, offset int) []session.Change {
	var changes []session.Change
	step, open := "", 0 // calls of the step that have no result
	advance := func(c session.Change) {
		changes = append(changes, session.UnitAdvanced{Unit: u.Key, Agent: u.Agent, Change: c})
	}
	for i, m := range said {
		place := fmt.Sprintf("%s/%d", w.s.ID(), w.s.Info().Seq+int64(len(w.changes)+i))
		m.ID, m.Seq, m.StepID = uuid.NewSHA1(uuid.NameSpaceOID, []byte(place)).String(), 0, ""
		m.Lane, m.ExecutionID = u.Lane, u.Key
		switch {
		case m.Role == session.RoleAssistant:
			step, open = fmt.Sprintf("adopted-%d", offset+i), len(m.ToolCalls)
			advance(session.InferenceAnswered{StepID: step})
		case m.ToolResult != nil && step != "":
			advance(session.ToolFinished{StepID: step, CallID: m.ToolResult.CallID, ToolName: m.ToolResult.ToolName, IsError: m.ToolResult.IsError})
			open--
		}
		if m.Role != session.RoleUser {
			m.StepID = step
		}
		changes = append(changes, session.MessageAdded{Message: m})
		switch {
		case m.Role == session.RoleAssistant && open == 0:
			advance(session.StepFinished{StepID: step, Type: session.StepFinal})
		case m.ToolResult != nil && step != "" && open == 0:
			advance(session.StepFinished{StepID: step, Type: session.StepTools})
		}
	}
	return changes
}

func (w *Recorder) finish(u Unit, rec UnitRecord) {
	e := w.r.index.unit(u.Key)
	if e.agent == "" {
		w.add(session.UnitStarted{Unit: u.Key, Lane: u.Lane, Agent: u.Agent})
	}
	res := result{Value: rec.Value}
	response := e.response()
	if rec.Response != nil && *rec.Response != response {
		response, res.Response = *rec.Response, rec.Response
	}
	if rec.Tokens != nil {
		res.Tokens = *rec.Tokens
	} else {
		input, _ := e.input()
		res.Tokens = countWords(input, response)
	}
	w.add(session.UnitFinished{Unit: u.Key, Agent: u.Agent, Result: res.json(), Seconds: w.seconds()})
}

// AddQuestion records a question and its answer, as far as the log lacks them.
func (w *Recorder) AddQuestion(q HITLState, timedOut bool) {
	known := w.r.index.questions[q.Unit]
	if known == nil {
		asked := session.Question{Unit: q.Unit, Prompt: q.Prompt, Context: q.ContextDisplay, Default: q.DefaultResponse}
		if q.TimeoutAt != nil {
			if at, err := time.Parse(time.RFC3339, *q.TimeoutAt); err == nil {
				asked.TimeoutAt = &at
			}
		}
		w.add(session.CallPending{Call: asked.Call(), Seconds: w.seconds()})
		known = w.r.index.questions[q.Unit]
	}
	if q.UserResponse != nil && known.answer == nil {
		response := session.Response{PendingID: known.ID, Action: session.RespondAnswer, Text: *q.UserResponse}
		if timedOut && known.ExpiresAt != nil {
			response.Action = session.RespondExpire
		}
		w.add(session.CallResponded{Unit: q.Unit, Response: response})
	}
}

// AddSummary records the text that an agent is shown instead of what was said
// in the units of a lane from the first to the last.
func (w *Recorder) AddSummary(agent, lane, first, last, text string) {
	key := summaryPrefix + last
	if w.r.index.units[key] != nil {
		return
	}
	res := result{Response: &text, From: first, UpTo: last}
	w.add(session.UnitStarted{Unit: key, Lane: lane, Agent: agent}, session.UnitFinished{Unit: key, Result: res.json(), Seconds: w.seconds()})
}

// AddArtifacts records files that the log lacks.
func (w *Recorder) AddArtifacts(paths []string) {
	for _, path := range paths {
		if path != "" && !slices.Contains(w.s.Workflow().Artifacts, path) {
			w.add(session.ArtifactWritten{Path: path})
		}
	}
}

// SetUsage makes the given sums what the agents have used in all. Call it when
// all units are recorded.
func (w *Recorder) SetUsage(want map[string]AgentUse) {
	calls := map[string]int{}
	first := map[string]func(session.Usage, bool){} // sets what an agent has used in its first answer
	for i, c := range w.changes {
		advanced, ok := c.(session.UnitAdvanced)
		if !ok {
			continue
		}
		answered, ok := advanced.Change.(session.InferenceAnswered)
		if !ok {
			continue
		}
		calls[advanced.Agent]++
		if first[advanced.Agent] == nil {
			first[advanced.Agent] = func(used session.Usage, estimated bool) {
				answered.Usage = used
				advanced.Estimated, advanced.Change = estimated, answered
				w.changes[i] = advanced
			}
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(want)) {
		target, now := want[agent], w.s.Workflow().Agents[agent]
		used := session.Usage{Input: max(0, target.Input-now.Input), Output: max(0, target.Output-now.Output)}
		missing := target.Calls - now.Calls - calls[agent]
		if set := first[agent]; set != nil {
			set(used, target.Estimated)
			used = session.Usage{}
		} else if used.Total() > 0 {
			missing = max(missing, 1)
		}
		for n := range missing {
			w.add(session.UnitAdvanced{
				Unit: "usage/" + agent, Agent: agent, Estimated: target.Estimated,
				Change: session.InferenceAnswered{StepID: fmt.Sprintf("adopted-%d", n), Usage: used},
			})
			used = session.Usage{}
		}
	}
}

// Finish returns the session with everything that was recorded as pending
// changes, and with the status of the run.
func (w *Recorder) Finish(status Status, failure string) (session.Session, error) {
	if e := w.r.index.units[artifactsUnit]; status == StatusCompleted && (e == nil || !e.done) {
		w.add(session.UnitFinished{Unit: artifactsUnit, Result: result{}.json(), Seconds: w.seconds()})
	}
	row := w.r.row(status, failure, w.s, nil)
	if old := w.s.Info().Workflow; old == nil || *old != row {
		w.add(session.WorkflowRowChanged{Workflow: row})
	}
	return w.s.With(w.at, w.changes...)
}
