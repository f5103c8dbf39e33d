package setup

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/transfer"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/workflow"
)

// maxTitle is how many characters of a message make a title.
const maxTitle = 60

// firstChanges is how many changes of a log are looked at for the first message.
const firstChanges = 10

// TitleOf returns what a session is called: its name, or the beginning of its
// first message where that can be read without asking a server.
func (e *Env) TitleOf(ctx context.Context, i session.Info) string {
	if i.Name != "" || i.Kind != session.KindChat || i.MessageCount == 0 || e.Server != nil {
		return i.Name
	}
	logs, ok := e.Store.(store.Logs)
	if !ok {
		s, err := e.Get(ctx, i.ID)
		if err != nil || s.Len() == 0 {
			return ""
		}
		return terminal.Shortened(s.Message(0).Content.Text(), maxTitle)
	}
	first, err := logs.Log(ctx, store.Ref{Tenant: e.Tenant, ID: i.ID}, 0, firstChanges)
	if err != nil {
		return "" // a listing does without it
	}
	for _, entry := range first {
		if added, ok := entry.Change.(session.MessageAdded); ok && added.Message.Role == session.RoleUser {
			return terminal.Shortened(added.Message.Content.Text(), maxTitle)
		}
	}
	return ""
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
func (e *Env) ListKept(ctx context.Context, q store.Query, keep func(session.Info) bool) (store.Page, error) {
	if keep == nil {
		return e.List(ctx, q)
	}
	q, _, err := q.Check()
	if err != nil {
		return store.Page{}, err
	}
	found, most := session.Infos{}, q.Limit
	for {
		q.Limit = most - len(found)
		page, err := e.List(ctx, q)
		if err != nil {
			return page, err
		}
		found = append(found, slices.DeleteFunc(page.Items, func(i session.Info) bool { return !keep(i) })...)
		if page.Items = found; page.Next == "" || len(found) == most {
			return page, nil
		}
		q.Cursor = page.Next
	}
}

// Interrupted reports the runs and tasks that say they run while nobody works
// on them.
func (e *Env) Interrupted(ctx context.Context) func(session.Info) bool {
	return func(i session.Info) bool {
		status := display.StatusOf(i)
		if (i.Workflow == nil || status != string(workflow.StatusRunning)) && (i.Task == nil || status != task.Executing && status != task.Planning) {
			return false
		}
		_, live, err := e.Holder(ctx, i.ID)
		return err == nil && !live
	}
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
