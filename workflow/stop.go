package workflow

import (
	"context"
	"errors"
	"slices"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Suspend keeps a run from continuing until it is resumed. A process that works
// on it lets calls in flight finish and begins nothing new; asked a second time
// it breaks off. Pending says that this may take a moment. A run that has ended
// is a StatusError.
func Suspend(ctx context.Context, rt *holdfast.Runtime, id string) (pending bool, err error) {
	return stop(ctx, rt, id, store.Item{Kind: store.ItemSuspend})
}

// Cancel ends a run for good, with the status cancelled. A process that works on
// it breaks off; pending says that this may take a moment. What waited for a
// response is withdrawn, what units did is kept. A run that has ended is a
// StatusError.
func Cancel(ctx context.Context, rt *holdfast.Runtime, id string) (pending bool, err error) {
	return stop(ctx, rt, id, store.Item{Kind: store.ItemCancel})
}

// stop records the end of a run that nobody works on, or leaves the request to
// who does.
func stop(ctx context.Context, rt *holdfast.Runtime, id string, item store.Item) (pending bool, err error) {
	err = rt.Hold(ctx, id, func(ctx context.Context, h *holdfast.Hold) error {
		return recordRequest(ctx, h, stopRequest{[]store.Item{item}})
	},
		holdfast.OnBusy(holdfast.Reject))
	var busy *session.BusyError
	if !errors.As(err, &busy) {
		return false, err
	}
	info, err := rt.Info(ctx, id)
	if err != nil {
		return false, err
	}
	if err := (stopRequest{[]store.Item{item}}).check(info); err != nil {
		return false, err // who holds it is only letting go
	}
	if item, err = rt.Post(ctx, id, item); err != nil {
		return false, err
	}
	// Whoever worked on it may have ended before the request was there.
	err = rt.Hold(ctx, id, func(ctx context.Context, h *holdfast.Hold) error {
		return recordRequest(ctx, h, stopRequest{[]store.Item{item}})
	},
		holdfast.OnBusy(holdfast.Reject))
	switch {
	case errors.As(err, &busy):
		return true, nil
	case errors.Is(err, session.ErrStatus): // it has ended meanwhile
		return true, nil
	}
	return false, err
}

// check refuses to stop what is no run, or has ended.
func (r stopRequest) check(info session.Info) error {
	row := info.Workflow
	if row == nil {
		return &session.InvalidError{Field: "session", Reason: "it is no workflow run"}
	}
	if status := Status(row.Status); status != StatusCompleted && status != StatusCancelled {
		return nil
	}
	action := "suspend"
	if r.cancels() {
		action = "cancel"
	}
	return &session.StatusError{ID: info.ID, Status: session.Status(row.Status), Action: action}
}

// recordRequest suspends or cancels a run that nobody works on.
func recordRequest(ctx context.Context, h *holdfast.Hold, asked stopRequest) error {
	s, err := h.Whole(ctx)
	if err != nil {
		return err
	}
	if err := asked.check(s.Info()); err != nil {
		return err
	}
	row := s.Info().Workflow
	if s.Status() == session.Suspended && !asked.cancels() {
		return nil // whoever worked on it has heard of the request meanwhile
	}
	next := *row
	if Status(row.Status) == StatusRunning {
		next.Status = string(StatusPaused)
	}
	changes := asked.taken()
	if asked.cancels() {
		x, err := readIndex(s)
		if err != nil {
			return err
		}
		next.Status, next.Error = string(StatusCancelled), ""
		changes = append(changes, x.withdraw(s)...)
	} else {
		changes = append(changes, session.StatusChanged{Status: session.Suspended})
	}
	if next != *row {
		changes = append(changes, session.WorkflowRowChanged{Workflow: next})
	}
	name := "workflow.suspend"
	if asked.cancels() {
		name = "workflow.cancel"
	}
	_, err = h.Execute(ctx, seal{name, changes, time.Now})
	return err
}

// withdraw takes back everything that waits for a response.
func (x *index) withdraw(s session.Session) []session.Change {
	var units []string
	for _, p := range waitingCalls(s) {
		if p.Unit != "" && !slices.Contains(units, p.Unit) {
			units = append(units, p.Unit)
		}
	}
	if len(units) == 0 {
		return nil
	}
	return []session.Change{session.UnitsReset{Units: units}}
}

// stopRequest is why a run stops: somebody asked for it, once or again.
type stopRequest struct{ items []store.Item }

func (r *stopRequest) Error() string {
	if r.cancels() {
		return "the run was cancelled"
	}
	return "the run was suspended"
}

func (r *stopRequest) cancels() bool {
	return slices.ContainsFunc(r.items, func(i store.Item) bool { return i.Kind == store.ItemCancel })
}

// taken returns the changes that take the requests out of the inbox.
func (r *stopRequest) taken() []session.Change {
	var changes []session.Change
	for _, item := range r.items {
		if item.ID != "" {
			changes = append(changes, session.InboxTaken{ItemID: item.ID, ItemKind: string(item.Kind)})
		}
	}
	return changes
}

// errAskedToStop is why a run stops whose host wants it.
var errAskedToStop = errors.New("the program was asked to stop")

// stoppable returns a context that ends when the run is to break off, and drains
// the runner when it is to stop in order.
func (a *attempt) stoppable(ctx context.Context, h *holdfast.Hold) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{}, 2)
	go func() {
		a.awaitRequests(ctx, h, cancel)
		done <- struct{}{}
	}()
	go func() {
		select {
		case <-a.host.Stop:
			a.runner.drain(errAskedToStop)
		case <-ctx.Done():
		}
		done <- struct{}{}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
		<-done
		a.runner.drain(nil)
	}
}

// awaitRequests waits for requests to suspend or cancel the run.
func (a *attempt) awaitRequests(ctx context.Context, h *holdfast.Hold, cancel context.CancelCauseFunc) {
	asked := &stopRequest{}
	for {
		item, err := h.Arrived(ctx, func(i store.Item) bool {
			known := slices.ContainsFunc(asked.items, func(o store.Item) bool { return o.ID == i.ID })
			return !known && (i.Kind == store.ItemSuspend || i.Kind == store.ItemCancel)
		})
		if err != nil {
			return
		}
		asked = &stopRequest{append(slices.Clone(asked.items), item)}
		if len(asked.items) > 1 || asked.cancels() {
			cancel(asked)
			return
		}
		a.runner.drain(asked)
	}
}

// FileName makes a name a part of a path that every file system takes, as names
// of artifacts are made.
func FileName(name string) string { return safeName(name) }
