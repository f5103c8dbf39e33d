package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// stage is where a run does its work: under the session's lease, with models
// and tools. Everything it does is in the log before it is in the book.
type stage struct {
	host Host
	hold *holdfast.Hold
	box  Toolbox

	began  time.Time
	before float64 // seconds the run had worked before

	budget     sync.Mutex // guards begun, and that one unit at a time looks whether to warn
	begun      int        // agents' units that work now
	compacting sync.Mutex // one summary at a time: who waits for it may need none

	calls int // units of agents that are done, under the run's lock

	telling sync.Mutex // guards told
	told    map[string]bool

	mu sync.Mutex // one writer: log and book are in the same order
}

// setStage is where a run goes on that was read a moment ago.
func setStage(host Host, hold *holdfast.Hold, b *book, before float64) *stage {
	st := &stage{host: host, hold: hold, began: host.Now(), before: before, told: map[string]bool{}}
	for key, e := range b.units {
		st.told[key] = e.done
		if e.done && e.agent != "" && !isSummary(key) {
			st.calls++
		}
	}
	for key, q := range b.questions {
		st.told[key] = q.answer != nil
		for _, kind := range []EventType{BranchStart, RoutingDecision} { // what comes before the question
			st.told[string(kind)+" "+key] = true
		}
	}
	return st
}

// tellFirst reports something about a unit once, and not at all where the unit
// was done before the stage was set.
func (r *run) tellFirst(key string, kind EventType, data map[string]any) {
	if r.stage != nil && r.stage.isNews(key, kind) {
		r.stage.emit(r, kind, data)
	}
}

func (st *stage) isNews(key string, kind EventType) bool {
	st.telling.Lock()
	defer st.telling.Unlock()
	once := string(kind) + " " + key
	if st.told[key] || st.told[once] {
		return false
	}
	st.told[once] = true
	return true
}

// seconds is how long the run has worked in all.
func (st *stage) seconds() float64 { return st.before + st.host.Now().Sub(st.began).Seconds() }

// append makes changes durable in the open tail.
func (st *stage) append(ctx context.Context, r *run, what string, changes ...session.Change) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	changes, err := st.hold.Masked(changes...) // the book says what the log says
	if err != nil {
		return &CommitError{Unit: what, Err: err}
	}
	// What was paid for is written also when the run is being stopped.
	s, err := st.hold.Append(context.WithoutCancel(ctx), changes...)
	if err != nil {
		return &CommitError{Unit: what, Err: err}
	}
	st.note(r, changes, s)
	return nil
}

// commit seals everything so far, and these changes, into one version. The row
// is what listings show from then on.
func (st *stage) commit(ctx context.Context, r *run, what, action string, status Status, failure string, changes ...session.Change) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	row := st.hold.Session().Info().Workflow
	next := session.WorkflowRow{Name: r.spec.Name, SpecHash: r.snap.SHA256, Pattern: string(r.spec.Pattern.Type), Status: string(status), Error: failure}
	if row == nil || *row != next {
		changes = append(changes, session.WorkflowRowChanged{Workflow: next})
	}
	changes, err := st.hold.Masked(changes...)
	if err != nil {
		return &CommitError{Unit: what, Err: err}
	}
	if _, err := st.hold.Execute(context.WithoutCancel(ctx), seal{action, changes, st.host.Now}); err != nil {
		return &CommitError{Unit: what, Err: err}
	}
	st.note(r, changes, st.hold.Session())
	return nil
}

// note takes written changes into the book and shows them to the host.
func (st *stage) note(r *run, changes []session.Change, s session.Session) {
	records := r.note(changes, s)
	for _, record := range records {
		st.host.OnUpdate(holdfast.Update{Record: &session.LogEntry{Record: record}})
	}
}

// note takes changes into the book, the last that were written to s. Changes
// that are written together are a microsecond apart.
func (r *run) note(changes []session.Change, s session.Session) []session.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	records := make([]session.Record, len(changes))
	for i, c := range changes {
		before := i - len(changes) + 1
		records[i] = session.Record{Seq: s.Seq() + int64(before), At: s.ChangedAt().Add(time.Duration(before) * time.Microsecond), Change: c}
		r.book.apply(c, records[i].At)
	}
	return records
}

// seal is the action by which a run makes a version.
type seal struct {
	name    string
	changes []session.Change
	now     func() time.Time
}

func (s seal) Name() string { return s.name }

// Permits says that a suspended session can be woken by it.
func (s seal) Permits(status session.Status) bool {
	return status == session.Active || status == session.Suspended
}

func (s seal) Execute(_ context.Context, v session.Session) (session.Session, error) {
	return v.With(s.now(), s.changes...)
}

// work does a unit that is not in the book, or only its beginning.
func (st *stage) work(ctx context.Context, r *run, u unit) (*entry, error) {
	if err := st.mayBegin(ctx, r); err != nil {
		return nil, err
	}
	defer st.end()
	e, err := st.begin(ctx, r, &u)
	if err != nil {
		return nil, st.gaveUp(ctx, r, u, err)
	}
	st.tell(r, orEvent(u.event, StepStart), u, nil)
	input, err := st.converse(ctx, r, u, e)
	if err != nil {
		return nil, st.gaveUp(ctx, r, u, err)
	}
	return e, st.finish(ctx, r, u, e, input)
}

// mayBegin keeps a unit from beginning when another has failed, the run is
// being stopped or a budget is used up. Who may begin calls end.
func (st *stage) mayBegin(ctx context.Context, r *run) error {
	if err := st.stopped(ctx, r); err != nil {
		return err
	}
	st.budget.Lock()
	defer st.budget.Unlock()
	if over := st.overBudget(r, true); over != nil {
		return &RunError{Kind: KindBudget, Err: over}
	}
	st.begun++
	return nil
}

func (st *stage) end() {
	st.budget.Lock()
	defer st.budget.Unlock()
	st.begun--
}

// stopped is why nothing new begins any more.
func (st *stage) stopped(ctx context.Context, r *run) error {
	if r.failed() != nil {
		return errStopped
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// begin writes down what the unit is asked. One that was begun before keeps
// the input it was given.
func (st *stage) begin(ctx context.Context, r *run, u *unit) (*entry, error) {
	r.mu.Lock()
	e := r.book.unit(u.key)
	_, asked := e.input()
	system, known := r.book.systems[conversation(u.agent, u.lane)]
	r.mu.Unlock()
	if asked {
		return e, nil
	}
	if err := st.compact(ctx, r, *u); err != nil {
		return nil, err
	}
	input, err := u.input()
	if err != nil {
		return nil, &RunError{Kind: KindTemplate, Err: err}
	}
	started := session.UnitStarted{Unit: u.key, Lane: u.lane, Agent: u.agent}
	if !known {
		system = st.systemPrompt(r, u.agent)
		started.System = &system
	}
	return e, st.append(ctx, r, u.key, started, session.MessageAdded{Message: session.Message{
		ID: uuid.NewString(), Role: session.RoleUser, Unit: u.key, Lane: u.lane, ExecutionID: u.key, Content: session.Text(input),
	}})
}

// finish commits the unit with everything that belongs to it.
func (st *stage) finish(ctx context.Context, r *run, u unit, e *entry, input string) error {
	r.mu.Lock()
	text := e.response()
	r.mu.Unlock()
	res := result{Tokens: words(input, text)}
	if u.read != nil {
		value, err := u.read(text)
		if err == nil {
			res.Value = value
		}
	}
	raw, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("write the result of %s: %w", u.key, err)
	}
	r.mu.Lock()
	note := st.noteOf(r, u, e, input, text)
	r.mu.Unlock()
	err = st.commit(ctx, r, u.key, "workflow.unit", StatusRunning, "",
		session.UnitFinished{Unit: u.key, Agent: u.agent, Result: raw, Note: note, Seconds: st.seconds()})
	if err != nil {
		return err
	}
	st.addNote(r, note)
	st.tell(r, orEvent(u.complete, StepComplete), u, map[string]any{"response": text, "tokens_estimated": res.Tokens})
	return st.afterUnit(ctx, r)
}

// gaveUp names the unit in its failure and writes that it failed. The end of
// the run and a store that cannot be written are no failures of the unit.
func (st *stage) gaveUp(ctx context.Context, r *run, u unit, err error) error {
	var stored *CommitError
	if errors.As(err, &stored) || errors.Is(err, session.ErrInterrupted) || ctx.Err() != nil {
		return err
	}
	failed := &RunError{Kind: patternKinds[r.spec.Pattern.Type], Unit: u.key, Err: err}
	var known *RunError
	if errors.As(err, &known) {
		failed = &RunError{Kind: known.Kind, Unit: u.key, Err: known.Err}
	}
	if err := st.append(ctx, r, u.key, session.UnitFailed{
		Unit: u.key, Agent: u.agent, Error: session.Failure{Kind: string(failed.Kind), Message: failed.Err.Error()}, Seconds: st.seconds(),
	}); err != nil {
		return err
	}
	return failed
}

// put asks a person.
func (st *stage) put(ctx context.Context, r *run, questions ...question) error {
	if err := st.stopped(ctx, r); err != nil {
		return err
	}
	var changes []session.Change
	for _, q := range questions {
		prompt, shown := r.shown(q)
		asked := session.Question{Unit: q.unit, Prompt: prompt, Context: shown, Default: q.ask.Default}
		if q.ask.TimeoutSeconds > 0 {
			asked.TimeoutAt = ptr(st.host.Now().Add(time.Duration(q.ask.TimeoutSeconds) * time.Second))
		}
		changes = append(changes, session.QuestionPut{Question: asked, Seconds: st.seconds()})
	}
	if err := st.commit(ctx, r, questions[0].unit, "workflow.ask", StatusPaused, "", changes...); err != nil {
		return err
	}
	for _, q := range questions {
		state, _, _ := r.asked(q)
		st.emit(r, HITLPause, map[string]any{"unit": q.unit, "prompt": state.Prompt, "context_display": state.ContextDisplay})
	}
	return nil
}

// answer commits a person's answer, before anything is made of it.
func (st *stage) answer(ctx context.Context, r *run, unit, text string, timedOut bool) error {
	err := st.commit(ctx, r, unit, "workflow.answer", StatusRunning, "", session.QuestionAnswered{Unit: unit, Response: text, TimedOut: timedOut})
	if err == nil {
		st.emit(r, HITLAnswer, map[string]any{"unit": unit, "response": text, "timed_out": timedOut})
	}
	return err
}

func orEvent(e, otherwise EventType) EventType {
	if e == "" {
		return otherwise
	}
	return e
}

// tell reports a unit.
func (st *stage) tell(r *run, kind EventType, u unit, more map[string]any) {
	data := map[string]any{"unit": u.key, "agent": u.agent}
	for name, v := range u.data {
		data[name] = v
	}
	for name, v := range more {
		data[name] = v
	}
	if more != nil {
		used, cost := st.hold.Session().Usage()
		data["usage"] = map[string]any{"input_tokens": used.Input, "output_tokens": used.Output, "cost": cost}
	}
	st.emit(r, kind, data)
}

func (st *stage) emit(r *run, kind EventType, data map[string]any) {
	if data == nil {
		data = map[string]any{}
	}
	st.host.OnEvent(Event{
		Type: kind, Timestamp: iso8601(st.host.Now()), SessionID: r.id, SpecName: r.spec.Name, Pattern: r.spec.Pattern.Type, Data: data,
	})
}
