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

// attempt is one attempt to advance a run, under its lease.
type attempt struct {
	host   Host
	out    output
	ask    func(ctx context.Context, q HITLState) (string, error)
	trace  bool
	fresh  bool // the session was created a moment ago
	answer *string
	target string
	strict bool
	accept bool
	noWait bool
	reopen bool
	redo   string // the unit to begin with again; empty: none

	rt      *holdfast.Runtime
	run     *run
	runner  *runner
	changed []string        // how the spec's files differ from the snapshot
	seen    map[string]bool // responses that the program has had a chance to take
	result  Result
}

// drive takes the lease and makes an attempt.
func drive(ctx context.Context, rt *holdfast.Runtime, id string, a *attempt) (Result, error) {
	a.rt, a.seen, a.result = rt, map[string]bool{}, Result{SessionID: id, Resumed: !a.fresh}
	info, err := rt.Info(ctx, id)
	if err != nil {
		return a.result, err
	}
	if info.Kind != session.KindWorkflow {
		return a.result, &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%q is a %s, no workflow run", id, info.Kind)}
	}
	err = hold(ctx, rt, id, a.noWait, func(ctx context.Context, h *holdfast.Hold) error {
		err := a.advance(ctx, h)
		if lost := context.Cause(ctx); err != nil && errors.Is(lost, session.ErrFenced) {
			return lost // the reason behind whatever else went wrong
		}
		return err
	})
	return a.result, err
}

// letGoWait is how long a run that rests may still be held by who worked on it.
const letGoWait = 5 * time.Second

// hold takes the lease. A holder that renews it is alive: BusyError. One that
// is silent is waited for, until its lease ends. One whose run rests is about to
// let go of it: whoever has seen that it rests is not told that it is busy.
func hold(ctx context.Context, rt *holdfast.Runtime, id string, noWait bool, fn func(context.Context, *holdfast.Hold) error) error {
	var first *session.BusyError
	for began := time.Now(); ; {
		err := rt.Hold(ctx, id, fn, holdfast.OnBusy(holdfast.Reject))
		var busy *session.BusyError
		if !errors.As(err, &busy) || busy.ID != id {
			return err
		}
		info, err := rt.Info(ctx, id)
		if err != nil {
			return err
		}
		letsGo := info.Workflow != nil && info.Workflow.Status != string(StatusRunning) && time.Since(began) < letGoWait
		if !letsGo && (noWait || first != nil && (busy.Until.After(first.Until) || busy.Holder != first.Holder)) {
			return busy
		}
		first = busy
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// advance runs the program until it ends, fails or waits.
func (a *attempt) advance(ctx context.Context, h *holdfast.Hold) (err error) {
	if err := a.open(ctx, h); err != nil {
		return err
	}
	if a.host.Tools != nil {
		if a.runner.tools, err = a.host.Tools(ctx, a.run.spec, a.run.snap); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.runner.tools.Close()) }()
	}
	a.runner.completeNotes(a.run)
	ctx, stop := a.stoppable(ctx, h)
	defer stop()
	a.emitStart()
	for {
		again, err := a.runProgram(ctx)
		if err == nil && again {
			continue
		}
		a.report(ctx, h)
		return err
	}
}

// open reads the run and brings it to where it can continue: the spec in force,
// the answers that were given.
func (a *attempt) open(ctx context.Context, h *holdfast.Hold) error {
	s, err := h.Whole(ctx)
	if err != nil {
		return err
	}
	if err := a.mayOpen(s); err != nil {
		return err
	}
	if a.run, err = readRun(s); err != nil {
		return err
	}
	a.runner = newRunner(a.host, h, a.run.index, s.Workflow().Seconds)
	if p := a.host.Permissions; p != nil {
		a.runner.gate = runGate{a.rt.NewGate(*p), h}
	}
	a.describe(s)
	if err := a.compareSpec(ctx); err != nil {
		return err
	}
	if issues := spec.Check(a.run.spec, a.host.Env); len(issues) > 0 {
		return &UnsupportedError{File: a.run.spec.Path(), Issues: issues}
	}
	if err := a.activate(ctx, s); err != nil {
		return err
	}
	if err := a.takeBack(ctx); err != nil {
		return err
	}
	return a.settleQuestions(ctx)
}

// mayOpen refuses a run that has ended, unless the caller wants that undone, and
// a session that is deleted.
func (a *attempt) mayOpen(s session.Session) error {
	if s.Status() == session.Deleted {
		return &session.StatusError{ID: s.ID(), Status: session.Deleted, Action: "resume"}
	}
	row := s.Info().Workflow
	if row == nil || a.redo != "" {
		return nil
	}
	switch status := Status(row.Status); {
	case status == StatusCompleted, status == StatusCancelled && !a.reopen:
		return &session.StatusError{ID: s.ID(), Status: session.Status(status), Action: "resume"}
	}
	return nil
}

// describe fills in what is known of the run before anything is done.
func (a *attempt) describe(s session.Session) {
	a.result.Name, a.result.Pattern, a.result.Version = a.run.spec.Name, a.run.spec.Pattern.Type, s.Version()
	if row := s.Info().Workflow; row != nil {
		a.result.Status, a.result.Error = Status(row.Status), row.Error
	}
}

// activate makes a suspended session active again. Requests to suspend that
// came too late for the attempt they were meant for are dropped: whoever resumes
// a run wants it to continue. One to cancel counts, unless the caller reopens
// the run.
func (a *attempt) activate(ctx context.Context, s session.Session) error {
	items, err := a.rt.Inbox(ctx, s.ID())
	if err != nil && !errors.Is(err, session.ErrUnsupported) {
		return err
	}
	var changes []session.Change
	for _, item := range items {
		switch {
		case a.fresh:
		case item.Kind == store.ItemCancel && !a.reopen && a.redo == "":
			return a.recordStop(ctx, &stopRequest{[]store.Item{item}})
		case item.Kind == store.ItemSuspend, item.Kind == store.ItemCancel:
			changes = append(changes, session.InboxTaken{ItemID: item.ID, ItemKind: string(item.Kind)})
		}
	}
	switch s.Status() {
	case session.Active:
	case session.Suspended:
		changes = append(changes, session.StatusChanged{Status: session.Active})
	default:
		return &session.StatusError{ID: s.ID(), Status: s.Status(), Action: "resume"}
	}
	return a.commitSame(ctx, "the resume", "workflow.resume", changes...)
}

// commitSame commits changes, if there are any, that leave the status as it is.
func (a *attempt) commitSame(ctx context.Context, what, action string, changes ...session.Change) error {
	if len(changes) == 0 {
		return nil
	}
	row := a.runner.hold.Session().Info().Workflow
	return a.runner.commit(ctx, a.run, what, action, Status(row.Status), row.Error, changes...)
}

// emitStart reports that the run continues, before anything else is reported.
func (a *attempt) emitStart() {
	a.run.runner = a.runner
	a.run.emitOnce("", WorkflowStart, StartData{Resumed: !a.fresh})
}

// runProgram runs the program as far as it goes. Again says that a response has
// arrived and there is more to do.
func (a *attempt) runProgram(ctx context.Context) (again bool, err error) {
	r := a.run.replayer()
	r.runner, r.warn = a.runner, a.host.Warn
	a.run = r
	program := r.program()
	end, err := program.run(ctx, r)
	if first := r.failed(); first != nil {
		err = first
	}
	if err == nil {
		err = a.runner.overspent(r)
	}
	if err == nil {
		trace := ""
		if a.trace {
			trace = r.trace()
		}
		if err = a.runner.complete(ctx, r, a.out, program, end, trace); err == nil {
			a.runner.emit(r, WorkflowComplete, CompleteData{StatusCompleted, end.text})
			return false, nil
		}
	}
	if errors.Is(err, errWaiting) && a.runner.stopCause(ctx) == nil {
		return a.wait(ctx)
	}
	return false, a.recordEnd(ctx, err)
}

// recordEnd records why a run did not reach its end.
func (a *attempt) recordEnd(ctx context.Context, err error) error {
	var stored *CommitError
	if errors.As(err, &stored) {
		return err
	}
	if cause := a.runner.stopCause(ctx); cause != nil {
		return a.recordStop(ctx, cause)
	}
	var failed *RunError
	if !errors.As(err, &failed) {
		failed = &RunError{Kind: patternKinds[a.run.spec.Pattern.Type], Err: err}
	}
	if err := a.runner.commit(ctx, a.run, "the failure", "workflow.fail", StatusFailed, failed.Error()); err != nil {
		return errors.Join(failed, err)
	}
	a.runner.emit(a.run, ErrorEvent, ErrorData{failed.Error(), failed.Kind, failed.Unit})
	return failed
}

// recordStop leaves a run paused, or cancelled, that somebody has stopped.
func (a *attempt) recordStop(ctx context.Context, cause error) error {
	if errors.Is(cause, session.ErrFenced) {
		return cause
	}
	var changes []session.Change
	var asked *stopRequest
	if errors.As(cause, &asked) {
		changes = asked.taken()
		if asked.cancels() {
			changes = append(changes, a.run.index.withdraw(a.runner.hold.Session())...)
			if err := a.runner.commit(ctx, a.run, "the cancellation", "workflow.cancel", StatusCancelled, "", changes...); err != nil {
				return err
			}
			return &CancelledError{ID: a.run.id}
		}
		changes = append(changes, session.StatusChanged{Status: session.Suspended})
	}
	if err := a.runner.commit(ctx, a.run, "the pause", "workflow.pause", StatusPaused, "", changes...); err != nil {
		return err
	}
	return &session.InterruptedError{ID: a.run.id, Seq: session.Base(a.runner.hold.Session()), Err: cause}
}

// report fills in the result from the session and the index.
func (a *attempt) report(ctx context.Context, h *holdfast.Hold) {
	s, r := h.Session(), a.run.replayer()
	_, end, _ := r.replay(ctx)
	a.describe(s)
	w := s.Workflow()
	a.result.LastResponse, a.result.Agent, a.result.Usage, a.result.Artifacts = end.text, end.agent, usageOf(w), w.Artifacts
	a.result.Changed, a.result.Wrote = a.changed, a.runner.wrote
	_, a.result.Cost = s.Usage()
	if a.result.Status != StatusPaused {
		return
	}
	a.result.Waiting = waitingCalls(s)
	if open := r.openQuestions(s); len(open) > 0 {
		a.result.Question = &open[0]
		if len(open) > 1 {
			a.result.Pending = open
		}
	}
}
