package session

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Workflow is what the head of a workflow run keeps: nothing in it grows with
// the units that are done. Their results stand in the ledger.
type Workflow struct {
	SpecSeq   int64               `json:"specSeq"`   // the change that holds the spec in force
	Last      string              `json:"last"`      // the unit that finished last
	Units     int                 `json:"units"`     // finished
	Steps     int                 `json:"steps"`     // finished units of agents
	Questions []Question          `json:"questions"` // that wait for an answer, as they were put
	Agents    map[string]AgentUse `json:"agents"`
	Artifacts []string            `json:"artifacts"`
	Seconds   float64             `json:"seconds"` // worked, pauses left out
	Warned    bool                `json:"warned"`  // a budget was nearly used up
	Entries   int                 `json:"entries"` // length of the ledger
}

// AgentUse is what the models of one agent have used.
type AgentUse struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Calls     int   `json:"calls"`
	Estimated bool  `json:"estimated"` // a provider told nothing and words were counted
}

// Question is something a run asks a person. Unit is the place where it
// stands.
type Question struct {
	Unit      string     `json:"unit"`
	Prompt    string     `json:"prompt"`
	Context   string     `json:"context"`
	Default   *string    `json:"default"`
	TimeoutAt *time.Time `json:"timeoutAt"`
}

func (q Question) normal() (Question, error) {
	cleanAll(&q.Unit, &q.Prompt, &q.Context)
	if q.Default = clonePtr(q.Default); q.Default != nil {
		cleanAll(q.Default)
	}
	q.TimeoutAt = instantPtr(q.TimeoutAt)
	return q, checkUnit(q.Unit)
}

const maxUnit = 1024

func checkUnit(unit string) error {
	if unit == "" || len(unit) > maxUnit {
		return invalid("unit", "%s is not 1 to %d bytes", quoted(unit), maxUnit)
	}
	return nil
}

func (w *Workflow) clone() *Workflow {
	if w == nil {
		return nil
	}
	c := *w
	c.Questions, c.Artifacts = cloneList(w.Questions), cloneList(w.Artifacts)
	for i, q := range c.Questions {
		c.Questions[i].Default, c.Questions[i].TimeoutAt = clonePtr(q.Default), clonePtr(q.TimeoutAt)
	}
	if c.Agents = maps.Clone(w.Agents); c.Agents == nil {
		c.Agents = map[string]AgentUse{}
	}
	return &c
}

// normal is a deep copy as a session keeps it.
func (w *Workflow) normal() (*Workflow, error) {
	if w == nil {
		return nil, nil
	}
	w = w.clone()
	cleanAll(&w.Last)
	w.Artifacts = cleanList(w.Artifacts)
	if w.Artifacts == nil {
		w.Artifacts = []string{}
	}
	for i, q := range w.Questions {
		q, err := q.normal()
		if err != nil {
			return nil, err
		}
		w.Questions[i] = q
	}
	if w.SpecSeq < 1 || w.Units < 0 || w.Steps < 0 || w.Entries < 0 {
		return nil, invalid("workflow", "specSeq is positive; units, steps and entries are not negative")
	}
	for agent, use := range w.Agents {
		if use.Input < 0 || use.Output < 0 || use.Calls < 0 {
			return nil, invalid("workflow.agents", "%s has used less than nothing", quoted(agent))
		}
	}
	return w, checkSpent("workflow", Usage{}, 0, w.Seconds)
}

// Workflow is what the head of a workflow run keeps, nil for other sessions.
func (s Session) Workflow() *Workflow { return s.b.st.Workflow.clone() }

// Ledger are the changes of a workflow run that its head does not hold, in
// order. Where the session was loaded without them it is a part, or empty.
func (s Session) Ledger() []Record {
	records := make([]Record, 0, s.b.ledger.len())
	for _, r := range s.b.ledger.all() {
		c, err := r.Change.normal() // a deep copy; it was normal before
		if err != nil {
			panic("session: a change of the ledger is not normal: " + err.Error())
		}
		records = append(records, Record{Seq: r.Seq, At: r.At, Change: c})
	}
	return records
}

// WithLedger is the session with the ledger a store keeps for it, in the
// place of the part it has.
func (s Session) WithLedger(records []Record) (Session, error) {
	b := *s.b
	if err := b.keep(records); err != nil {
		return s, err
	}
	return Session{&b}, nil
}

// keep sets the ledger of a body under construction.
func (b *body) keep(records []Record) error {
	if w := b.st.Workflow; len(records) > 0 && (w == nil || len(records) > w.Entries) {
		return invalid("ledger", "%d changes are more than the session has", len(records))
	}
	var v vector[*Record]
	last := int64(0)
	for _, r := range records {
		if !InLedger(r.Change) || r.Seq <= last || r.Seq > b.seq {
			return invalid("ledger", "change %d (%s) has no place in it after %d", r.Seq, r.Change.Kind(), last)
		}
		c, err := r.Change.normal()
		if err != nil {
			return err
		}
		last = r.Seq
		v = v.append(&Record{Seq: r.Seq, At: Instant(r.At), Change: c})
	}
	b.ledger = v
	return nil
}

// InLedger reports the changes that make a ledger.
func InLedger(c Change) bool {
	switch c.(type) {
	case WorkflowBegun, WorkflowSpecChanged, UnitStarted, UnitAdvanced, UnitFinished, UnitFailed, QuestionPut, QuestionAnswered,
		ArtifactWritten, BudgetWarned:
		return true
	}
	return false
}

// enter adds a change to the ledger of a run, and hands its head over to be
// altered.
func (b *body) enter(c Change, t recordTime, alter func(w *Workflow) error) error {
	if b.info.Kind != KindWorkflow {
		return invalid("kind", "%s is no change of a session of kind %s", c.Kind(), b.info.Kind)
	}
	w := b.st.Workflow.clone()
	if w == nil {
		if _, begins := c.(WorkflowBegun); !begins {
			return invalid("workflow", "%s before the run has begun", c.Kind())
		}
		w = (&Workflow{}).clone()
	}
	w.Entries++
	if err := alter(w); err != nil {
		return err
	}
	b.st.Workflow = w
	b.ledger = b.ledger.append(&Record{Seq: t.seq, At: t.at, Change: c})
	return nil
}

// RunVariable is a value a run was started with.
type RunVariable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// WorkflowBegun is the first change of a run: the spec with a copy of all it
// refers to, and what it is run with. The package that runs workflows knows
// their form.
type WorkflowBegun struct {
	Spec      json.RawMessage `json:"spec"`
	Variables []RunVariable   `json:"variables"`
	Runtime   json.RawMessage `json:"runtime"`
	Extra     json.RawMessage `json:"extra,omitempty"` // what a foreign run brought with it
}

// Kind is workflow_begun.
func (WorkflowBegun) Kind() string { return "workflow_begun" }

func (c WorkflowBegun) normal() (Change, error) {
	c.Variables = cloneList(c.Variables)
	for i := range c.Variables {
		cleanAll(&c.Variables[i].Name, &c.Variables[i].Value)
	}
	var err error
	if c.Spec, err = compact("spec", c.Spec); err != nil {
		return nil, err
	}
	if c.Runtime, err = compact("runtime", c.Runtime); err != nil {
		return nil, err
	}
	if c.Extra != nil {
		c.Extra, err = compact("extra", c.Extra)
	}
	return c, err
}

func (c WorkflowBegun) fold(b *body, t recordTime) error {
	if b.st.Workflow != nil {
		return invalid("workflow", "the run has begun already")
	}
	return b.enter(c, t, func(w *Workflow) error {
		w.SpecSeq = t.seq
		return nil
	})
}

// WorkflowSpecChanged puts another spec in force.
type WorkflowSpecChanged struct {
	Spec    json.RawMessage `json:"spec"`
	Runtime json.RawMessage `json:"runtime"`
}

// Kind is workflow_spec_changed.
func (WorkflowSpecChanged) Kind() string { return "workflow_spec_changed" }

func (c WorkflowSpecChanged) normal() (Change, error) {
	var err error
	if c.Spec, err = compact("spec", c.Spec); err != nil {
		return nil, err
	}
	c.Runtime, err = compact("runtime", c.Runtime)
	return c, err
}

func (c WorkflowSpecChanged) fold(b *body, t recordTime) error {
	return b.enter(c, t, func(w *Workflow) error {
		w.SpecSeq = t.seq
		return nil
	})
}

// UnitStarted begins a unit of work. What an agent is asked follows as a
// message in the same append.
type UnitStarted struct {
	Unit   string  `json:"unit"`
	Lane   string  `json:"lane"`
	Agent  string  `json:"agent"`
	System *string `json:"system,omitempty"` // the agent's prompt, at its first unit in the lane
}

// Kind is unit_started.
func (UnitStarted) Kind() string { return "unit_started" }

func (c UnitStarted) normal() (Change, error) {
	cleanAll(&c.Unit, &c.Lane, &c.Agent)
	if c.System = clonePtr(c.System); c.System != nil {
		cleanAll(c.System)
	}
	return c, checkUnit(c.Unit)
}

func (c UnitStarted) fold(b *body, t recordTime) error {
	return b.enter(c, t, func(*Workflow) error { return nil })
}

// UnitFinished ends a unit. Its result is the package's that runs workflows.
type UnitFinished struct {
	Unit    string          `json:"unit"`
	Agent   string          `json:"agent"` // empty where no agent worked
	Result  json.RawMessage `json:"result"`
	Note    string          `json:"note,omitempty"` // for the notes file
	Seconds float64         `json:"seconds"`        // the run has worked, in all
}

// Kind is unit_finished.
func (UnitFinished) Kind() string { return "unit_finished" }

func (c UnitFinished) normal() (Change, error) {
	cleanAll(&c.Unit, &c.Agent, &c.Note)
	var err error
	if c.Result, err = compact("result", c.Result); err != nil {
		return nil, err
	}
	if err := checkSpent("unit", Usage{}, 0, c.Seconds); err != nil {
		return nil, err
	}
	return c, checkUnit(c.Unit)
}

func (c UnitFinished) fold(b *body, t recordTime) error {
	return b.enter(c, t, func(w *Workflow) error {
		w.Last, w.Seconds = c.Unit, c.Seconds
		w.Units++
		if c.Agent != "" {
			w.Steps++
		}
		return nil
	})
}

// UnitFailed says that a unit came to nothing. It may be taken up again.
type UnitFailed struct {
	Unit    string  `json:"unit"`
	Agent   string  `json:"agent"`
	Error   Failure `json:"error"`
	Seconds float64 `json:"seconds"`
}

// Kind is unit_failed.
func (UnitFailed) Kind() string { return "unit_failed" }

func (c UnitFailed) normal() (Change, error) {
	cleanAll(&c.Unit, &c.Agent, &c.Error.Kind, &c.Error.Message)
	if err := checkSpent("unit", Usage{}, 0, c.Seconds); err != nil {
		return nil, err
	}
	return c, checkUnit(c.Unit)
}

func (c UnitFailed) fold(b *body, t recordTime) error {
	return b.enter(c, t, func(w *Workflow) error {
		w.Seconds = c.Seconds
		return nil
	})
}

// QuestionPut asks a person. Putting it again in the same place takes the
// place of the first.
type QuestionPut struct {
	Question Question `json:"question"`
	Seconds  float64  `json:"seconds"`
}

// Kind is question_put.
func (QuestionPut) Kind() string { return "question_put" }

func (c QuestionPut) normal() (Change, error) {
	var err error
	if c.Question, err = c.Question.normal(); err != nil {
		return nil, err
	}
	return c, checkSpent("question", Usage{}, 0, c.Seconds)
}

func (c QuestionPut) fold(b *body, t recordTime) error {
	return b.enter(c, t, func(w *Workflow) error {
		w.Seconds = c.Seconds
		for i, q := range w.Questions {
			if q.Unit == c.Question.Unit {
				w.Questions[i] = c.Question
				return nil
			}
		}
		w.Questions = append(w.Questions, c.Question)
		return nil
	})
}

// QuestionAnswered is a person's answer, or what stands for it once the time
// is over.
type QuestionAnswered struct {
	Unit     string `json:"unit"`
	Response string `json:"response"`
	TimedOut bool   `json:"timedOut,omitempty"`
}

// Kind is question_answered.
func (QuestionAnswered) Kind() string { return "question_answered" }

func (c QuestionAnswered) normal() (Change, error) {
	cleanAll(&c.Unit, &c.Response)
	return c, checkUnit(c.Unit)
}

func (c QuestionAnswered) fold(b *body, t recordTime) error {
	return b.enter(c, t, func(w *Workflow) error {
		i := slices.IndexFunc(w.Questions, func(q Question) bool { return q.Unit == c.Unit })
		if i < 0 {
			return invalid("unit", "no question waits at %s", quoted(c.Unit))
		}
		w.Questions = slices.Delete(w.Questions, i, i+1)
		w.Last = c.Unit
		w.Units++
		return nil
	})
}

// ArtifactWritten records a file that a run has left.
type ArtifactWritten struct {
	Path   string `json:"path"` // absolute
	SHA256 string `json:"sha256"`
}

// Kind is artifact_written.
func (ArtifactWritten) Kind() string { return "artifact_written" }

func (c ArtifactWritten) normal() (Change, error) {
	cleanAll(&c.Path, &c.SHA256)
	if c.Path == "" {
		return nil, invalid("path", "is missing")
	}
	return c, nil
}

func (c ArtifactWritten) fold(b *body, t recordTime) error {
	return b.enter(c, t, func(w *Workflow) error {
		if !slices.Contains(w.Artifacts, c.Path) {
			w.Artifacts = append(w.Artifacts, c.Path)
		}
		return nil
	})
}

// BudgetWarned says that the run was told that a budget is nearly used up.
type BudgetWarned struct {
	Budget string  `json:"budget"`
	Used   float64 `json:"used"`
	Limit  float64 `json:"limit"`
}

// Kind is budget_warned.
func (BudgetWarned) Kind() string { return "budget_warned" }

func (c BudgetWarned) normal() (Change, error) {
	cleanAll(&c.Budget)
	if err := checkSpent("budget", Usage{}, 0, c.Used); err != nil {
		return nil, err
	}
	return c, checkSpent("budget", Usage{}, 0, c.Limit)
}

func (c BudgetWarned) fold(b *body, t recordTime) error {
	return b.enter(c, t, func(w *Workflow) error {
		w.Warned = true
		return nil
	})
}

// UnitAdvanced is a change of the execution that a unit is: an answer of its
// model, a tool that started or finished, the end of a step. The head keeps of
// it what was used.
type UnitAdvanced struct {
	Unit      string
	Agent     string
	Estimated bool // what the answer used was counted here, not told by the provider
	Change    Change
}

type wireAdvance struct {
	Unit      string          `json:"unit"`
	Agent     string          `json:"agent"`
	Estimated bool            `json:"estimated,omitempty"`
	Kind      string          `json:"kind"`
	Data      json.RawMessage `json:"data"`
}

// Kind is unit_advanced.
func (UnitAdvanced) Kind() string { return "unit_advanced" }

// MarshalJSON writes the change with its kind.
func (c UnitAdvanced) MarshalJSON() ([]byte, error) {
	data, err := encode(c.Change)
	if err != nil {
		return nil, err
	}
	return encode(wireAdvance{c.Unit, c.Agent, c.Estimated, c.Change.Kind(), data})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *UnitAdvanced) UnmarshalJSON(data []byte) error {
	var w wireAdvance
	if err := decodeStrict(c.Kind(), data, &w); err != nil {
		return err
	}
	if !slices.Contains(unitKinds, w.Kind) {
		return invalid("change", "%s is no change of a unit's execution", quoted(w.Kind))
	}
	change, err := decodeChange(w.Kind, bytes.TrimSpace(w.Data))
	if err != nil {
		return err
	}
	*c = UnitAdvanced{w.Unit, w.Agent, w.Estimated, change}
	return nil
}

// unitKinds are the changes of a unit's execution.
var unitKinds = []string{
	InferenceAnswered{}.Kind(), ToolStarted{}.Kind(), ToolFinished{}.Kind(), StepFinished{}.Kind(),
}

func (c UnitAdvanced) normal() (Change, error) {
	if c.Change == nil {
		return nil, invalid("change", "is missing")
	}
	if !slices.Contains(unitKinds, c.Change.Kind()) {
		return nil, invalid("change", "%s is no change of a unit's execution", c.Change.Kind())
	}
	cleanAll(&c.Unit, &c.Agent)
	var err error
	if c.Change, err = c.Change.normal(); err != nil {
		return nil, err
	}
	return c, checkUnit(c.Unit)
}

func (c UnitAdvanced) fold(b *body, t recordTime) error {
	return b.enter(c, t, func(w *Workflow) error {
		switch change := c.Change.(type) {
		case InferenceAnswered:
			b.st.InferenceCount++
			b.st.Usage, b.st.Cost = b.st.Usage.Plus(change.Usage), plus(b.st.Cost, change.Cost)
			w.spend(c, change.Usage, 1)
		case ToolFinished:
			if s := change.Spent; s != nil {
				b.st.Usage, b.st.Cost = b.st.Usage.Plus(s.Usage), plus(b.st.Cost, s.Cost)
				w.spend(c, s.Usage, s.Steps)
			}
		}
		return nil
	})
}

func (w *Workflow) spend(c UnitAdvanced, u Usage, calls int) {
	use := w.Agents[c.Agent]
	total := Usage{Input: use.Input, Output: use.Output}.Plus(Usage{Input: u.Input, Output: u.Output})
	use.Input, use.Output = total.Input, total.Output
	use.Calls += calls
	use.Estimated = use.Estimated || c.Estimated
	w.Agents[c.Agent] = use
}
