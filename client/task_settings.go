package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// View reads a task: as it stands, the open tail included, or at a version.
func (t Tasks) View(ctx context.Context, ref string, version int64) (task.View, error) {
	view := task.View{At: time.Now()}
	opt := holdfast.WithTail()
	if version != 0 {
		opt = holdfast.At(version)
	}
	var err error
	if view.Session, err = t.c.Get(ctx, ref, opt); err != nil {
		return view, err
	}
	if _, err := task.RowOf(view.Session.Info()); err != nil {
		return view, err
	}
	view.Seq = view.Session.Seq()
	if version == 0 {
		state, err := t.State(ctx, ref)
		if err != nil {
			return view, err
		}
		view.Queues = state.Queues
	}
	return view, nil
}

// SetMode sets what a task may do on its own. A mode that asks less than the
// default needs the scope approve.
func (t Tasks) SetMode(ctx context.Context, ref, mode string) error {
	_, _, err := request[task.Row](ctx, t.c, call{method: http.MethodPut, path: taskPath(ref, "/mode"), body: struct {
		Mode string `json:"mode"`
	}{mode}})
	return err
}

// AddRule adds a permission rule to a task. It needs the scope approve.
func (t Tasks) AddRule(ctx context.Context, ref string, rule session.Rule) error {
	return t.setRule(ctx, ref, "/rules", rule)
}

// RemoveRule takes a permission rule of a task back. It needs the scope approve.
func (t Tasks) RemoveRule(ctx context.Context, ref string, rule session.Rule) error {
	return t.setRule(ctx, ref, "/rules/remove", rule)
}

func (t Tasks) setRule(ctx context.Context, ref, part string, rule session.Rule) error {
	_, err := items[session.Rule](ctx, t.c, call{method: http.MethodPost, path: taskPath(ref, part), body: struct {
		Effect string        `json:"effect"`
		Scope  session.Scope `json:"scope"`
	}{rule.Effect, rule.Scope}})
	return err
}

// ClearReminder takes back the reminder to verify, of a task that nobody works
// on.
func (t Tasks) ClearReminder(ctx context.Context, ref string) error {
	_, _, err := request[session.Checklist](ctx, t.c, call{method: http.MethodDelete, path: taskPath(ref, "/checklist/reminder")})
	return err
}

// SaveSnapshot leaves a snapshot of a task, which nobody works on, in its log and
// returns the number of that change.
func (t Tasks) SaveSnapshot(ctx context.Context, ref string) (int64, error) {
	got, err := post[struct {
		Seq int64 `json:"seq"`
	}](ctx, t.c, taskPath(ref, "/snapshot"), nil, "")
	return got.Seq, err
}

// Import takes in a task of another program, as taskruntime.Import does. Of the
// options it takes ID and the model of Definition: the server decides the rest.
func (t Tasks) Import(ctx context.Context, data []byte, o taskruntime.ImportOptions) (taskruntime.Imported, error) {
	id := cmp.Or(o.ID, uuid.NewString())
	got, tries, err := request[taskruntime.Imported](ctx, t.c, call{method: http.MethodPost, path: "/v1/tasks/import", body: struct {
		Data  string `json:"data"`
		ID    string `json:"id"`
		Model string `json:"model,omitempty"`
	}{string(data), id, o.Definition.Model}})
	var taken *session.ConflictError
	if tries > 1 && errors.As(err, &taken) && taken.Reason == session.ReasonExists { // an earlier try has arrived
		got.Row, err = t.Show(ctx, id)
	}
	return got, err
}
