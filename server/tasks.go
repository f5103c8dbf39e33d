package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
)

// Tasks says how a server works on tasks.
type Tasks struct {
	// Executor returns what works on the tasks of a runtime's view. It is asked
	// for each request.
	Executor func(rt *holdfast.Runtime) (*task.Executor, error)
	// Workspace is where tasks work that are started over HTTP; a request cannot
	// choose another. The zero value has no files and no shell.
	Workspace task.Workspace
	// Check refuses a task that no model of this server could do; an empty model is
	// the server's own. Nil: none is refused.
	Check func(model string) error
}

func (s *Server) addTasks() {
	tags := []string{"tasks"}
	register(s, apikey.Write, huma.Operation{
		OperationID: "start-task", Method: http.MethodPost, Path: "/v1/tasks", DefaultStatus: http.StatusCreated,
		Summary: "Start a task", Tags: tags,
		Description: "The task is saved and this node begins to work on it. It works in the workspace of the server. " +
			"A permission mode that asks less than the default, and a command as a criterion of success, need the scope approve.",
	}, s.startTask)
	register(s, apikey.Read, huma.Operation{
		OperationID: "list-tasks", Method: http.MethodGet, Path: "/v1/tasks",
		Summary: "List tasks, those first that moved last", Tags: tags,
	}, listTasks)
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-task", Method: http.MethodGet, Path: "/v1/tasks/{ref}",
		Summary: "Read where a task stands", Tags: tags,
	}, onTask(s, func(ctx context.Context, t taskCall, _ *SessionRef) (*taskOutput, error) {
		return t.shown(ctx)
	}))
	s.addTaskActions(tags)
	s.addTaskSettings(tags)
}

// executor returns what works on the caller's tasks.
func (s *Server) executor(c caller) (*task.Executor, error) {
	if s.config.Tasks == nil {
		return nil, noTasks()
	}
	return s.config.Tasks.Executor(c.rt)
}

func noTasks() error { return &session.UnsupportedError{Store: "this server", Ability: "tasks"} }

// taskCall is a request about one task.
type taskCall struct {
	*task.Executor
	s  *Server
	c  caller
	id string

	repeated bool // the request was carried out before
}

// refTo is the part of a request that names a session.
type refTo interface{ ref() SessionRef }

func (in SessionRef) ref() SessionRef { return in }

// onTask makes the handler of a request about one task.
func onTask[I refTo, O any](s *Server, handle func(context.Context, taskCall, *I) (*O, error)) func(context.Context, caller, *I) (*O, error) {
	return func(ctx context.Context, c caller, in *I) (*O, error) {
		if s.config.Tasks == nil {
			return nil, noTasks()
		}
		i, err := (*in).ref().resolve(ctx, c)
		if err != nil {
			return nil, err
		}
		if i.Kind != session.KindTask {
			return nil, &session.NotFoundError{What: "task", ID: i.ID}
		}
		repeated := false
		if keyed, ok := any(*in).(interface{ header() KeyHeader }); ok {
			c, err = keyed.header().once(ctx, c, i.ID, in)
			if repeated = errors.Is(err, holdfast.ErrRepeated); err != nil && !repeated {
				return nil, err
			}
		}
		x, err := s.executor(c)
		if err != nil {
			return nil, err
		}
		out, err := handle(ctx, taskCall{x, s, c, i.ID, repeated}, in)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}

// taskOutput is a response with the row of a task.
type taskOutput struct {
	Status   int
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     task.Row
}

func taskOutputOf(status int, row task.Row) *taskOutput {
	return &taskOutput{Status: status, Location: "/v1/tasks/" + row.ID, ETag: etag(row.Version), Body: row}
}

// shown is the task as people see it.
func (t taskCall) shown(ctx context.Context) (*taskOutput, error) {
	row, err := t.Show(ctx, t.id)
	return taskOutputOf(http.StatusOK, row), err
}

// work lets fn work on the task in the background. The response is 202 once it
// has begun, and 200 if it has ended by then.
func (t taskCall) work(ctx context.Context, fn func(context.Context) error) (*taskOutput, error) {
	done := false
	if !t.repeated {
		var err error
		if done, err = t.s.work.run(ctx, t.c.rt, t.id, fn); errors.Is(err, holdfast.ErrRepeated) {
			done = false
		} else if err != nil {
			return nil, err
		}
	}
	out, err := t.shown(ctx)
	if !done {
		out.Status = http.StatusAccepted
	}
	return out, err
}

// accept carries out a request that others finish, unless it was before.
func (t taskCall) accept(ctx context.Context, fn func(ctx context.Context, id string) (task.Row, error)) (*taskOutput, error) {
	if !t.repeated {
		row, err := fn(ctx, t.id)
		if !errors.Is(err, holdfast.ErrRepeated) {
			return taskOutputOf(http.StatusAccepted, row), err
		}
	}
	out, err := t.shown(ctx)
	out.Status = http.StatusAccepted
	return out, err
}

// leave leaves an inbox item for the task, unless that was done before.
func (t taskCall) leave(ctx context.Context, fn func(ctx context.Context, item string) (string, error)) (*queuedOutput, error) {
	item := t.c.rt.OnceItem()
	if !t.repeated {
		left, err := fn(ctx, item)
		if !errors.Is(err, holdfast.ErrRepeated) {
			return queuedOutputOf(t.id, left), err
		}
	}
	return queuedOutputOf(t.id, item), nil
}

type startTaskInput struct {
	KeyHeader
	Body struct {
		Prompt          string                `json:"prompt" minLength:"1" doc:"The job"`
		Title           string                `json:"title,omitempty" doc:"The beginning of the prompt by default"`
		Agent           string                `json:"agent,omitempty" doc:"The name of an agent of this server"`
		Definition      *session.Definition   `json:"definition,omitempty" doc:"A whole definition instead"`
		Model           string                `json:"model,omitempty" doc:"The model that works on it"`
		ExecutionMode   string                `json:"executionMode,omitempty" enum:"execute,chat,plan,analyze,verified,debug"`
		PermissionMode  string                `json:"permissionMode,omitempty"`
		Budget          *task.Budget          `json:"budget,omitempty"`
		Plan            *newPlan              `json:"plan,omitempty" doc:"The plan; by default the agent makes one"`
		PlanMode        string                `json:"planMode,omitempty" enum:"auto,none" doc:"none: the prompt is the only step"`
		SuccessCriteria *task.SuccessCriteria `json:"successCriteria,omitempty" doc:"What must hold before the task may be completed"`
		MaxAttempts     int                   `json:"maxAttempts,omitempty" minimum:"0"`
		AutoResume      *bool                 `json:"autoResume,omitempty" doc:"Whether another process continues it when this one is gone; true by default"`
		Deep            bool                  `json:"deep,omitempty" doc:"Long work: more turns, longer steps"`
	}
}

// newPlan is a plan as a request gives it.
type newPlan struct {
	Description string    `json:"description,omitempty"`
	Steps       []newStep `json:"steps" minItems:"1"`
}

type newStep struct {
	ID          string `json:"id,omitempty"`
	Description string `json:"description" minLength:"1"`
	Kind        string `json:"kind,omitempty" enum:"primary,verification,recovery"`
}

func (p *newPlan) plan() *session.Plan {
	if p == nil {
		return nil
	}
	out := &session.Plan{Description: p.Description}
	for _, s := range p.Steps {
		out.Steps = append(out.Steps, session.PlanStep{ID: s.ID, Description: s.Description, Kind: s.Kind})
	}
	return out
}

func (s *Server) startTask(ctx context.Context, c caller, in *startTaskInput) (*taskOutput, error) {
	x, err := s.executor(c)
	if err != nil {
		return nil, err
	}
	spec, err := s.taskSpec(c, in)
	if err != nil {
		return nil, err
	}
	if s.config.Tasks.Check != nil {
		if err := s.config.Tasks.Check(spec.Definition.Model); err != nil {
			return nil, err
		}
	}
	p, err := s.work.reserve()
	if err != nil {
		return nil, err
	}
	row, err := x.Create(ctx, spec)
	if err == nil {
		row, err = x.Get(ctx, row.ID) // of a repeated request: as it is now
	}
	if err != nil || row.Status != task.Pending {
		p.giveBack()
		return taskOutputOf(http.StatusCreated, row), err
	}
	p.begin(ctx, row.ID, func(ctx context.Context) error {
		_, err := x.Resume(ctx, row.ID)
		return err
	})
	return taskOutputOf(http.StatusCreated, row), nil
}

// taskSpec returns the job of a request. What would let a key that may not
// approve calls have them run unasked is refused.
func (s *Server) taskSpec(c caller, in *startTaskInput) (task.Spec, error) {
	b := in.Body
	spec := task.Spec{
		Title: b.Title, Prompt: b.Prompt, Workspace: s.config.Tasks.Workspace, ExecutionMode: b.ExecutionMode, PermissionMode: b.PermissionMode,
		Budget: b.Budget, Plan: b.Plan.plan(), PlanMode: b.PlanMode, SuccessCriteria: b.SuccessCriteria, MaxAttempts: b.MaxAttempts,
		AutoResume: b.AutoResume, Deep: b.Deep, Key: in.key(),
	}
	if b.Agent != "" || b.Definition != nil {
		def, err := s.definition(b.Agent, b.Definition)
		if err != nil {
			return spec, err
		}
		spec.Definition = def
	}
	if b.Model != "" {
		spec.Definition.Model = b.Model
	}
	if err := s.permitMode(c, b.PermissionMode); err != nil {
		return spec, err
	}
	if criteria := b.SuccessCriteria; criteria != nil && criteria.Command != "" {
		if err := c.Permit(apikey.Approve); err != nil {
			return spec, err
		}
		if !spec.Workspace.Capabilities["shell"] {
			return spec, problem.New(http.StatusForbidden, problem.CodeForbidden, "this server runs no commands for tasks; it offers a shell with --allow-shell")
		}
	}
	return spec, nil
}

type listTasksInput struct {
	Status []string `query:"status,explode" doc:"As the rows have it"`
	Limit  int      `query:"limit" minimum:"0" maximum:"200" doc:"50 by default"`
	Cursor string   `query:"cursor"`
}

type listTasksOutput struct {
	Body struct {
		Items session.Infos `json:"items"`
		Next  string        `json:"next,omitempty" doc:"The cursor of the next page"`
	}
}

func listTasks(ctx context.Context, c caller, in *listTasksInput) (*listTasksOutput, error) {
	return listKind(ctx, c, store.Query{Kinds: []session.Kind{session.KindTask}, TaskStatuses: in.Status, Limit: in.Limit, Cursor: in.Cursor})
}

// listKind lists the headers of tasks or runs.
func listKind(ctx context.Context, c caller, q store.Query) (*listTasksOutput, error) {
	page, err := c.rt.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &listTasksOutput{}
	out.Body.Items, out.Body.Next = append(session.Infos{}, page.Items...), page.Next
	return out, nil
}
