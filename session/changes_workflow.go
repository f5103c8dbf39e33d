package session

import (
	"bytes"
	"encoding/json"
	"slices"
)

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
	Extra     json.RawMessage `json:"extra,omitempty"` // keys that a run brought along from elsewhere
}

// Kind is workflow_begun.
func (WorkflowBegun) Kind() string { return "workflow_begun" }

func (c WorkflowBegun) normal() (Change, error) {
	c.Variables = cleanVariables(c.Variables)
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

func cleanVariables(list []RunVariable) []RunVariable {
	list = cloneList(list)
	for i := range list {
		cleanAll(&list[i].Name, &list[i].Value)
	}
	return list
}

func (c WorkflowBegun) fold(b *body, t recordTime) error {
	if b.st.Workflow != nil {
		return invalid("workflow", "the run has begun already")
	}
	return b.addToLedger(c, t, func(w *Workflow) error {
		w.SpecSeq = t.seq
		return nil
	})
}

// WorkflowSpecChanged puts another spec in force, or other variables.
type WorkflowSpecChanged struct {
	Spec      json.RawMessage `json:"spec"`
	Runtime   json.RawMessage `json:"runtime"`
	Variables []RunVariable   `json:"variables,omitempty"` // empty: they stay as they are
}

// Kind is workflow_spec_changed.
func (WorkflowSpecChanged) Kind() string { return "workflow_spec_changed" }

func (c WorkflowSpecChanged) normal() (Change, error) {
	c.Variables = cleanVariables(c.Variables)
	var err error
	if c.Spec, err = compact("spec", c.Spec); err != nil {
		return nil, err
	}
	c.Runtime, err = compact("runtime", c.Runtime)
	return c, err
}

func (c WorkflowSpecChanged) fold(b *body, t recordTime) error {
	return b.addToLedger(c, t, func(w *Workflow) error {
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
	b.dropPending(func(p PendingCall) bool { return p.Unit == c.Unit && !p.BySpec() }) // of an attempt that is given up
	return b.addToLedger(c, t, func(*Workflow) error { return nil })
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
	return b.addToLedger(c, t, func(w *Workflow) error {
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
	return b.addToLedger(c, t, func(w *Workflow) error {
		w.Seconds = c.Seconds
		return nil
	})
}

// UnitsReset takes back what units have done, and the questions that were asked
// in the place of some: they are done and asked again. What was said stays in
// the log, and what was used stays counted.
type UnitsReset struct {
	Units    []string `json:"units"`
	Finished int      `json:"finished"` // how many of them had been finished or answered
}

// Kind is units_reset.
func (UnitsReset) Kind() string { return "units_reset" }

func (c UnitsReset) normal() (Change, error) {
	c.Units = cleanList(c.Units)
	for _, unit := range c.Units {
		if err := checkUnit(unit); err != nil {
			return nil, err
		}
	}
	if len(c.Units) == 0 || c.Finished < 0 || c.Finished > len(c.Units) {
		return nil, invalid("units", "%d of %d were finished", c.Finished, len(c.Units))
	}
	return c, nil
}

func (c UnitsReset) fold(b *body, t recordTime) error {
	b.dropPending(func(p PendingCall) bool { return slices.Contains(c.Units, p.Unit) })
	return b.addToLedger(c, t, func(w *Workflow) error {
		w.Units = max(0, w.Units-c.Finished)
		return nil
	})
}

// QuestionPut asks a person, in logs that are older than CallPending. Asked
// again in the same place it replaces the first.
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
	err := b.addToLedger(c, t, func(w *Workflow) error {
		w.Seconds = c.Seconds
		return nil
	})
	if err == nil {
		b.addPending(c.Question.Call(), t)
	}
	return err
}

// QuestionAnswered is a person's answer, or what stands for it once the time is
// over, in logs that are older than CallResponded.
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
	asked := func(p PendingCall) bool { return p.BySpec() && p.Unit == c.Unit }
	err := b.addToLedger(c, t, func(w *Workflow) error {
		if !slices.ContainsFunc(b.st.Pending, asked) {
			return invalid("unit", "no question waits at %s", quoted(c.Unit))
		}
		w.answered(c.Unit)
		return nil
	})
	if err == nil {
		b.dropPending(asked)
	}
	return err
}

// answered counts the answer to a question of the spec as a unit.
func (w *Workflow) answered(unit string) {
	w.Last = unit
	w.Units++
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
	return b.addToLedger(c, t, func(w *Workflow) error {
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
	return b.addToLedger(c, t, func(w *Workflow) error {
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
	if err := DecodeStrict(c.Kind(), data, &w); err != nil {
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
	return b.addToLedger(c, t, func(w *Workflow) error {
		switch change := c.Change.(type) {
		case InferenceAnswered:
			b.st.InferenceCount++
			b.st.Usage, b.st.Cost = b.st.Usage.Plus(change.Usage), plus(b.st.Cost, change.Cost)
			w.spend(c, change.Usage, 1)
		case ToolFinished:
			b.dropPending(func(p PendingCall) bool { return p.Unit == c.Unit && p.CallID == change.CallID })
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
