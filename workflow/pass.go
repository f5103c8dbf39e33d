package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// pass is one going on with a run, under its lease.
type pass struct {
	host   Host
	out    output
	ask    func(ctx context.Context, q HITLState) (string, error)
	trace  bool
	fresh  bool // it was created a moment ago
	answer *string
	target string
	strict bool
	accept bool
	noWait bool
	inbox  func(context.Context) ([]store.Item, error)

	r       *run
	st      *stage
	changed []string // how the spec's files differ from the snapshot
	result  Result
}

// drive takes the lease and makes a pass.
func drive(ctx context.Context, rt *holdfast.Runtime, id string, p *pass) (Result, error) {
	p.result = Result{SessionID: id, Resumed: !p.fresh}
	info, err := rt.Info(ctx, id)
	if err != nil {
		return p.result, err
	}
	if info.Kind != session.KindWorkflow {
		return p.result, &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%q is a %s, no workflow run", id, info.Kind)}
	}
	p.inbox = func(ctx context.Context) ([]store.Item, error) { return rt.Inbox(ctx, id) }
	err = hold(ctx, rt, id, p.noWait, func(ctx context.Context, h *holdfast.Hold) error {
		err := p.run(ctx, h)
		if lost := context.Cause(ctx); err != nil && errors.Is(lost, session.ErrFenced) {
			return lost // whatever it looked like from inside
		}
		return err
	})
	return p.result, err
}

// hold takes the lease. A holder that renews it is alive: BusyError. One that
// is silent is waited for, until its lease ends.
func hold(ctx context.Context, rt *holdfast.Runtime, id string, noWait bool, fn func(context.Context, *holdfast.Hold) error) error {
	var first *session.BusyError
	for {
		err := rt.Hold(ctx, id, fn, holdfast.OnBusy(holdfast.Reject))
		var busy *session.BusyError
		if !errors.As(err, &busy) || busy.ID != id {
			return err
		}
		if noWait || first != nil && (busy.Until.After(first.Until) || busy.Holder != first.Holder) {
			return busy
		}
		first = busy
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run makes the pass under the lease.
func (p *pass) run(ctx context.Context, h *holdfast.Hold) (err error) {
	if err := p.open(ctx, h); err != nil {
		return err
	}
	if p.host.Tools != nil {
		if p.st.box, err = p.host.Tools(ctx, p.r.spec, p.r.snap); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.st.box.Close()) }()
	}
	p.st.completeNotes(p.r)
	ctx, stop := p.suspendable(ctx, h)
	defer stop()
	p.start()
	for {
		again, err := p.once(ctx)
		if err == nil && again {
			continue
		}
		p.report(ctx, h)
		return err
	}
}

// open reads the run and brings it to where it can go on: the spec in force,
// the answer that was given.
func (p *pass) open(ctx context.Context, h *holdfast.Hold) error {
	s, err := h.Whole(ctx)
	if err != nil {
		return err
	}
	if row := s.Info().Workflow; row != nil && row.Status == string(StatusCompleted) {
		return &session.StatusError{ID: s.ID(), Status: session.Completed, Action: "resume"}
	}
	b, err := bookOf(s)
	if err != nil {
		return err
	}
	if p.r, err = newRun(s.ID(), b); err != nil {
		return err
	}
	p.st = setStage(p.host, h, b, s.Workflow().Seconds)
	p.describe(s)
	if err := p.compare(ctx); err != nil {
		return err
	}
	if issues := spec.Check(p.r.spec, p.host.Env); len(issues) > 0 {
		return &UnsupportedError{File: p.r.spec.Path(), Issues: issues}
	}
	if err := p.wake(ctx, s); err != nil {
		return err
	}
	return p.reply(ctx)
}

// start tells that the run goes on, before anything else is told.
func (p *pass) start() {
	p.r.stage = p.st
	p.r.tellFirst("", WorkflowStart, map[string]any{"resumed": !p.fresh})
}

// describe fills in what is known of the run before anything is done.
func (p *pass) describe(s session.Session) {
	p.result.Name, p.result.Pattern, p.result.Version = p.r.spec.Name, p.r.spec.Pattern.Type, s.Version()
	if row := s.Info().Workflow; row != nil {
		p.result.Status, p.result.Error = Status(row.Status), row.Error
	}
}

// wake makes a suspended session active again.
func (p *pass) wake(ctx context.Context, s session.Session) error {
	changes, err := p.outdated(ctx)
	if err != nil {
		return err
	}
	switch s.Status() {
	case session.Active:
	case session.Suspended:
		changes = append(changes, session.StatusChanged{Status: session.Active})
	default:
		return &session.StatusError{ID: s.ID(), Status: s.Status(), Action: "resume"}
	}
	if len(changes) == 0 {
		return nil
	}
	row := s.Info().Workflow
	return p.st.commit(ctx, p.r, "the resume", "workflow.resume", Status(row.Status), row.Error, changes...)
}

// outdated takes wishes to suspend that came too late for the pass they were
// meant for: whoever resumes a run wants it to go on.
func (p *pass) outdated(ctx context.Context) ([]session.Change, error) {
	items, err := p.inbox(ctx)
	if errors.Is(err, session.ErrUnsupported) {
		return nil, nil
	}
	var taken []session.Change
	for _, item := range items {
		if item.Kind == store.ItemSuspend && !p.fresh {
			taken = append(taken, session.InboxTaken{ItemID: item.ID, ItemKind: string(item.Kind)})
		}
	}
	return taken, err
}

// reply commits the answer that was given, or what stands for one whose time
// is over. An answer that cannot be taken changes nothing.
func (p *pass) reply(ctx context.Context) error {
	open := p.survey(ctx, nil)
	if p.answer == nil {
		for _, q := range open {
			if err := p.expire(ctx, q.Unit); err != nil {
				return err
			}
		}
		return nil
	}
	if len(open) == 0 {
		return &session.InvalidError{Field: "answer", Reason: fmt.Sprintf("run %q waits for none", p.r.id)}
	}
	q := open[0]
	if p.target != "" {
		found := false
		for _, o := range open {
			if o.BranchID != nil && *o.BranchID == p.target {
				q, found = o, true
			}
		}
		if !found {
			return &session.InvalidError{Field: "target", Reason: fmt.Sprintf("branch %q waits for no answer", p.target)}
		}
	}
	return p.take(ctx, q.Unit, *p.answer)
}

// expire answers a question whose time is over.
func (p *pass) expire(ctx context.Context, unit string) error {
	a := p.r.book.questions[unit]
	if a.TimeoutAt == nil || p.host.Now().Before(*a.TimeoutAt) {
		return nil
	}
	text := "timeout_expired"
	if a.Default != nil {
		text = *a.Default
	}
	try := &reply{unit: unit, text: text, expired: true}
	p.survey(ctx, try)
	if try.refused != nil { // nobody has decided, and this decides nothing
		p.host.Warn("the time of %s is over, and it still waits: %v", unit, try.refused)
		return nil
	}
	p.start()
	return p.st.answer(ctx, p.r, unit, text, true)
}

// take tries an answer and commits it.
func (p *pass) take(ctx context.Context, unit, text string) error {
	try := &reply{unit: unit, text: text}
	p.survey(ctx, try)
	if try.refused != nil {
		return try.refused
	}
	p.start()
	return p.st.answer(ctx, p.r, unit, text, false)
}

// survey has the program look at the book, and is the questions that wait, in
// the order of the spec.
func (p *pass) survey(ctx context.Context, try *reply) []HITLState {
	look := p.looking()
	look.reply = try
	_, _, _ = look.replay(ctx) // how far it comes does not matter here
	return look.openQuestions()
}

// looking is a run that only looks at the book of this one.
func (p *pass) looking() *run {
	r := p.r
	return &run{id: r.id, spec: r.spec, snap: r.snap, vars: r.vars, base: r.base, book: r.book, warn: func(string, ...any) {}}
}

// suspended is why a context ended: somebody asked for it.
type suspended struct{ item store.Item }

func (*suspended) Error() string { return "the run was suspended" }

// suspendable is a context that ends when the session is asked to suspend.
func (p *pass) suspendable(ctx context.Context, h *holdfast.Hold) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		item, err := h.Arrived(ctx, func(i store.Item) bool { return i.Kind == store.ItemSuspend })
		if err == nil {
			cancel(&suspended{item})
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// once runs the program as far as it goes. Again says that a person has
// answered and there is more to do.
func (p *pass) once(ctx context.Context) (again bool, err error) {
	r := p.looking()
	r.stage, r.warn = p.st, p.host.Warn
	p.r = r
	program := r.program()
	end, err := program.run(ctx, r)
	if first := r.failed(); first != nil {
		err = first
	}
	if err == nil {
		err = p.st.overspent(r)
	}
	if err == nil {
		if err = p.st.complete(ctx, r, p.out, program, end, p.traceText()); err == nil {
			p.st.emit(r, WorkflowComplete, map[string]any{"status": string(StatusCompleted), "response": end.text})
			return false, nil
		}
	}
	if errors.Is(err, errWaiting) {
		return p.waiting(ctx)
	}
	return false, p.ended(ctx, err)
}

// waiting asks the person who is there, or leaves the run paused.
func (p *pass) waiting(ctx context.Context) (again bool, err error) {
	row := p.st.hold.Session().Info().Workflow
	if row.Status != string(StatusPaused) || row.Error != "" {
		if err := p.st.commit(ctx, p.r, "the question", "workflow.ask", StatusPaused, ""); err != nil {
			return false, err
		}
	}
	if p.ask == nil {
		return false, nil
	}
	q := p.survey(ctx, nil)[0]
	text, err := p.asked(ctx, q)
	if cause := context.Cause(ctx); cause != nil {
		return false, p.stopped(ctx, cause)
	}
	if err != nil {
		p.host.Warn("the question waits: %v", err)
		return false, nil
	}
	err = p.take(ctx, q.Unit, text)
	if errors.Is(err, session.ErrInvalid) { // the person is told, and asked again
		p.host.Warn("%v", err)
		return true, nil
	}
	return err == nil, err
}

// asked is what the person who is there answers. The time until then is none
// in which the run works.
func (p *pass) asked(ctx context.Context, q HITLState) (string, error) {
	since := p.host.Now()
	defer func() { p.st.began = p.st.began.Add(p.host.Now().Sub(since)) }()
	return p.ask(ctx, q)
}

// ended writes down why a run did not come to its end.
func (p *pass) ended(ctx context.Context, err error) error {
	var stored *CommitError
	if errors.As(err, &stored) {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		return p.stopped(ctx, cause)
	}
	var failed *RunError
	if !errors.As(err, &failed) {
		failed = &RunError{Kind: patternKinds[p.r.spec.Pattern.Type], Err: err}
	}
	if err := p.st.commit(ctx, p.r, "the failure", "workflow.fail", StatusFailed, failed.Error()); err != nil {
		return errors.Join(failed, err)
	}
	p.st.emit(p.r, ErrorEvent, map[string]any{"error": failed.Error(), "kind": string(failed.Kind), "unit": failed.Unit})
	return failed
}

// stopped leaves a run paused that somebody has stopped.
func (p *pass) stopped(ctx context.Context, cause error) error {
	if errors.Is(cause, session.ErrFenced) {
		return cause
	}
	var changes []session.Change
	var asked *suspended
	if errors.As(cause, &asked) {
		changes = append(changes, session.InboxTaken{ItemID: asked.item.ID, ItemKind: string(asked.item.Kind)}, session.StatusChanged{Status: session.Suspended})
	}
	if err := p.st.commit(ctx, p.r, "the pause", "workflow.pause", StatusPaused, "", changes...); err != nil {
		return err
	}
	return &session.InterruptedError{ID: p.r.id, Seq: session.Base(p.st.hold.Session()), Err: cause}
}

// report fills the result in from the session and the book.
func (p *pass) report(ctx context.Context, h *holdfast.Hold) {
	s := h.Session()
	look := p.looking()
	_, end, _ := look.replay(ctx)
	p.describe(s)
	w := s.Workflow()
	p.result.LastResponse, p.result.Agent, p.result.Usage, p.result.Artifacts = end.text, end.agent, usageOf(w), w.Artifacts
	p.result.Changed = p.changed
	_, p.result.Cost = s.Usage()
	if open := look.openQuestions(); len(open) > 0 && p.result.Status == StatusPaused {
		p.result.Question = &open[0]
		if len(open) > 1 {
			p.result.Pending = open
		}
	}
}
