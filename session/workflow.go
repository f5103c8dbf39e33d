package session

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// Workflow is what the head of a workflow run keeps: nothing in it grows with
// the units that are done. Their results stand in the ledger.
type Workflow struct {
	SpecSeq   int64               `json:"specSeq"` // the change that holds the spec in force
	Last      string              `json:"last"`    // the unit that finished last
	Units     int                 `json:"units"`   // finished
	Steps     int                 `json:"steps"`   // finished units of agents
	Agents    map[string]AgentUse `json:"agents"`
	Artifacts []string            `json:"artifacts"`
	Seconds   float64             `json:"seconds"` // worked, pauses left out
	Warned    bool                `json:"warned"`  // a budget was nearly used up
	Entries   int                 `json:"entries"` // length of the ledger

	questions []Question // of a head that is older than pending calls, until it is read
}

// UnmarshalJSON also reads heads that hold their open questions themselves.
func (w *Workflow) UnmarshalJSON(data []byte) error {
	type fields Workflow
	var read struct {
		fields
		Questions []Question `json:"questions"`
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	*w = Workflow(read.fields)
	w.questions = read.Questions
	return checkKeys("workflow", data, reflect.TypeOf(read))
}

// AgentUse is what the models of one agent have used.
type AgentUse struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Calls     int   `json:"calls"`
	Estimated bool  `json:"estimated"` // a provider told nothing and words were counted
}

// Question is something a run asked a person, in logs that are older than
// pending calls. Unit is the place where it stands.
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

// Call returns the question as a pending call.
func (q Question) Call() PendingCall {
	return PendingCall{
		ID: QuestionID(q.Unit), Kind: PendingQuestion, Unit: q.Unit, Prompt: q.Prompt, Context: q.Context, Default: q.Default, ExpiresAt: q.TimeoutAt,
	}
}

// maxQuestionID leaves room for what an inbox puts before the id.
const maxQuestionID = 200

// QuestionID returns the id of the question that a spec asks at a unit: the
// unit's key, or its hash where an inbox would not take the key.
func QuestionID(unit string) string {
	if len(unit) <= maxQuestionID && strings.IndexFunc(unit, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return unit
	}
	sum := sha256.Sum256([]byte(unit))
	return "question-" + hex.EncodeToString(sum[:])
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
	c.Artifacts = cloneList(w.Artifacts)
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

// setLedger sets the ledger of a body under construction.
func (b *body) setLedger(records []Record) error {
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
	switch change := c.(type) {
	case CallPending:
		return change.Call.Unit != ""
	case CallResponded:
		return change.Unit != ""
	case WorkflowBegun, WorkflowSpecChanged, UnitStarted, UnitAdvanced, UnitFinished, UnitFailed, UnitsReset, QuestionPut, QuestionAnswered,
		ArtifactWritten, BudgetWarned:
		return true
	}
	return false
}

// addToLedger adds a change to the ledger of a run and alters its head.
func (b *body) addToLedger(c Change, t recordTime, alter func(w *Workflow) error) error {
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
