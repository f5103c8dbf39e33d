package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

func (s *Server) addTaskSettings(tags []string) {
	register(s, apikey.Write, huma.Operation{
		OperationID: "set-task-mode", Method: http.MethodPut, Path: "/v1/tasks/{ref}/mode",
		Summary: "Set what a task may do on its own", Tags: tags,
		Description: "A mode that asks less than the default needs the scope approve as well. " + setsState,
	}, onTask(s, func(ctx context.Context, t taskCall, in *modeInput) (*taskOutput, error) {
		if err := s.permitMode(t.c, in.Body.Mode); err != nil {
			return nil, err
		}
		if err := t.SetMode(ctx, t.id, in.Body.Mode); err != nil {
			return nil, err
		}
		return t.shown(ctx)
	}))
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-task-rules", Method: http.MethodGet, Path: "/v1/tasks/{ref}/rules",
		Summary: "Read the permission rules of a task's own", Tags: tags,
	}, onTask(s, func(ctx context.Context, t taskCall, _ *SessionRef) (*rulesOutput, error) { return t.rules(ctx) }))
	for _, a := range []struct {
		path, id, summary string
		set               func(*task.Executor, context.Context, string, session.Rule) error
	}{
		{"", "add-task-rule", "Add a permission rule to a task", (*task.Executor).AddRule},
		{"/remove", "remove-task-rule", "Take a permission rule of a task back", (*task.Executor).RemoveRule},
	} {
		register(s, apikey.Approve, huma.Operation{
			OperationID: a.id, Method: http.MethodPost, Path: "/v1/tasks/{ref}/rules" + a.path,
			Summary: a.summary, Tags: tags, Description: setsState,
		}, onTask(s, func(ctx context.Context, t taskCall, in *ruleInput) (*rulesOutput, error) {
			if err := a.set(t.Executor, ctx, t.id, session.Rule{Effect: in.Body.Effect, Scope: in.Body.Scope}); err != nil {
				return nil, err
			}
			return t.rules(ctx)
		}))
	}
	register(s, apikey.Write, huma.Operation{
		OperationID: "clear-reminder", Method: http.MethodDelete, Path: "/v1/tasks/{ref}/checklist/reminder",
		Summary: "Take back the reminder to verify, of a task that nobody works on", Tags: tags, Description: repeatable,
	}, onTask(s, func(ctx context.Context, t taskCall, _ *SessionRef) (*checklistOutput, error) {
		if err := t.openIdle(ctx, func(r *task.Run) error { return r.ClearVerificationNudge(ctx) }); err != nil {
			return nil, err
		}
		state, err := t.State(ctx, t.id)
		return &checklistOutput{Body: state.Checklist}, err
	}))
	register(s, apikey.Write, huma.Operation{
		OperationID: "save-task-snapshot", Method: http.MethodPost, Path: "/v1/tasks/{ref}/snapshot", DefaultStatus: http.StatusCreated,
		Summary: "Leave a snapshot of a task, which nobody works on, in its log", Tags: tags,
	}, onTask(s, func(ctx context.Context, t taskCall, _ *keyedRef) (*snapshotOutput, error) {
		out := &snapshotOutput{}
		if t.repeated {
			i, err := t.c.rt.Info(ctx, t.id)
			out.Body.Seq = i.Seq
			return out, err
		}
		err := t.openIdle(ctx, func(r *task.Run) (err error) {
			out.Body.Seq, err = r.SaveSnapshot(ctx)
			return err
		})
		return out, err
	}))
	register(s, apikey.Write, huma.Operation{
		OperationID: "import-task", Method: http.MethodPost, Path: "/v1/tasks/import", DefaultStatus: http.StatusCreated,
		Summary: "Take in a task of another program", Tags: tags,
		Description: "A snapshot, a checkpoint, an array of events or JSON lines: what it is is seen from its content. It waits to be continued, in the workspace of the server. " +
			"With an id, repeating it changes nothing more.",
	}, s.importTask)
}

type modeInput struct {
	SessionRef
	Body struct {
		Mode string `json:"mode" minLength:"1"`
	}
}

// permitMode refuses a mode that would let a key that may not approve calls have
// them run unasked.
func (s *Server) permitMode(c caller, mode string) error {
	switch mode {
	case "", session.PermissionDefault, session.PermissionPlan, session.PermissionDontAsk:
		return nil
	}
	return c.Permit(apikey.Approve)
}

type ruleInput struct {
	SessionRef
	Body struct {
		Effect string        `json:"effect" enum:"allow,ask,deny"`
		Scope  session.Scope `json:"scope"`
	}
}

type rulesOutput struct {
	Body struct {
		Items []session.Rule `json:"items"`
	}
}

// rules returns the rules of the task's own.
func (t taskCall) rules(ctx context.Context) (*rulesOutput, error) {
	view, err := t.View(ctx, t.id, 0)
	if err != nil {
		return nil, err
	}
	out := &rulesOutput{}
	out.Body.Items = append([]session.Rule{}, view.Session.Permissions().SessionRules...)
	return out, nil
}

// openIdle opens the task if nobody works on it; otherwise it is a BusyError.
func (t taskCall) openIdle(ctx context.Context, fn func(*task.Run) error) error {
	lease, live, err := t.c.rt.Holder(ctx, t.id)
	if err != nil {
		return err
	}
	if live {
		return &session.BusyError{ID: t.id, Holder: lease.Holder, Until: lease.Until}
	}
	return t.Open(ctx, t.id, fn)
}

type snapshotOutput struct {
	Body struct {
		Seq int64 `json:"seq" doc:"The change that it is"`
	}
}

type importTaskInput struct {
	Body struct {
		Data  string `json:"data" minLength:"1" doc:"The content of the file"`
		ID    string `json:"id,omitempty" doc:"Of the task; a new one by default"`
		Model string `json:"model,omitempty" doc:"The model that works on it"`
	}
}

type importTaskOutput struct {
	Location string `header:"Location"`
	Body     taskruntime.Imported
}

func (s *Server) importTask(ctx context.Context, c caller, in *importTaskInput) (*importTaskOutput, error) {
	if s.config.Tasks == nil {
		return nil, noTasks()
	}
	x, err := s.executor(c)
	if err != nil {
		return nil, err
	}
	made, err := taskruntime.Import(ctx, x, []byte(in.Body.Data), taskruntime.ImportOptions{
		ID: in.Body.ID, Definition: session.Definition{Name: "task", Model: in.Body.Model}, Workspace: s.config.Tasks.Workspace, Now: s.config.Now,
	})
	if err != nil {
		return nil, err
	}
	return &importTaskOutput{Location: "/v1/tasks/" + made.Row.ID, Body: made}, nil
}
