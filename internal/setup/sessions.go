package setup

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/transfer"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/workflow"
)

// Listing is a page of sessions, with an overview of each chat by its id.
type Listing struct {
	store.Page
	Overviews map[string]holdfast.Overview
}

// TitleOf returns what a session is called: its name, else what its task or
// workflow is called, else the beginning of its first message.
func (l Listing) TitleOf(i session.Info) string {
	switch {
	case i.Name != "":
		return i.Name
	case i.Task != nil:
		return i.Task.Title
	case i.Workflow != nil:
		return i.Workflow.Name
	}
	return l.Overviews[i.ID].FirstMessage
}

// MessagesOf returns how many messages a session has, with those of an
// execution that was interrupted.
func (l Listing) MessagesOf(i session.Info) int {
	if o, ok := l.Overviews[i.ID]; ok {
		return o.Messages
	}
	return i.MessageCount
}

// ListOverview returns a page of sessions with overviews.
func (e *Env) ListOverview(ctx context.Context, q store.Query) (l Listing, err error) {
	if e.Server != nil {
		l.Page, l.Overviews, err = e.Server.ListOverview(ctx, q)
		return l, err
	}
	if l.Page, err = e.List(ctx, q); err == nil {
		l.Overviews, err = e.Runtime.Overviews(ctx, l.Items)
	}
	return l, err
}

// PlanCopy returns what there is to copy: all, or some.
func (e *Env) PlanCopy(ctx context.Context, refs []string) (transfer.Plan, error) {
	if len(refs) == 0 {
		return transfer.PlanAll(ctx, e.Store, e.Tenant)
	}
	var ids []string
	for _, ref := range refs {
		info, err := e.Resolve(ctx, ref)
		if err != nil {
			return transfer.Plan{}, err
		}
		ids = append(ids, info.ID)
	}
	return transfer.PlanSome(ctx, e.Store, e.Tenant, ids)
}

// FindCorrupt loads a session, tail included: a header alone says little.
func (e *Env) FindCorrupt(ctx context.Context, id string) *session.CorruptError {
	_, err := e.Store.Load(ctx, store.Ref{Tenant: e.Tenant, ID: id}, true)
	var corrupt *session.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return corrupt
	case err != nil && !errors.Is(err, session.ErrNotFound): // removed meanwhile
		return &session.CorruptError{ID: id, Reason: err.Error()}
	}
	return nil
}

// ListKept returns a page of the sessions that keep lets through. It asks for no more
// at a time than have room on the page, so that the next one begins after it.
func (e *Env) ListKept(ctx context.Context, q store.Query, keep func(Listing, session.Info) bool) (Listing, error) {
	if keep == nil {
		return e.ListOverview(ctx, q)
	}
	q, _, err := q.Check()
	if err != nil {
		return Listing{}, err
	}
	found, overviews, most := session.Infos{}, map[string]holdfast.Overview{}, q.Limit
	for {
		q.Limit = most - len(found)
		page, err := e.ListOverview(ctx, q)
		if err != nil {
			return page, err
		}
		found = append(found, slices.DeleteFunc(page.Items, func(i session.Info) bool { return !keep(page, i) })...)
		maps.Copy(overviews, page.Overviews)
		if page.Items, page.Overviews = found, overviews; page.Next == "" || len(found) == most {
			return page, nil
		}
		q.Cursor = page.Next
	}
}

// Interrupted reports the runs and tasks that say they run while nobody works
// on them, and the chats whose overview says that they were interrupted.
func (e *Env) Interrupted(ctx context.Context, l Listing, i session.Info) bool {
	status := display.StatusOf(i)
	running := i.Workflow != nil && status == string(workflow.StatusRunning) || i.Task != nil && (status == task.Executing || status == task.Planning)
	if !running {
		return l.Overviews[i.ID].Interrupted
	}
	_, live, err := e.Holder(ctx, i.ID)
	return err == nil && !live
}

// AwaitRest waits a moment for the change that says that a run has stopped.
func (e *Env) AwaitRest(ctx context.Context, i session.Info, kind string) error {
	moment, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	for entry, err := range e.Watch(moment, i.ID, i.Seq) {
		if err != nil || entry.Change.Kind() == kind {
			return err
		}
	}
	return ctx.Err()
}

// OldRuns are the runs that were not touched since, nobody working on them.
func (e *Env) OldRuns(ctx context.Context, since time.Time, keepCompleted bool) (session.Infos, error) {
	q := store.Query{Kinds: []session.Kind{session.KindWorkflow}, UpdatedBefore: since, Limit: 1000}
	var old session.Infos
	for {
		page, err := e.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, i := range page.Items {
			if i.Workflow == nil || keepCompleted && i.Workflow.Status == string(workflow.StatusCompleted) {
				continue
			}
			_, live, err := e.Holder(ctx, i.ID)
			if err != nil && !errors.Is(err, session.ErrNotFound) {
				return nil, err
			}
			if !live {
				old = append(old, i)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return old, nil
		}
	}
}

// Activity is what a session is doing.
type Activity struct {
	Interrupted bool
	Holder      string // who executes on it, "" for nobody
}

// WorkOn returns whether a process runs a turn of a session, or was interrupted.
func (e *Env) WorkOn(ctx context.Context, s session.Session) (Activity, error) {
	open := (s.Running() || s.HasTail()) && (!s.Waiting() || len(display.WaitingCalls(s)) == 0)
	lease, live, err := e.Holder(ctx, s.ID())
	switch {
	case errors.Is(err, session.ErrNotFound): // purged since it was read
		return Activity{}, nil
	case err != nil:
		return Activity{}, err
	case live:
		return Activity{Holder: lease.Holder}, nil
	}
	return Activity{Interrupted: open}, nil
}

// stopWait is how long cancel waits for the turn to stop.
const stopWait = 3 * time.Second

// WaitForEnd waits a moment for the end of the turn a session was in.
func (e *Env) WaitForEnd(ctx context.Context, i session.Info) error {
	moment, cancel := context.WithTimeout(ctx, stopWait)
	defer cancel()
	for entry, err := range e.Watch(moment, i.ID, i.Seq) {
		if _, over := entry.Change.(session.ExecutionFinished); over || err != nil {
			return err
		}
	}
	return ctx.Err()
}
