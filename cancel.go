package holdfast

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Cancel stops what a session is executing, for good, in whichever process. A
// call to a model that is in progress is interrupted and what it has streamed is
// dropped; tools that run are told to end and have their results written. The
// execution is saved as stopped, by whoever runs it, and so are its subagents'.
// One that was interrupted is ended at once. With neither it is a NothingToDoError.
func (rt *Runtime) Cancel(ctx context.Context, id string) error {
	ref, err := rt.openRef(id)
	if err != nil {
		return err
	}
	if rt.inboxes == nil || rt.leases == nil {
		return rt.unsupported("an inbox")
	}
	s, err := rt.store.Load(ctx, ref, rt.tails != nil)
	if err != nil {
		return err
	}
	_, live, err := rt.leases.Holding(ctx, ref)
	switch {
	case err != nil:
		return err
	case live && s.Running():
		if err := rt.postCancel(ctx, id, s.Execution().ID); err != nil {
			return err
		}
		return rt.cancelChildren(ctx, id)
	case s.Running():
		_, err := rt.Execute(ctx, id, AbandonExecution{reason: session.StopUserRequested})
		if err == nil {
			return rt.cancelChildren(ctx, id)
		}
		if !errors.Is(err, session.ErrInvalid) { // it ended meanwhile
			return err
		}
	}
	return &session.NothingToDoError{ID: id, What: "cancel"}
}

// postCancel asks an execution to end, once however often it is called.
func (rt *Runtime) postCancel(ctx context.Context, id, executionID string) error {
	raw, err := session.JSON(executionID)
	if err != nil {
		return err
	}
	_, err = rt.Post(ctx, id, store.Item{ID: "cancel:" + executionID, Kind: store.ItemCancel, Payload: session.Values{"executionId": raw}})
	return err
}

// cancelChildren cancels the subagents of a session that are at work, and
// theirs. One that begins later hears of it from the tool that runs it.
func (rt *Runtime) cancelChildren(ctx context.Context, id string) error {
	for child, err := range rt.Sessions(ctx, store.Query{ParentID: id, Origin: session.OriginSubagent, Order: store.IDAsc}) {
		if errors.Is(err, session.ErrCorrupt) {
			continue
		}
		if err == nil {
			err = rt.Cancel(ctx, child.ID)
		}
		if err != nil && !errors.Is(err, session.ErrInvalid) && !errors.Is(err, session.ErrNotFound) {
			return err
		}
	}
	return nil
}

// cancelCheckDelay is how long a call runs before the inbox is watched for a
// cancel. Most calls are over by then, and reading the inbox costs something.
const cancelCheckDelay = 50 * time.Millisecond

// awaitCancel waits until the inbox holds a cancel for an execution. A lost wake-up
// costs no more than the pause between two renewals of the lease.
func (e *Environment) awaitCancel(ctx context.Context, executionID string) error {
	rt := e.x.rt
	if err := rt.await(ctx, nil, cancelCheckDelay); err != nil {
		return err
	}
	changed, stop := rt.subscribeChanges(e.x.ref)
	defer stop()
	pause := rt.config.Poll
	if rt.wakes != nil {
		pause = rt.config.Lease / 3
	}
	asked := func(i store.Item) bool { return i.Kind == store.ItemCancel && isCancelOf(i, executionID) }
	for {
		items, err := rt.inboxes.Inbox(ctx, e.x.ref)
		if err == nil && slices.ContainsFunc(items, asked) {
			return nil
		}
		if err := rt.await(ctx, changed, pause); err != nil { // an inbox that cannot be read is read again
			return err
		}
	}
}

// isCancelOf reports a cancel that is meant for an execution.
func isCancelOf(i store.Item, executionID string) bool {
	meant := i.Payload.String("executionId")
	return meant == "" || meant == executionID
}
