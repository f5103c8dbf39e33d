package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Recovered is what Recover did about one session.
type Recovered struct {
	ID      string
	Version int64 // 0 when it failed
	Err     error
}

// Recover continues every interrupted conversation it can get the lease of, a
// few at a time, and reports each. It also delivers messages and responses that
// wait in an inbox because whoever was to take them is gone. Tasks and workflow
// runs are taken up by their own packages.
//
// A subagent is continued by its parent; one whose parent has ended is
// abandoned. An execution that was recovered Config.RecoverLimit times and did
// not end, because it kills its process, say, is set aside: its session is
// suspended, with a SetAsideError here, until somebody asks for
// ContinueExecution, RetryExecution or AbandonExecution.
func (rt *Runtime) Recover(ctx context.Context) ([]Recovered, error) {
	ctx, finished, err := rt.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer finished()
	refs, err := rt.unattended(ctx)
	if err != nil {
		return nil, err
	}
	const atOnce = 4
	results := make([]*Recovered, len(refs))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, ref := range refs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = rt.recoverOne(ctx, ref)
		})
	}
	wg.Wait()
	var done []Recovered
	for _, r := range results {
		if r != nil {
			done = append(done, *r)
		}
	}
	return done, nil
}

// RecoverSession is Recover for one session. It reports whether there was
// something to do.
func (rt *Runtime) RecoverSession(ctx context.Context, id string) (did bool, err error) {
	ctx, finished, err := rt.beginCall(ctx)
	if err != nil {
		return false, err
	}
	defer finished()
	if rt.tails == nil {
		return false, rt.unsupported("resuming")
	}
	done := rt.recoverOne(ctx, store.Ref{Tenant: rt.who.Tenant, ID: id})
	if done == nil {
		return false, nil
	}
	return true, done.Err
}

// unattended lists the sessions that nobody holds and that have work left: an
// interrupted execution, or something in the inbox.
func (rt *Runtime) unattended(ctx context.Context) ([]store.Ref, error) {
	if rt.tails == nil {
		return nil, rt.unsupported("resuming")
	}
	refs, err := rt.tails.Interrupted(ctx, rt.who.Tenant)
	if err != nil || rt.inboxes == nil {
		return refs, err
	}
	unread, err := rt.inboxes.Unread(ctx, rt.who.Tenant)
	for _, ref := range unread {
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs, err
}

// recoverOne does what one session needs; nil if that is nothing.
func (rt *Runtime) recoverOne(ctx context.Context, ref store.Ref) *Recovered {
	info, err := rt.store.Info(ctx, ref)
	if err != nil {
		return &Recovered{ID: ref.ID, Err: err}
	}
	if info.Kind != session.KindChat || info.Status != session.Active {
		return nil
	}
	action, setAside, err := rt.recovery(ctx, ref)
	if err != nil {
		return &Recovered{ID: ref.ID, Err: err}
	}
	if action == nil {
		return nil
	}
	done := &Recovered{ID: ref.ID}
	s, err := rt.Execute(ctx, ref.ID, action, OnBusy(Reject))
	saved := err == nil || errors.Is(err, session.ErrExecutionFailed) || errors.Is(err, session.ErrAfterSave)
	if !s.IsZero() && saved {
		done.Version = s.Version()
	}
	if done.Err = err; err == nil && setAside != nil {
		done.Err = setAside
	}
	return done
}

// recovery decides what to do about a session that nobody holds; nil is nothing.
// The error that comes with an action says why it is set aside.
func (rt *Runtime) recovery(ctx context.Context, ref store.Ref) (action Action, setAside, err error) {
	s, err := rt.store.Load(ctx, ref, true)
	if err != nil {
		return nil, nil, err
	}
	x := &execution{rt: rt, ref: ref}
	if !s.Running() && !s.HasTail() {
		if item, err := x.nextItem(ctx, s); err != nil || item == "" {
			return nil, nil, err
		}
		return ContinueExecution{recovery: true}, nil, nil
	}
	switch state, err := rt.parentState(ctx, s); {
	case err != nil:
		return nil, nil, err
	case state == parentEnded && s.Running():
		return AbandonExecution{}, nil, nil
	case state == parentContinues:
		return nil, nil, nil
	}
	if x.checkResponded(ctx, s) != nil {
		return nil, nil, nil // it waits for responses, and needs no process for that
	}
	if e := s.Execution(); s.Running() && e.Recoveries >= rt.config.RecoverLimit {
		why := &session.SetAsideError{ID: ref.ID, Recoveries: e.Recoveries}
		return SuspendSession{Reason: fmt.Sprintf("set aside after %d recoveries", e.Recoveries)}, why, nil
	}
	return ContinueExecution{recovery: true}, nil, nil
}

// parentState says whether a subagent's parent still wants its answer.
type parentState int

const (
	noParent        parentState = iota // it is no subagent
	parentWaits                        // for the answer of a subagent that waited
	parentContinues                    // it is at work or was interrupted, and runs the subagent itself
	parentEnded
)

func (rt *Runtime) parentState(ctx context.Context, child session.Session) (parentState, error) {
	info := child.Info()
	if info.Origin != session.OriginSubagent || info.ParentID == "" {
		return noParent, nil
	}
	parent, err := rt.store.Load(ctx, store.Ref{Tenant: info.Tenant, ID: info.ParentID}, true)
	if errors.Is(err, session.ErrNotFound) {
		return parentEnded, nil
	}
	if err != nil {
		return noParent, err
	}
	switch waits := func(p session.PendingCall) bool { return p.ChildID == info.ID && p.Waiting() }; {
	case !slices.Contains(onlyOpen, parent.Status()):
		return parentEnded, nil
	case slices.ContainsFunc(parent.PendingCalls(), waits):
		return parentWaits, nil
	case parent.Info().Kind == session.KindChat && !slices.Contains(openChildren(parent), info.ID):
		return parentEnded, nil
	}
	return parentContinues, nil
}
