package workflow

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// runner does the work of a run: under the session's lease, with models and
// tools. Everything it does is in the log before it is in the index.
type runner struct {
	host  Host
	hold  *holdfast.Hold
	gate  agent.Gate // nil: every call runs
	tools Toolbox    // nil: there are none

	began  time.Time
	before float64 // seconds the run had worked before

	budget     sync.Mutex // guards active, and that one unit at a time checks whether to warn
	active     int        // agents' units that work at present
	compacting sync.Mutex // one summary at a time: who waits for it may need none

	wrote []string // artifacts

	calls int // units of agents that are done; guarded by the run's lock

	reporting sync.Mutex // guards reported
	reported  map[string]bool

	mu sync.Mutex // one writer: log and index are in the same order

	soft  context.Context         // ends when nothing new is to begin: what is in flight ends in order
	drain context.CancelCauseFunc // of soft
}

// newRunner makes the runner of a run that was just read.
func newRunner(host Host, hold *holdfast.Hold, ix *index, before float64) *runner {
	x := &runner{host: host, hold: hold, began: host.Now(), before: before}
	x.soft, x.drain = context.WithCancelCause(context.Background())
	for key, e := range ix.units {
		if e.done && e.agent != "" && !isSummary(key) {
			x.calls++
		}
	}
	x.markReported(ix)
	return x
}

// markReported notes what the log has: it is not reported again.
func (x *runner) markReported(ix *index) {
	x.reported = map[string]bool{}
	for key, e := range ix.units {
		x.reported[key] = e.done
	}
	for key, q := range ix.questions {
		x.reported[key] = q.answer != nil
		for _, kind := range []EventType{BranchStart, RoutingDecision} { // what comes before the question
			x.reported[string(kind)+" "+key] = true
		}
	}
}

// work does a unit that is not finished, from its start or from where its log
// ends. It returns errWaiting when calls of the unit wait for responses.
func (x *runner) work(ctx context.Context, r *run, u unit) (*entry, error) {
	if waits, err := x.waits(ctx, u); err != nil || waits {
		return nil, cmp.Or(err, errWaiting)
	}
	if err := x.mayBegin(ctx, r); err != nil {
		return nil, err
	}
	defer x.end()
	e, err := x.begin(ctx, r, &u)
	if err != nil {
		return nil, x.recordFailure(ctx, r, u, err)
	}
	x.emitUnit(r, cmp.Or(u.event, StepStart), u, nil)
	input, err := x.runLoop(ctx, r, u, e)
	switch {
	case errors.Is(err, errWaiting):
		return nil, err
	case err != nil:
		return nil, x.recordFailure(ctx, r, u, err)
	}
	return e, x.finish(ctx, r, u, e, input)
}

// mayBegin keeps a unit from beginning when another has failed, the run is
// being stopped or a budget is used up. Who may begin calls end.
func (x *runner) mayBegin(ctx context.Context, r *run) error {
	if err := x.stopped(ctx, r); err != nil {
		return err
	}
	x.budget.Lock()
	defer x.budget.Unlock()
	if over := x.overBudget(r, true); over != nil {
		return &RunError{Kind: KindBudget, Err: over}
	}
	x.active++
	return nil
}

func (x *runner) end() {
	x.budget.Lock()
	defer x.budget.Unlock()
	x.active--
}

// stopped returns why nothing new begins any more.
func (x *runner) stopped(ctx context.Context, r *run) error {
	if r.failed() != nil {
		return errStopped
	}
	return x.stopCause(ctx)
}

// stopCause returns why somebody wants the run to stop; nil: nobody does.
func (x *runner) stopCause(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-x.host.Stop:
		x.drain(errAskedToStop)
	default:
	}
	return context.Cause(x.soft) //nolint:contextcheck // the stop of the whole run
}

// begin records what the unit is asked. One that was begun before keeps the
// input it was given.
func (x *runner) begin(ctx context.Context, r *run, u *unit) (*entry, error) {
	e, asked := r.begun(u.key)
	if asked {
		return e, nil
	}
	if err := x.compact(ctx, r, *u); err != nil {
		return nil, err
	}
	input, err := u.input()
	if err != nil {
		return nil, &RunError{Kind: KindTemplate, Err: err}
	}
	started := session.UnitStarted{Unit: u.key, Lane: u.lane, Agent: u.agent}
	if _, known := r.system(*u); !known {
		started.System = ptr(x.systemPrompt(r, u.agent))
	}
	return e, x.append(ctx, r, u.key, started, u.message(input))
}

// message returns what an agent is asked.
func (u unit) message(input string) session.Change {
	return session.MessageAdded{Message: session.Message{
		ID: uuid.NewString(), Role: session.RoleUser, Unit: u.key, Lane: u.lane, ExecutionID: u.key, Content: session.Text(input),
	}}
}

// finish commits the unit with everything that belongs to it.
func (x *runner) finish(ctx context.Context, r *run, u unit, e *entry, input string) error {
	r.mu.Lock()
	text := e.response()
	note := x.noteOf(r, u, e, input, text)
	r.mu.Unlock()
	res := result{Tokens: countWords(input, text)}
	if u.read != nil {
		if value, err := u.read(text); err == nil {
			res.Value = value
		}
	}
	err := x.commit(ctx, r, u.key, "workflow.unit", StatusRunning, "",
		session.UnitFinished{Unit: u.key, Agent: u.agent, Result: res.json(), Note: note, Seconds: x.seconds()})
	if err != nil {
		return err
	}
	x.addNote(r, note)
	x.emitUnit(r, cmp.Or(u.complete, StepComplete), u, func(d *UnitData) {
		used, cost := x.hold.Session().Usage()
		d.Response, d.Tokens, d.Usage = &text, &res.Tokens, &UsageData{used.Input, used.Output, cost}
	})
	return x.afterUnit(ctx, r)
}

// recordFailure names the unit in its failure and records that it failed. The
// end of the run and a store that cannot be written are no failures of the unit.
func (x *runner) recordFailure(ctx context.Context, r *run, u unit, err error) error {
	var stored *CommitError
	if errors.As(err, &stored) || errors.Is(err, session.ErrInterrupted) || ctx.Err() != nil || errors.Is(err, context.Cause(x.soft)) { //nolint:contextcheck // the stop of the whole run
		return err
	}
	failed := &RunError{Kind: patternKinds[r.spec.Pattern.Type], Unit: u.key, Err: err}
	var known *RunError
	if errors.As(err, &known) {
		failed = &RunError{Kind: known.Kind, Unit: u.key, Err: known.Err}
	}
	if err := x.append(ctx, r, u.key, session.UnitFailed{
		Unit: u.key, Agent: u.agent, Error: session.Failure{Kind: string(failed.Kind), Message: failed.Err.Error()}, Seconds: x.seconds(),
	}); err != nil {
		return err
	}
	return failed
}

// ask commits questions of the spec, all in one version.
func (x *runner) ask(ctx context.Context, r *run, prompts ...prompt) error {
	if err := x.stopped(ctx, r); err != nil {
		return err
	}
	var changes []session.Change
	for _, p := range prompts {
		call := r.call(p)
		call.ExpiresAt = p.expiry(x.host.Now())
		changes = append(changes, session.CallPending{Call: call, Seconds: x.seconds()})
	}
	if err := x.commit(ctx, r, prompts[0].unit, "workflow.ask", StatusPaused, "", changes...); err != nil {
		return err
	}
	for _, p := range prompts {
		state, _, _ := r.find(p)
		x.emit(r, HITLPause, QuestionData{Unit: p.unit, Prompt: state.Prompt, Context: state.ContextDisplay})
	}
	return nil
}

// answer commits the answer to a question of the spec, before anything relies
// on it, and the inbox item that brought it.
func (x *runner) answer(ctx context.Context, r *run, unit string, response session.Response, taken ...session.Change) error {
	taken = append(taken, session.CallResponded{Unit: unit, Response: response})
	err := x.commit(ctx, r, unit, "workflow.answer", StatusRunning, "", taken...)
	if err == nil {
		x.emit(r, HITLAnswer, AnswerData{Unit: unit, Response: response.Text, TimedOut: response.Action == session.RespondExpire})
	}
	return err
}

// commit seals everything so far, and these changes, into one version. The row
// is what listings show from then on.
func (x *runner) commit(ctx context.Context, r *run, what, action string, status Status, failure string, changes ...session.Change) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := r.row(status, failure, x.hold.Session(), changes)
	if row := x.hold.Session().Info().Workflow; row == nil || *row != next {
		changes = append(changes, session.WorkflowRowChanged{Workflow: next})
	}
	return x.write(ctx, r, what, changes, func(ctx context.Context, changes []session.Change) error {
		_, err := x.hold.Execute(ctx, seal{action, changes, x.host.Now})
		return err
	})
}

// append makes changes durable in the open tail.
func (x *runner) append(ctx context.Context, r *run, what string, changes ...session.Change) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write(ctx, r, what, changes, func(ctx context.Context, changes []session.Change) error {
		_, err := x.hold.Append(ctx, changes...)
		return err
	})
}

// write makes changes durable, adds them to the index and shows them to the
// host. What was paid for is written also when the run is being stopped. The
// caller holds the lock.
func (x *runner) write(ctx context.Context, r *run, what string, changes []session.Change, do func(context.Context, []session.Change) error) error {
	changes, err := x.hold.Masked(changes...) // the index says what the log says
	if err == nil {
		finishing, done := store.Finish(ctx)
		defer done()
		err = do(finishing, changes)
	}
	if err != nil {
		return &CommitError{Unit: what, Err: err}
	}
	for _, record := range r.apply(changes, x.hold.Session()) {
		x.host.OnUpdate(holdfast.Update{Record: &session.LogEntry{Record: record}})
	}
	return nil
}

// apply adds changes to the index, the last that were written to s. Changes
// that are written together are a microsecond apart.
func (r *run) apply(changes []session.Change, s session.Session) []session.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	records := make([]session.Record, len(changes))
	for i, c := range changes {
		before := i - len(changes) + 1
		records[i] = session.Record{Seq: s.Seq() + int64(before), At: s.ChangedAt().Add(time.Duration(before) * time.Microsecond), Change: c}
		r.index.apply(c, records[i].At)
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

// Permits says that it can make a suspended session active again.
func (s seal) Permits(status session.Status) bool {
	return status == session.Active || status == session.Suspended
}

func (s seal) Execute(_ context.Context, v session.Session) (session.Session, error) {
	return v.With(s.now(), s.changes...)
}

// seconds returns how long the run has worked in all.
func (x *runner) seconds() float64 { return x.before + x.host.Now().Sub(x.began).Seconds() }

func (x *runner) emitUnit(r *run, kind EventType, u unit, more func(*UnitData)) {
	data := u.data
	data.Unit, data.Agent = u.key, u.agent
	if more != nil {
		more(&data)
	}
	x.emit(r, kind, data)
}

// emitOnce reports something about a unit once, and not at all where the unit
// was done before the runner began.
func (r *run) emitOnce(key string, kind EventType, data EventData) {
	if r.runner != nil && r.runner.isNew(key, kind) {
		r.runner.emit(r, kind, data)
	}
}

func (x *runner) isNew(key string, kind EventType) bool {
	x.reporting.Lock()
	defer x.reporting.Unlock()
	once := string(kind) + " " + key
	if x.reported[key] || x.reported[once] {
		return false
	}
	x.reported[once] = true
	return true
}

func (x *runner) emit(r *run, kind EventType, data EventData) {
	x.host.OnEvent(Event{
		Type: kind, Timestamp: iso8601(x.host.Now()), SessionID: r.id, SpecName: r.spec.Name, Pattern: r.spec.Pattern.Type, Data: data,
	})
}

// row returns what listings show of the run once these changes are saved. The
// cost is what s has paid: no unit finishes with an answer that is not in the log.
func (r *run) row(status Status, failure string, s session.Session, changes []session.Change) session.WorkflowRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := r.index.done
	for _, c := range changes {
		switch c := c.(type) {
		case session.UnitFinished:
			if e := (&entry{key: c.Unit, agent: c.Agent}); e.counts() {
				done++
			}
		case session.UnitsReset:
			for _, unit := range c.Units {
				if e := r.index.units[unit]; e != nil && e.done && e.counts() {
					done--
				}
			}
		}
	}
	if r.units == 0 {
		r.units = CountUnits(r.spec.Pattern)
	}
	_, cost := s.Usage()
	return session.WorkflowRow{
		Name: r.spec.Name, SpecHash: r.snap.SHA256, Pattern: string(r.spec.Pattern.Type), Status: string(status), Error: failure,
		UnitsDone: done, Units: r.units, Cost: cost,
	}
}

// CountUnits returns how many units a pattern asks agents for, 0 where that
// depends on their answers.
func CountUnits(p spec.Pattern) int {
	n := 0
	count := func(steps []spec.Step) {
		for _, s := range steps {
			if s.Ask == nil {
				n++
			}
		}
	}
	switch {
	case p.Chain != nil:
		count(p.Chain.Steps)
	case p.Workflow != nil:
		for _, t := range p.Workflow.Tasks {
			if t.Ask == nil {
				n++
			}
		}
	case p.Parallel != nil:
		for _, b := range p.Parallel.Branches {
			count(b.Steps)
		}
		if p.Parallel.Reduce != nil {
			n++
		}
	}
	return n
}
