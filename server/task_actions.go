package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

func (s *Server) addTaskActions(tags []string) {
	background := workResponses[task.Row](s)
	register(s, apikey.Write, huma.Operation{
		OperationID: "continue-task", Method: http.MethodPost, Path: "/v1/tasks/{ref}/continue",
		Summary: "Continue a task", Tags: tags, Responses: background,
		Description: "A task that was interrupted, or whose calls have their responses, continues where it was. One whose budget is used up continues in a new window; the body may raise its budgets.",
	}, onTask(s, continueTask))
	register(s, apikey.Write, huma.Operation{
		OperationID: "retry-task", Method: http.MethodPost, Path: "/v1/tasks/{ref}/retry",
		Summary: "Try a task once more", Tags: tags, Responses: background,
		Description: "Its failed steps are pending again, or all of them where nothing is left to do. A task that has ended begins another run.",
	}, onTask(s, func(ctx context.Context, t taskCall, _ *keyedRef) (*taskOutput, error) {
		return t.work(ctx, func(ctx context.Context) error { _, err := t.Retry(ctx, t.id); return err })
	}))
	register(s, apikey.Write, huma.Operation{
		OperationID: "send-to-task", Method: http.MethodPost, Path: "/v1/tasks/{ref}/messages", DefaultStatus: http.StatusAccepted,
		Summary: "Leave a message for a task", Tags: tags,
		Description: "Whoever works on the task takes it. A message to a task that has ended opens another run, which somebody has to continue.",
	}, onTask(s, sendToTask))
	register(s, apikey.Write, huma.Operation{
		OperationID: "give-feedback", Method: http.MethodPost, Path: "/v1/tasks/{ref}/feedback", DefaultStatus: http.StatusAccepted,
		Summary: "Say something about a step of a task", Tags: tags,
	}, onTask(s, giveFeedback))
	register(s, apikey.Write, huma.Operation{
		OperationID: "wrap-up-task", Method: http.MethodPost, Path: "/v1/tasks/{ref}/wrap-up", DefaultStatus: http.StatusAccepted,
		Summary: "Ask a task to finish with what it has", Tags: tags,
	}, onTask(s, func(ctx context.Context, t taskCall, _ *keyedRef) (*taskOutput, error) {
		return t.accept(ctx, t.WrapUp)
	}))
	register(s, apikey.Write, huma.Operation{
		OperationID: "cancel-task", Method: http.MethodPost, Path: "/v1/tasks/{ref}/cancel", DefaultStatus: http.StatusAccepted,
		Summary: "End a task for good", Tags: tags,
		Description: "Whoever works on it is told and waited for a moment; the row may not show the end yet.",
	}, onTask(s, func(ctx context.Context, t taskCall, _ *keyedRef) (*taskOutput, error) {
		return t.accept(ctx, t.Cancel)
	}))
	register(s, apikey.Read, huma.Operation{
		OperationID: "respond-to-task", Method: http.MethodPost, Path: "/v1/tasks/{ref}/pending/{id}",
		Summary: "Respond to a call of a task, and continue it", Tags: tags, Responses: background,
		Description: "As the response to a call of any session; rules that a choice adds are kept. A denied call pauses the task, unless goOn is set. " +
			"Approving or denying needs the scope approve, answering and giving results the scope write.",
	}, onTask(s, respondToTask))
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-task-state", Method: http.MethodGet, Path: "/v1/tasks/{ref}/state",
		Summary: "Read everything that a task has come to, and what it waits for", Tags: tags,
	}, onTask(s, func(ctx context.Context, t taskCall, _ *SessionRef) (*taskStateOutput, error) {
		out := &taskStateOutput{}
		state, err := t.State(ctx, t.id)
		if err != nil {
			return nil, err
		}
		waiting, err := t.Pending(ctx, t.id)
		out.Body.State, out.Body.Pending = state, append([]session.PendingCall{}, waiting...)
		return out, err
	}))
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-plan", Method: http.MethodGet, Path: "/v1/tasks/{ref}/plan",
		Summary: "Read the plan of a task", Tags: tags,
	}, onTask(s, func(ctx context.Context, t taskCall, _ *SessionRef) (*planOutput, error) {
		state, err := t.State(ctx, t.id)
		if err != nil {
			return nil, err
		}
		if state.Plan == nil {
			return nil, &session.NotFoundError{What: "plan of the task", ID: t.id}
		}
		return &planOutput{Body: *state.Plan}, nil
	}))
	register(s, apikey.Write, huma.Operation{
		OperationID: "set-plan", Method: http.MethodPut, Path: "/v1/tasks/{ref}/plan",
		Summary: "Set the plan of a task that nobody works on", Tags: tags,
		Description: "Steps that have begun stay and must be part of it. " + setsState,
	}, onTask(s, func(ctx context.Context, t taskCall, in *planInput) (*planOutput, error) {
		plan, err := t.SetPlan(ctx, t.id, *in.Body.plan())
		return &planOutput{Body: plan}, err
	}))
	register(s, apikey.Read, huma.Operation{
		OperationID: "get-checklist", Method: http.MethodGet, Path: "/v1/tasks/{ref}/checklist",
		Summary: "Read the list that a task's agent keeps for itself", Tags: tags,
	}, onTask(s, func(ctx context.Context, t taskCall, _ *SessionRef) (*checklistOutput, error) {
		state, err := t.State(ctx, t.id)
		return &checklistOutput{Body: state.Checklist}, err
	}))
	register(s, apikey.Write, huma.Operation{
		OperationID: "set-checklist", Method: http.MethodPut, Path: "/v1/tasks/{ref}/checklist",
		Summary: "Replace the checklist of a task that nobody works on", Tags: tags, Description: setsState,
	}, onTask(s, setChecklist))
}

// workResponses documents that a request sets work going, with what it answers.
func workResponses[T any](s *Server) map[string]*huma.Response {
	schemas := s.api.OpenAPI().Components.Schemas
	body := func(text string) *huma.Response {
		return &huma.Response{Description: text, Content: map[string]*huma.MediaType{"application/json": {Schema: schemaOf[T](schemas)}}}
	}
	return map[string]*huma.Response{
		"200":     body("The work has ended already"),
		"202":     body("The work has begun, and its beginning is saved"),
		"default": s.problemResponse("Nothing was saved"),
	}
}

// keyedRef names a session in a request that changes it.
type keyedRef struct {
	SessionRef
	KeyHeader
}

type continueTaskInput struct {
	SessionRef
	KeyHeader
	Body *continueTaskBody // nil: budgets stay as they are
}

type continueTaskBody struct {
	LifetimeTurns int      `json:"lifetimeTurns,omitempty" minimum:"0" doc:"Turns in all"`
	MaxTokens     *int64   `json:"maxTokens,omitempty" minimum:"1" doc:"Tokens in all"`
	MaxCost       *float64 `json:"maxCost,omitempty" minimum:"0" doc:"Dollars in all"`
}

func continueTask(ctx context.Context, t taskCall, in *continueTaskInput) (*taskOutput, error) {
	row, err := t.Get(ctx, t.id)
	if err != nil {
		return nil, err
	}
	var o task.ContinueOptions
	if in.Body != nil {
		o = task.ContinueOptions{LifetimeTurns: in.Body.LifetimeTurns, MaxTokens: in.Body.MaxTokens, MaxCost: in.Body.MaxCost}
	}
	renews := in.Body != nil || task.Canonical(row.TaskRow) == task.Paused && row.FailureClass == task.ClassBudget
	return t.work(ctx, func(ctx context.Context) error {
		if renews {
			_, err := t.Continue(ctx, t.id, o)
			return err
		}
		_, err := t.Resume(ctx, t.id)
		return err
	})
}

type sendToTaskInput struct {
	SessionRef
	KeyHeader
	Body struct {
		Text string `json:"text" minLength:"1"`
	}
}

// queuedOutput is a response to what was left for a task.
type queuedOutput struct {
	Location string `header:"Location"`
	Body     struct {
		ID string `json:"id" doc:"Of the inbox item"`
	}
}

func queuedOutputOf(id, item string) *queuedOutput {
	out := &queuedOutput{Location: "/v1/sessions/" + id + "/inbox"}
	out.Body.ID = item
	return out
}

func sendToTask(ctx context.Context, t taskCall, in *sendToTaskInput) (*queuedOutput, error) {
	return t.leave(ctx, func(ctx context.Context, item string) (string, error) {
		return t.QueueFollowUp(ctx, t.id, session.FollowUp{ID: item, Message: in.Body.Text})
	})
}

type feedbackInput struct {
	SessionRef
	KeyHeader
	Body struct {
		StepID  string `json:"stepId" minLength:"1" doc:"A step of the plan; current is the one that runs"`
		Action  string `json:"action" enum:"retry,skip,stop,drift"`
		Message string `json:"message,omitempty"`
	}
}

func giveFeedback(ctx context.Context, t taskCall, in *feedbackInput) (*queuedOutput, error) {
	return t.leave(ctx, func(ctx context.Context, item string) (string, error) {
		return t.SetStepFeedback(ctx, t.id, session.StepFeedback{ID: item, StepID: in.Body.StepID, Action: in.Body.Action, Message: in.Body.Message})
	})
}

type taskStateOutput struct {
	Body struct {
		State   session.TaskState     `json:"state"`
		Pending []session.PendingCall `json:"pending" doc:"Calls that have no response yet"`
	}
}

type respondToTaskInput struct {
	CallRef
	KeyHeader
	Body struct {
		ResponseBody
		GoOn bool `json:"goOn,omitempty" doc:"Tell the agent of a denial, which goes on without the call"`
	}
}

func respondToTask(ctx context.Context, t taskCall, in *respondToTaskInput) (*taskOutput, error) {
	r := in.Body.response(in.ID, t.c)
	if _, err := t.s.permitResponse(ctx, t.c, in.CallRef, r.Action); err != nil {
		return nil, err
	}
	return t.work(ctx, func(ctx context.Context) error {
		_, err := t.Respond(ctx, t.id, r, task.RespondOptions{GoOn: in.Body.GoOn})
		return err
	})
}

type planInput struct {
	SessionRef
	Body newPlan
}

type planOutput struct{ Body session.Plan }

type checklistInput struct {
	SessionRef
	Body struct {
		Items []task.ItemInput `json:"items"`
	}
}

type checklistOutput struct{ Body session.Checklist }

func setChecklist(ctx context.Context, t taskCall, in *checklistInput) (*checklistOutput, error) {
	out := &checklistOutput{}
	err := t.Open(ctx, t.id, func(r *task.Run) (err error) {
		if len(r.ChecklistItems()) == 0 {
			out.Body, err = r.CreateChecklist(ctx, in.Body.Items)
		} else {
			out.Body, err = r.UpdateChecklist(ctx, in.Body.Items)
		}
		return err
	})
	return out, err
}
