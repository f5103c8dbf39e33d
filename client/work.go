package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/workflow"
)

// NewTask is a job for an agent. Only the prompt is required; the server's
// workspace is where it works.
type NewTask struct {
	Prompt          string                `json:"prompt"`
	Title           string                `json:"title,omitempty"`
	Agent           string                `json:"agent,omitempty"`
	Definition      *session.Definition   `json:"definition,omitempty"`
	Model           string                `json:"model,omitempty"`
	ExecutionMode   string                `json:"executionMode,omitempty"`
	PermissionMode  string                `json:"permissionMode,omitempty"`
	Budget          *task.Budget          `json:"budget,omitempty"`
	Plan            *Plan                 `json:"plan,omitempty"`
	PlanMode        string                `json:"planMode,omitempty"`
	SuccessCriteria *task.SuccessCriteria `json:"successCriteria,omitempty"`
	MaxAttempts     int                   `json:"maxAttempts,omitempty"`
	AutoResume      *bool                 `json:"autoResume,omitempty"`
	Deep            bool                  `json:"deep,omitempty"`
}

// Plan is a plan that is given to a task.
type Plan struct {
	Description string     `json:"description,omitempty"`
	Steps       []PlanStep `json:"steps"`
}

// PlanStep is one step of a plan that is given to a task.
type PlanStep struct {
	ID          string `json:"id,omitempty"`
	Description string `json:"description"`
	Kind        string `json:"kind,omitempty"`
}

// StartTask starts a task. It returns when the task is saved; the server works
// on it.
func (c *Client) StartTask(ctx context.Context, t NewTask, opts ...Option) (task.Row, error) {
	return post[task.Row](ctx, c, "/v1/tasks", t, opts)
}

// Task reads where a task stands.
func (c *Client) Task(ctx context.Context, ref string) (task.Row, error) {
	row, _, err := request[task.Row](ctx, c, call{path: taskPath(ref, "")})
	return row, err
}

// Tasks lists tasks with some statuses, all without one.
func (c *Client) Tasks(ctx context.Context, p Page, statuses ...string) (store.Page, error) {
	return c.listWork(ctx, "/v1/tasks", p, statuses)
}

// TaskPlan reads the plan of a task.
func (c *Client) TaskPlan(ctx context.Context, ref string) (session.Plan, error) {
	plan, _, err := request[session.Plan](ctx, c, call{path: taskPath(ref, "/plan")})
	return plan, err
}

// SetTaskPlan sets the plan of a task that nobody works on. Steps that have
// begun stay.
func (c *Client) SetTaskPlan(ctx context.Context, ref string, p Plan) (session.Plan, error) {
	plan, _, err := request[session.Plan](ctx, c, call{method: http.MethodPut, path: taskPath(ref, "/plan"), body: p})
	return plan, err
}

// TaskChecklist reads the list that a task's agent keeps for itself.
func (c *Client) TaskChecklist(ctx context.Context, ref string) (session.Checklist, error) {
	list, _, err := request[session.Checklist](ctx, c, call{path: taskPath(ref, "/checklist")})
	return list, err
}

// SendToTask leaves a message for a task and returns the id of the inbox item.
func (c *Client) SendToTask(ctx context.Context, ref, text string, opts ...Option) (string, error) {
	left, err := post[inboxItem](ctx, c, taskPath(ref, "/messages"), struct {
		Text string `json:"text"`
	}{text}, opts)
	return left.ID, err
}

// GiveFeedback says something about a step of a task.
func (c *Client) GiveFeedback(ctx context.Context, ref string, f session.StepFeedback, opts ...Option) (string, error) {
	left, err := post[inboxItem](ctx, c, taskPath(ref, "/feedback"), struct {
		StepID  string `json:"stepId"`
		Action  string `json:"action"`
		Message string `json:"message,omitempty"`
	}{f.StepID, f.Action, f.Message}, opts)
	return left.ID, err
}

// ContinueTask continues a task. It returns when the server has begun.
func (c *Client) ContinueTask(ctx context.Context, ref string, o task.ContinueOptions) (task.Row, error) {
	var body any
	if o != (task.ContinueOptions{}) {
		body = struct {
			LifetimeTurns int      `json:"lifetimeTurns,omitempty"`
			MaxTokens     *int64   `json:"maxTokens,omitempty"`
			MaxCost       *float64 `json:"maxCost,omitempty"`
		}{o.LifetimeTurns, o.MaxTokens, o.MaxCost}
	}
	return post[task.Row](ctx, c, taskPath(ref, "/continue"), body, nil)
}

// RetryTask tries a task once more. It returns when the server has begun.
func (c *Client) RetryTask(ctx context.Context, ref string) (task.Row, error) {
	return post[task.Row](ctx, c, taskPath(ref, "/retry"), nil, nil)
}

// WrapUpTask asks a task to finish with what it has.
func (c *Client) WrapUpTask(ctx context.Context, ref string) (task.Row, error) {
	return post[task.Row](ctx, c, taskPath(ref, "/wrap-up"), nil, nil)
}

// CancelTask ends a task for good.
func (c *Client) CancelTask(ctx context.Context, ref string) (task.Row, error) {
	return post[task.Row](ctx, c, taskPath(ref, "/cancel"), nil, nil)
}

// NewRun is a workflow spec to run, as YAML or JSON.
type NewRun struct {
	Spec      string            `json:"spec"`
	Variables map[string]string `json:"variables,omitempty"`
	Name      string            `json:"name,omitempty"`
}

// Run is how far a workflow run has come.
type Run struct {
	Session   session.Info          `json:"session"`
	Status    workflow.Status       `json:"status"`
	Pattern   string                `json:"pattern"`
	Agent     string                `json:"agent"`
	Response  string                `json:"response"`
	Error     string                `json:"error"`
	Variables map[string]string     `json:"variables"`
	Pending   []session.PendingCall `json:"pending"`
	Usage     workflow.TokenUsage   `json:"usage"`
	Cost      session.Cost          `json:"cost"`
	Artifacts []string              `json:"artifacts"`
}

// StartRun starts a workflow run. It returns when the run is saved; the server
// works on it.
func (c *Client) StartRun(ctx context.Context, r NewRun, opts ...Option) (Run, error) {
	return post[Run](ctx, c, "/v1/runs", r, opts)
}

// Run reads how far a workflow run has come.
func (c *Client) Run(ctx context.Context, ref string) (Run, error) {
	r, _, err := request[Run](ctx, c, call{path: runPath(ref, "")})
	return r, err
}

// Runs lists workflow runs with some statuses, all without one.
func (c *Client) Runs(ctx context.Context, p Page, statuses ...string) (store.Page, error) {
	return c.listWork(ctx, "/v1/runs", p, statuses)
}

// RunGraph reads a workflow run as a graph to draw.
func (c *Client) RunGraph(ctx context.Context, ref string) (workflow.Graph, error) {
	g, _, err := request[workflow.Graph](ctx, c, call{path: runPath(ref, "/graph")})
	return g, err
}

// ResumeRun continues a workflow run. It returns when the server has begun.
func (c *Client) ResumeRun(ctx context.Context, ref string) (Run, error) {
	return post[Run](ctx, c, runPath(ref, "/resume"), nil, nil)
}

// RedoRun does a unit of a run again, and everything that came after it.
func (c *Client) RedoRun(ctx context.Context, ref, unit string) (Run, error) {
	return post[Run](ctx, c, runPath(ref, "/redo"), struct {
		Unit string `json:"unit"`
	}{unit}, nil)
}

// SuspendRun keeps a run from continuing until it is resumed.
func (c *Client) SuspendRun(ctx context.Context, ref string) (Run, error) {
	return post[Run](ctx, c, runPath(ref, "/suspend"), nil, nil)
}

// CancelRun ends a run for good.
func (c *Client) CancelRun(ctx context.Context, ref string) (Run, error) {
	return post[Run](ctx, c, runPath(ref, "/cancel"), nil, nil)
}

// Page selects a part of a list. The zero value is its beginning.
type Page struct {
	Limit  int
	Cursor string
}

func (c *Client) listWork(ctx context.Context, path string, p Page, statuses []string) (store.Page, error) {
	query := url.Values{"status": statuses}
	setText(query, "cursor", p.Cursor)
	if p.Limit != 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	page, _, err := request[store.Page](ctx, c, call{path: path, query: query})
	return page, err
}

// inboxItem is what was left for a session.
type inboxItem struct {
	ID string `json:"id"`
}

func taskPath(ref, part string) string { return "/v1/tasks/" + url.PathEscape(ref) + part }
func runPath(ref, part string) string  { return "/v1/runs/" + url.PathEscape(ref) + part }

// post makes a call that changes something and is not a turn.
func post[T any](ctx context.Context, c *Client, path string, body any, opts []Option) (T, error) {
	in := call{method: http.MethodPost, path: path, body: body, header: newKey(), query: url.Values{}}
	for _, o := range opts {
		o(&in)
	}
	got, _, err := request[T](ctx, c, in)
	return got, err
}
