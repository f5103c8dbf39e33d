package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Foreign is a run as files say it that this package did not write, or wrote
// for another program to go on with.
type Foreign struct {
	Format    string // of the files
	Own       bool   // they are as this package wrote them
	Version   int64  // of the session they were written of; 0: none
	Snapshot  *spec.Snapshot
	Variables spec.Map[string]
	Runtime   json.RawMessage // runtime_config
	Pattern   json.RawMessage // pattern_state
	Status    Status
	Error     string
	CreatedAt time.Time
	UpdatedAt time.Time
	Artifacts []string
	Talks     []Talk
	Usage     map[string]AgentUse // in all, by agent
}

// Talk is what an agent said and heard in one lane, in order. Messages name
// their unit where that is known.
type Talk struct {
	Agent, Lane string
	System      string // the agent's prompt; empty: not known
	Messages    []session.Message
	Removed     int    // how many of the first messages the agent is not shown any more
	Summary     string // what it is shown in their place
}

// The lanes of a talk. Each worker of an orchestrator has its own.
const (
	LaneMain   = laneMain
	LaneRouter = laneRouter
)

// LaneWorker is the lane of one worker.
func LaneWorker(i int) string { return fmt.Sprintf("worker/%d", i) }

// DefinitionName is the name of a spec in the form that sessions take.
func DefinitionName(name string) string { return definitionName(name) }

// Adopted is a new session, not stored yet, with the log that this package
// would have written of a foreign run: resuming it repeats nothing that is
// recorded. Notes say what could not be taken over. A spec that cannot be read
// is a *session.SpecError, a state that cannot be a *session.InvalidError.
func Adopted(birth session.Birth, f Foreign) (s session.Session, notes []string, err error) {
	made, err := spec.Loader{Lenient: true}.Parse(f.Snapshot.Source(), f.Variables)
	if err != nil {
		return s, nil, err
	}
	begun, err := beginning(made, f.Snapshot, f.Variables)
	if err != nil {
		return s, nil, err
	}
	if f.Runtime != nil {
		begun.Runtime = f.Runtime
	}
	if begun.Extra, err = foreignExtra(made.Pattern.Type, f); err != nil {
		return s, nil, err
	}
	birth.Kind = session.KindWorkflow
	def := session.Definition{Name: definitionName(made.Name), Label: made.Name, Description: made.Description}
	if s, err = session.New(birth, def, session.Seed{}, f.CreatedAt); err != nil {
		return s, nil, err
	}
	if s, err = s.With(f.UpdatedAt, begun, session.SessionImported{Format: f.Format, Version: f.Version, UpdatedAt: f.UpdatedAt}); err != nil {
		return s, nil, err
	}
	return Adopt(s, f)
}

// Adopt is the session with everything, as pending changes, that files say
// beyond its log. Files that say something else than the log are a
// *session.ConflictError. The session must be whole.
func Adopt(s session.Session, f Foreign) (session.Session, []string, error) {
	b, err := bookOf(s)
	if err != nil {
		return s, nil, err
	}
	r, err := newRun(s.ID(), b)
	if err != nil {
		return s, nil, err
	}
	p, err := newPast(r, f)
	if err != nil {
		return s, nil, err
	}
	r.past, p.seconds = p, s.Workflow().Seconds
	_, _, end := r.replay(context.Background())
	p.takeLostRoute(r)
	if p.conflict != "" {
		return s, nil, &session.ConflictError{ID: s.ID(), Reason: session.ReasonReplaced, Want: f.Version, Have: s.Version()}
	}
	p.summaries(r)
	p.files(s, f)
	p.spend(r, s.Workflow().Agents, f.Usage)
	p.row(r, s, f, end == nil)
	next, err := s.With(f.UpdatedAt, p.changes...)
	return next, p.notes, err
}

// past is what files say of a run, told to the program of its pattern as it
// asks for units and answers.
type past struct {
	f       Foreign
	state   foreignState
	records map[string]record // by unit; of units that are tried again, by the key without the number
	passed  map[string]string // questions that must have been answered, with an answer that fits
	threads []*thread
	lost    string          // the only route that steps without one can be of
	had     map[string]bool // units and questions that the log had
	strict  bool            // the files must know what the log knows
	seconds float64

	changes  []session.Change
	notes    []string
	conflict string // the first unit about which files and log differ
}

func newPast(r *run, f Foreign) (*past, error) {
	p := &past{f: f, records: map[string]record{}, passed: map[string]string{}, had: map[string]bool{}}
	if len(f.Pattern) > 0 {
		if err := json.Unmarshal(f.Pattern, &p.state); err != nil {
			return nil, &session.InvalidError{Field: "pattern_state", Reason: err.Error()}
		}
	}
	for key, e := range r.book.units {
		p.had[key] = e.done
	}
	for key, q := range r.book.questions {
		p.had[key] = q.answer != nil
	}
	for _, t := range f.Talks {
		p.threads = append(p.threads, newThread(t))
	}
	p.read(r)
	p.strict = len(p.records) > 0 || f.Status != StatusCompleted
	return p, nil
}

// add writes a change down, for the session and for the program.
func (p *past) add(r *run, changes ...session.Change) {
	for _, c := range changes {
		p.changes = append(p.changes, c)
		r.book.apply(c, p.f.UpdatedAt)
	}
}

func (p *past) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// work is asked before the program looks a unit up.
func (p *past) work(r *run, u unit) {
	rec, did := p.recordOf(u)
	if e, done := r.done(u.key); done {
		known := did && !rec.lost
		if p.had[u.key] && (known && rec.response != e.response() || !did && p.strict && !strings.Contains(u.key, "#")) {
			p.differs(u.key)
		}
		return
	}
	t := p.threadOf(u)
	if !did {
		p.begin(r, u, t.ahead(u), true)
		if rec.failed != "" {
			p.add(r, session.UnitFailed{Unit: u.key, Agent: u.agent, Seconds: p.seconds, Error: session.Failure{
				Kind: string(patternKinds[r.spec.Pattern.Type]), Message: rec.failed,
			}})
		}
		return
	}
	p.begin(r, u, t.claim(u, rec), false)
	if r.book.unit(u.key).agent == "" {
		p.add(r, session.UnitStarted{Unit: u.key, Lane: u.lane, Agent: u.agent})
	}
	p.finish(r, u, rec)
}

func (p *past) differs(unit string) {
	if p.conflict == "" {
		p.conflict = unit
	}
}

// begin writes down what was said in a unit. One that goes on needs the
// prompt it was begun with; else the prompt is made when it is needed.
func (p *past) begin(r *run, u unit, said []session.Message, goesOn bool) {
	e := r.book.unit(u.key)
	if _, asked := e.input(); asked {
		for len(said) > 0 && said[0].Role == session.RoleUser { // it was asked that before
			said = said[1:]
		}
	}
	if len(said) == 0 {
		return
	}
	if e.agent == "" {
		started := session.UnitStarted{Unit: u.key, Lane: u.lane, Agent: u.agent}
		system := p.systemOf(u)
		if system == "" && goesOn {
			made, _ := r.spec.Agents.Get(u.agent)
			system = systemText(r.spec, u.agent, made.Prompt, "")
		}
		if _, known := r.book.systems[conversation(u.agent, u.lane)]; !known && system != "" {
			started.System = &system
		}
		p.add(r, started)
	}
	p.add(r, course(u, said, len(e.messages))...)
}

// course is what was said in a unit as its loop would have written it, so
// that the loop can go on from there.
func course(u unit, said []session.Message, offset int) []session.Change {
	var changes []session.Change
	step, open := "", 0 // calls of the step that have no result
	advance := func(c session.Change) {
		changes = append(changes, session.UnitAdvanced{Unit: u.key, Agent: u.agent, Change: c})
	}
	for i, m := range said {
		m.ID, m.Seq = uuid.NewString(), 0
		hidden := m.Unit == hiddenUnit
		m.Unit, m.Lane, m.ExecutionID = u.key, u.lane, u.key
		if hidden {
			m.Unit = ""
		}
		switch {
		case m.Role == session.RoleAssistant:
			step, open = fmt.Sprintf("adopted-%d", offset+i), len(m.ToolCalls)
			advance(session.InferenceAnswered{StepID: step})
		case m.ToolResult != nil && step != "":
			advance(session.ToolFinished{StepID: step, CallID: m.ToolResult.CallID, ToolName: m.ToolResult.ToolName, IsError: m.ToolResult.IsError})
			open--
		}
		m.StepID = ""
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

// finish ends a unit with what the files say it answered.
func (p *past) finish(r *run, u unit, rec record) {
	e := r.book.unit(u.key)
	said, response := e.response(), rec.response
	if rec.lost {
		response = said
	}
	res := result{Tokens: rec.tokens, Value: rec.value}
	if rec.tokens < 0 {
		input, _ := e.input()
		res.Tokens = words(input, response)
	}
	if response != said {
		res.Response = &response
	}
	raw, err := json.Marshal(res)
	if err != nil {
		panic(fmt.Sprintf("workflow: a result is no JSON: %v", err)) // texts, numbers and JSON always are
	}
	p.add(r, session.UnitFinished{Unit: u.key, Agent: u.agent, Result: raw, Seconds: p.seconds})
}

// ask is asked before the program looks a question up.
func (p *past) ask(r *run, q question) {
	known := r.book.questions[q.unit]
	shown := p.shownAt(r, q)
	answer, answered := p.answerTo(q, shown)
	if known != nil && known.answer != nil {
		if rec, ok := p.records[q.unit]; ok && !rec.lost && p.had[q.unit] && rec.response != *known.answer {
			p.differs(q.unit)
		}
		return
	}
	if shown == nil && !answered {
		return
	}
	timedOut := answered && p.state.TimedOut && p.state.DefaultUsed == answer && q.ask.TimeoutSeconds > 0
	if known == nil {
		p.add(r, session.QuestionPut{Question: p.put(r, q, shown, timedOut), Seconds: p.seconds})
	}
	if answered {
		p.add(r, session.QuestionAnswered{Unit: q.unit, Response: answer, TimedOut: timedOut})
	}
}

// put is a question as the files show it, or as it would be put.
func (p *past) put(r *run, q question, shown *HITLState, timedOut bool) session.Question {
	asked := session.Question{Unit: q.unit, Default: q.ask.Default}
	ends := ""
	if shown != nil {
		asked.Prompt, asked.Context, asked.Default = shown.Prompt, shown.ContextDisplay, shown.DefaultResponse
		if shown.TimeoutAt != nil {
			ends = *shown.TimeoutAt
		}
	} else {
		asked.Prompt, asked.Context = r.shown(q)
		if rec, ok := p.records[q.unit]; ok && rec.prompt != "" {
			asked.Prompt = rec.prompt
		}
	}
	if timedOut {
		ends = p.state.TimedOutAt
	}
	if at, err := time.Parse(time.RFC3339, ends); err == nil {
		asked.TimeoutAt = &at
	}
	return asked
}

// answerTo is what a person answered, as far as the files tell.
func (p *past) answerTo(q question, shown *HITLState) (string, bool) {
	if rec, ok := p.records[q.unit]; ok && !rec.lost {
		return rec.response, true
	}
	if shown != nil && !shown.Active && shown.UserResponse != nil {
		return *shown.UserResponse, true
	}
	if _, ok := p.records[q.unit]; ok {
		return "", true
	}
	answer, ok := p.passed[q.unit]
	return answer, ok
}

// shownAt is the question of the files that stands in a place.
func (p *past) shownAt(r *run, q question) *HITLState {
	for i := range p.state.Pending {
		if p.stands(r, q, &p.state.Pending[i]) {
			return &p.state.Pending[i]
		}
	}
	if p.state.Question != nil && p.stands(r, q, p.state.Question) {
		return p.state.Question
	}
	return nil
}

// stands reports that a question of the files is this one.
func (p *past) stands(r *run, q question, shown *HITLState) bool {
	if !same(q.place.StepIndex, shown.StepIndex) || !same(q.place.TaskID, shown.TaskID) || !same(q.place.BranchID, shown.BranchID) ||
		!same(q.place.StepType, shown.StepType) || !same(q.place.IterationIndex, shown.IterationIndex) ||
		!same(q.place.Phase, shown.Phase) || !same(q.place.RouterReview, shown.RouterReview) || !same(q.place.NodeID, shown.NodeID) {
		return false
	}
	if id := q.place.NodeID; id != nil { // the last visit
		visit := 0
		for _, node := range p.state.Path {
			if node == *id {
				visit++
			}
		}
		if shown.Active {
			visit++
		}
		return q.unit == fmt.Sprintf("node/%s@%d", *id, visit)
	}
	if c := r.spec.Pattern.Orchestrator; c != nil && c.ReduceReview != nil && c.Reduce != nil && c.Reduce.Ask != nil && *q.place.Phase == "reduce" {
		prompt, _ := r.shown(q) // two questions stand in one place
		return prompt == shown.Prompt
	}
	return true
}

// same holds for a part of a place that does not matter, or is equal.
func same[T comparable](want, have *T) bool {
	return want == nil || have != nil && *want == *have
}

// summaries moves the windows of talks whose beginning was summarised.
func (p *past) summaries(r *run) {
	for _, t := range p.threads {
		upTo := t.summarised()
		if upTo == "" || r.book.units[summaryPrefix+upTo] != nil {
			continue
		}
		key := summaryPrefix + upTo
		raw, err := json.Marshal(result{Response: &t.Summary, From: t.units[0], UpTo: upTo})
		if err != nil {
			panic(fmt.Sprintf("workflow: a result is no JSON: %v", err)) // texts and numbers always are
		}
		p.add(r, session.UnitStarted{Unit: key, Lane: t.Lane, Agent: t.Agent}, session.UnitFinished{Unit: key, Result: raw, Seconds: p.seconds})
	}
}

// files records the artifacts that the log lacks.
func (p *past) files(s session.Session, f Foreign) {
	have := s.Workflow().Artifacts
	for _, path := range f.Artifacts {
		if path != "" && !slices.Contains(have, path) {
			p.changes = append(p.changes, session.ArtifactWritten{Path: path})
		}
	}
}

// row says where the run stands.
func (p *past) row(r *run, s session.Session, f Foreign, ended bool) {
	status := f.Status
	open := false
	for _, q := range r.book.questions {
		open = open || q.answer == nil
	}
	if status == StatusCompleted && open {
		p.note("the run reads as completed, but somebody is asked: it is paused")
		status = StatusPaused
	}
	if e := r.book.units[artifactsUnit]; status == StatusCompleted && (e == nil || !e.done) {
		p.add(r, session.UnitFinished{Unit: artifactsUnit, Result: []byte(`{"tokens":0}`), Seconds: p.seconds})
	}
	if status == StatusCompleted && !ended {
		p.note("the run reads as completed, but not all it has done is recorded")
	}
	row := session.WorkflowRow{Name: r.spec.Name, SpecHash: r.snap.SHA256, Pattern: string(r.spec.Pattern.Type), Status: string(status), Error: f.Error}
	if old := s.Info().Workflow; old == nil || *old != row {
		p.changes = append(p.changes, session.WorkflowRowChanged{Workflow: row})
	}
}
