package mcpserver

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

type startTaskInput struct {
	Prompt string `json:"prompt" jsonschema:"what is to be done"`
	Title  string `json:"title,omitempty"`
	Key    string `json:"key,omitempty" jsonschema:"any text that is new for each task: repeated with it, a task is started once"`
}

type taskInput struct {
	Task string `json:"task" jsonschema:"its id"`
}

// job is how far a task or a run has come.
type job struct {
	Session  string    `json:"session" jsonschema:"its id"`
	Status   string    `json:"status"`
	Title    string    `json:"title,omitempty"`
	Response string    `json:"response,omitempty" jsonschema:"what came of it"`
	Error    string    `json:"error,omitempty"`
	Pending  []pending `json:"pending,omitempty" jsonschema:"what it waits for"`
}

func (o *offer) startTask(ctx context.Context, _ *sdk.CallToolRequest, in startTaskInput) (*sdk.CallToolResult, job, error) {
	row, err := o.c.Server.Tasks().Create(ctx, task.Spec{Prompt: in.Prompt, Title: in.Title, Key: in.Key})
	if err != nil {
		return nil, job{}, err
	}
	return nil, jobOf(row, nil), nil
}

func (o *offer) taskStatus(ctx context.Context, _ *sdk.CallToolRequest, in taskInput) (*sdk.CallToolResult, job, error) {
	row, err := o.c.Server.Tasks().Show(ctx, in.Task)
	if err != nil {
		return nil, job{}, err
	}
	calls, err := o.c.Server.Tasks().Pending(ctx, row.ID)
	if err != nil {
		return nil, job{}, err
	}
	return nil, jobOf(row, calls), nil
}

func jobOf(row task.Row, calls []session.PendingCall) job {
	return job{Session: row.ID, Status: row.Status, Title: row.Title, Response: row.ResultSummary, Error: row.Error, Pending: pendingOf(row.ID, calls)}
}

type startRunInput struct {
	Spec      string            `json:"spec" jsonschema:"the workflow spec, as YAML or JSON"`
	Variables map[string]string `json:"variables,omitempty" jsonschema:"its inputs"`
	Name      string            `json:"name,omitempty"`
	Key       string            `json:"key,omitempty" jsonschema:"any text that is new for each run: repeated with it, a run is started once"`
}

type runInput struct {
	Run string `json:"run" jsonschema:"its id or name"`
}

func (o *offer) startRun(ctx context.Context, _ *sdk.CallToolRequest, in startRunInput) (*sdk.CallToolResult, job, error) {
	r, err := o.c.Server.StartRun(ctx, client.NewRun{Spec: in.Spec, Variables: in.Variables, Name: in.Name, Key: in.Key})
	if err != nil {
		return nil, job{}, err
	}
	return nil, runOf(r), nil
}

func (o *offer) runStatus(ctx context.Context, _ *sdk.CallToolRequest, in runInput) (*sdk.CallToolResult, job, error) {
	r, err := o.c.Server.Run(ctx, in.Run)
	if err != nil {
		return nil, job{}, err
	}
	return nil, runOf(r), nil
}

func runOf(r client.Run) job {
	return job{
		Session: r.Session.ID, Status: string(r.Status), Title: r.Session.Name, Response: r.Response, Error: r.Error, Pending: pendingOf(r.Session.ID, r.Pending),
	}
}
