package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
)

// Tasks reaches the tasks of a server with the verbs of a task.Executor. The
// server works on them: what waits for a task here can leave, and the work goes
// on.
type Tasks struct{ c *Client }

// Tasks returns the tasks of the server.
func (c *Client) Tasks() Tasks { return Tasks{c} }

// Create starts a task. It returns when the task is saved; the server works on
// it, in its own workspace.
func (t Tasks) Create(ctx context.Context, s task.Spec) (task.Row, error) {
	body := struct {
		Prompt          string                `json:"prompt"`
		Title           string                `json:"title,omitempty"`
		Definition      *session.Definition   `json:"definition,omitempty"`
		ExecutionMode   string                `json:"executionMode,omitempty"`
		PermissionMode  string                `json:"permissionMode,omitempty"`
		Budget          *task.Budget          `json:"budget,omitempty"`
		Plan            *planBody             `json:"plan,omitempty"`
		PlanMode        string                `json:"planMode,omitempty"`
		SuccessCriteria *task.SuccessCriteria `json:"successCriteria,omitempty"`
		MaxAttempts     int                   `json:"maxAttempts,omitempty"`
		AutoResume      *bool                 `json:"autoResume,omitempty"`
		Deep            bool                  `json:"deep,omitempty"`
	}{
		Prompt: s.Prompt, Title: s.Title, ExecutionMode: s.ExecutionMode, PermissionMode: s.PermissionMode, Budget: s.Budget, PlanMode: s.PlanMode,
		SuccessCriteria: s.SuccessCriteria, MaxAttempts: s.MaxAttempts, AutoResume: s.AutoResume, Deep: s.Deep,
	}
	if s.Plan != nil {
		body.Plan = planOf(*s.Plan)
	}
	if s.Definition.Name != "" {
		body.Definition = &s.Definition
	}
	header := newKey()
	if s.Key != "" {
		header.Set("Idempotency-Key", s.Key)
	}
	row, _, err := request[task.Row](ctx, t.c, call{method: http.MethodPost, path: "/v1/tasks", body: body, header: header})
	return row, err
}

// planBody is a plan as a request has it.
type planBody struct {
	Description string     `json:"description,omitempty"`
	Steps       []stepBody `json:"steps"`
}

type stepBody struct {
	ID          string `json:"id,omitempty"`
	Description string `json:"description"`
	Kind        string `json:"kind,omitempty"`
}

func planOf(p session.Plan) *planBody {
	body := &planBody{Description: p.Description, Steps: []stepBody{}}
	for _, s := range p.Steps {
		body.Steps = append(body.Steps, stepBody{s.ID, s.Description, s.Kind})
	}
	return body
}

// Show reads where a task stands, as people see it.
func (t Tasks) Show(ctx context.Context, ref string) (task.Row, error) {
	row, _, err := request[task.Row](ctx, t.c, call{path: taskPath(ref, "")})
	return row, err
}

// Get is Show: a server does not say less.
func (t Tasks) Get(ctx context.Context, ref string) (task.Row, error) { return t.Show(ctx, ref) }

// Settle is Show: a server settles tasks by itself.
func (t Tasks) Settle(ctx context.Context, ref string) (task.Row, error) { return t.Show(ctx, ref) }

// List goes over tasks, those first that moved last.
func (t Tasks) List(ctx context.Context, f task.Filter) iter.Seq2[task.Row, error] {
	return func(yield func(task.Row, error) bool) {
		for _, status := range f.Statuses {
			if !slices.Contains(task.Statuses(), status) {
				yield(task.Row{}, &session.InvalidError{Field: "status", Reason: status + " is no status of a task"})
				return
			}
		}
		q := store.Query{Kinds: []session.Kind{session.KindTask}}
		for {
			page, err := t.c.List(ctx, q)
			if err != nil {
				yield(task.Row{}, err)
				return
			}
			for _, i := range page.Items {
				row, err := task.RowOf(i)
				if err != nil {
					continue // it is no task yet
				}
				if atWork(row) {
					if row, err = t.Show(ctx, i.ID); err != nil {
						yield(row, err)
						return
					}
				}
				if (len(f.Statuses) == 0 || slices.Contains(f.Statuses, task.Canonical(row.TaskRow))) && !yield(row, nil) {
					return
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return
			}
		}
	}
}

// atWork reports a task that somebody works on, or should.
func atWork(row task.Row) bool {
	return slices.Contains([]string{task.Pending, task.Queued, task.Planning, task.Executing}, task.Canonical(row.TaskRow))
}

type stateBody struct {
	State   session.TaskState     `json:"state"`
	Pending []session.PendingCall `json:"pending"`
}

// State is everything a task has come to.
func (t Tasks) State(ctx context.Context, ref string) (session.TaskState, error) {
	got, _, err := request[stateBody](ctx, t.c, call{path: taskPath(ref, "/state")})
	return got.State, err
}

// Pending lists the calls of a task that wait for a response.
func (t Tasks) Pending(ctx context.Context, ref string) ([]session.PendingCall, error) {
	got, _, err := request[stateBody](ctx, t.c, call{path: taskPath(ref, "/state")})
	return got.Pending, err
}

// SetPlan sets the plan of a task that nobody works on.
func (t Tasks) SetPlan(ctx context.Context, ref string, p session.Plan) (session.Plan, error) {
	plan, _, err := request[session.Plan](ctx, t.c, call{method: http.MethodPut, path: taskPath(ref, "/plan"), body: planOf(p)})
	return plan, err
}

// QueueFollowUp leaves a message for a task and returns the id of the inbox item.
func (t Tasks) QueueFollowUp(ctx context.Context, ref string, f session.FollowUp) (string, error) {
	return t.leave(ctx, ref, "/messages", f.ID, struct {
		Text string `json:"text"`
	}{f.Message})
}

// SetStepFeedback says something about a step of a task.
func (t Tasks) SetStepFeedback(ctx context.Context, ref string, f session.StepFeedback) (string, error) {
	return t.leave(ctx, ref, "/feedback", f.ID, struct {
		StepID  string `json:"stepId"`
		Action  string `json:"action"`
		Message string `json:"message,omitempty"`
	}{f.StepID, f.Action, f.Message})
}

// leave leaves something in the inbox of a task, once for each key.
func (t Tasks) leave(ctx context.Context, ref, part, key string, body any) (string, error) {
	left, err := post[struct {
		ID string `json:"id"`
	}](ctx, t.c, taskPath(ref, part), body, key)
	return left.ID, err
}

// Resume continues a task and waits until it rests.
func (t Tasks) Resume(ctx context.Context, ref string) (task.ResumeResult, error) {
	row, err := t.Show(ctx, ref)
	if err != nil {
		return task.ResumeResult{}, err
	}
	if _, held, err := t.c.Holder(ctx, ref); err != nil || held && atWork(row) {
		return task.ResumeResult{Already: err == nil, Row: row}, err
	}
	row, err = t.work(ctx, ref, "/continue", nil)
	return task.ResumeResult{Row: row}, err
}

// Continue continues a task whose budgets are used up, and waits until it rests.
func (t Tasks) Continue(ctx context.Context, ref string, o task.ContinueOptions) (task.Row, error) {
	return t.work(ctx, ref, "/continue", struct {
		LifetimeTurns int      `json:"lifetimeTurns,omitempty"`
		MaxTokens     *int64   `json:"maxTokens,omitempty"`
		MaxCost       *float64 `json:"maxCost,omitempty"`
	}{o.LifetimeTurns, o.MaxTokens, o.MaxCost})
}

// Retry tries a task once more, and waits until it rests.
func (t Tasks) Retry(ctx context.Context, ref string) (task.Row, error) {
	return t.work(ctx, ref, "/retry", nil)
}

// Respond responds to a pending call of a task, continues it and waits until it
// rests. The server says who responded.
func (t Tasks) Respond(ctx context.Context, ref string, r session.Response, o task.RespondOptions) (task.Row, error) {
	row, err := t.PostResponse(ctx, ref, r, o)
	if err != nil {
		return row, err
	}
	return t.Wait(ctx, row.ID)
}

// PostResponse is Respond for who does not wait: it returns when the response is
// saved, and the server works on.
func (t Tasks) PostResponse(ctx context.Context, ref string, r session.Response, o task.RespondOptions) (task.Row, error) {
	return post[task.Row](ctx, t.c, taskPath(ref, "/pending/"+url.PathEscape(r.PendingID)), struct {
		responseBody
		GoOn bool `json:"goOn,omitempty"`
	}{bodyOf(r), o.GoOn}, "")
}

// WrapUp asks a task to finish with what it has.
func (t Tasks) WrapUp(ctx context.Context, ref string) (task.Row, error) {
	return post[task.Row](ctx, t.c, taskPath(ref, "/wrap-up"), nil, "")
}

// Cancel ends a task for good.
func (t Tasks) Cancel(ctx context.Context, ref string) (task.Row, error) {
	return post[task.Row](ctx, t.c, taskPath(ref, "/cancel"), nil, "")
}

// work has the server work on a task and waits until the task rests.
func (t Tasks) work(ctx context.Context, ref, part string, body any) (task.Row, error) {
	row, err := post[task.Row](ctx, t.c, taskPath(ref, part), body, "")
	if err != nil {
		return row, err
	}
	return t.Wait(ctx, row.ID)
}

// restPause is how often Wait looks.
const restPause = 50 * time.Millisecond

// Wait waits until nobody works on a task any more: it has ended, waits for
// somebody, or whoever worked on it is gone. At the end of the context it
// returns how far the task is; the server works on.
func (t Tasks) Wait(ctx context.Context, ref string) (task.Row, error) {
	for {
		_, held, err := t.c.Holder(ctx, ref)
		row := task.Row{}
		if err == nil && !held {
			row, err = t.Show(ctx, ref)
		}
		switch {
		case ctx.Err() != nil:
			return t.Show(context.WithoutCancel(ctx), ref)
		case err != nil || !held && !atWork(row):
			return row, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(restPause):
		}
	}
}

func taskPath(ref, part string) string { return "/v1/tasks/" + url.PathEscape(ref) + part }

// post makes a call that changes something, once for each key; "" is one of
// its own.
func post[T any](ctx context.Context, c *Client, path string, body any, key string) (T, error) {
	got, _, err := request[T](ctx, c, call{method: http.MethodPost, path: path, body: body, header: keyed(holdfast.Given{Key: key})})
	return got, err
}
