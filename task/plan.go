package task

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// Statuses of a step.
const (
	stepPending    = "pending"
	stepInProgress = "in_progress"
	stepCompleted  = "completed"
	stepFailed     = "failed"
	stepSkipped    = "skipped"
)

// Ways to come to a plan.
const (
	PlanAuto = "auto" // the planner makes it
	PlanNone = "none" // one step: the prompt
)

// normalPlan is a plan as a task takes it: every step has an id of its own and
// a status. A plan without steps has one, the prompt.
func normalPlan(p session.Plan, prompt string) (session.Plan, error) {
	if len(p.Steps) == 0 {
		p.Steps = []session.PlanStep{{Description: prompt}}
	}
	p.Steps = slices.Clone(p.Steps)
	seen := map[string]bool{}
	for _, step := range p.Steps {
		if step.ID != "" && seen[step.ID] {
			return p, &session.InvalidError{Field: "plan", Reason: fmt.Sprintf("two steps have the id %q", step.ID)}
		}
		seen[step.ID] = true
	}
	next := 1
	for i := range p.Steps {
		step := &p.Steps[i]
		step.Description = strings.TrimSpace(step.Description)
		if step.Description == "" {
			return p, &session.InvalidError{Field: "plan", Reason: fmt.Sprintf("step %d has no description", i+1)}
		}
		if !slices.Contains([]string{"", "primary", "verification", "recovery"}, step.Kind) {
			return p, &session.InvalidError{Field: "plan", Reason: fmt.Sprintf("step %d is of the kind %q", i+1, step.Kind)}
		}
		switch {
		case step.Status == "":
			step.Status = stepPending
		case !slices.Contains([]string{stepPending, stepInProgress, stepCompleted, stepFailed, stepSkipped}, step.Status):
			return p, &session.InvalidError{Field: "plan", Reason: fmt.Sprintf("step %d has the status %q", i+1, step.Status)}
		}
		for step.ID == "" {
			if id := fmt.Sprintf("step-%d", next); !seen[id] {
				step.ID, seen[id] = id, true
			}
			next++
		}
	}
	if p.Description == "" {
		p.Description = title(prompt)
	}
	return p, nil
}

// SetPlan gives a task a plan, or replaces the steps that have not begun; those
// that have begun stay and must be part of the new plan. Somebody who works on
// the task is a BusyError: nothing was changed.
func (x *Executor) SetPlan(ctx context.Context, id string, p session.Plan) (session.Plan, error) {
	err := x.hold(ctx, id, func(ctx context.Context, r *Run) error {
		row := r.row()
		if Ended(row) {
			return endedError(id, row)
		}
		next, err := replacePlan(r.state().Plan, p, row.Prompt)
		if err != nil {
			return err
		}
		p = next
		return r.seal(ctx, "task.plan", edit{changes: []session.Change{event("plan_revised", planEvent{Plan: next, Reason: "set by a person"})}})
	})
	return p, err
}

// replacePlan is a new plan with the steps of the old one that have begun as
// they are.
func replacePlan(old *session.Plan, p session.Plan, prompt string) (session.Plan, error) {
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps { // what became of a step is not for the caller to say
		p.Steps[i] = session.PlanStep{ID: p.Steps[i].ID, Description: p.Steps[i].Description, Kind: p.Steps[i].Kind}
	}
	p, err := normalPlan(p, prompt)
	if err != nil {
		return p, err
	}
	for _, begun := range orPlan(old).Steps {
		if begun.Status == stepPending {
			continue
		}
		i := slices.IndexFunc(p.Steps, func(s session.PlanStep) bool { return s.ID == begun.ID })
		if i < 0 {
			return p, &session.InvalidError{Field: "plan", Reason: fmt.Sprintf("the step %q has begun and is missing", begun.ID)}
		}
		p.Steps[i] = begun
	}
	return p, nil
}

// revised is a plan with one step replaced.
func revised(p *session.Plan, step session.PlanStep) session.Plan {
	next := session.Plan{Description: p.Description, Steps: slices.Clone(p.Steps)}
	for i := range next.Steps {
		if next.Steps[i].ID == step.ID {
			next.Steps[i] = step
		}
	}
	return next
}

// untried returns a step as it was before it began.
func untried(s session.PlanStep) session.PlanStep {
	return session.PlanStep{ID: s.ID, Description: s.Description, Kind: s.Kind, Status: stepPending, VerificationAttempts: s.VerificationAttempts}
}

// nextStep is the one that runs, or the first that is to run.
func nextStep(p *session.Plan) (session.PlanStep, bool) {
	for _, status := range []string{stepInProgress, stepPending} {
		for _, step := range p.Steps {
			if step.Status == status {
				return step, true
			}
		}
	}
	return session.PlanStep{}, false
}

// plan makes the task's plan and a version with it.
func (x *Executor) plan(ctx context.Context, r *Run) error {
	made, err := x.planned(ctx, r)
	if err != nil {
		return err
	}
	return r.seal(ctx, "task.plan", edit{
		changes: []session.Change{event("plan_created", planEvent{Plan: made}), event("executing", note{Message: executingText})},
		row:     func(row *session.TaskRow) { row.Status = Executing },
	})
}

func (x *Executor) planned(ctx context.Context, r *Run) (session.Plan, error) {
	prompt := r.row().Prompt
	if r.state().Settings.PlanMode == PlanNone {
		return normalPlan(session.Plan{}, prompt)
	}
	planner := x.c.Planner
	if planner == nil {
		planner = asks{r}
	}
	planning, stop := r.listening(ctx)
	defer stop()
	made, err := planner.Plan(planning, r.spec(), r.session().WindowMessages())
	if err != nil {
		if cause := context.Cause(planning); cause != nil {
			return made, cause
		}
		return made, err
	}
	for i := range made.Steps { // a plan begins with nothing done
		made.Steps[i].Status = stepPending
	}
	return normalPlan(made, prompt)
}

// spec is the job as it was given.
func (r *Run) spec() Spec {
	row, state := r.row(), r.state()
	budget, auto := r.budget(), state.Settings.AutoResume
	return Spec{
		ID: r.ID(), Title: row.Title, Prompt: row.Prompt, Workspace: r.workspace(), ExecutionMode: row.ExecutionMode,
		PermissionMode: r.session().Permissions().Mode, Budget: &budget, PlanMode: state.Settings.PlanMode, SuccessCriteria: criteria(row),
		MaxAttempts: row.MaxAttempts, AutoResume: &auto, Deep: state.Settings.Deep, Definition: r.session().Definition(),
	}
}

// asks is the planner that asks the task's model. An answer that is no plan is
// asked for once more; after that the prompt is the plan.
type asks struct{ r *Run }

// planTries is how often the model is asked for a plan.
const planTries = 2

// Plan asks the model.
func (a asks) Plan(ctx context.Context, s Spec, window []session.Message) (session.Plan, error) {
	r := a.r
	name, model, err := r.x.rt.Model(r.session().Model())
	if err != nil {
		return session.Plan{}, err
	}
	messages := append(slices.Clone(window), session.Message{
		ID: "planning", Role: session.RoleUser, CreatedAt: r.x.c.Clock(), Content: session.Text(planRequestText),
	})
	for range planTries {
		if err := r.checkBudgets(ctx); err != nil {
			return session.Plan{}, err
		}
		response, err := r.ask(ctx, model, llm.Request{
			Model: name, System: planSystemText, Messages: session.Sendable(messages), Params: r.session().ModelParams(),
		})
		if err != nil {
			return session.Plan{}, err
		}
		if err := r.append(ctx, r.counted(spent{response.Model, response.Usage, response.Cost})); err != nil {
			return session.Plan{}, err
		}
		if made, ok := planIn(response.Content.Text()); ok {
			return made, nil
		}
		if !response.Content.Blank() {
			messages = append(messages, session.Message{ID: r.x.c.NewID(), Role: session.RoleAssistant, Content: response.Content})
		}
		messages = append(messages, session.Message{
			ID: "planning-again", Role: session.RoleUser, CreatedAt: r.x.c.Clock(), Content: session.Text(planAgainText),
		})
	}
	return session.Plan{Steps: []session.PlanStep{{Description: s.Prompt}}}, nil
}

// planIn finds a plan in an answer: the JSON object in it, whatever stands
// around.
func planIn(text string) (session.Plan, bool) {
	from, to := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if from < 0 || to < from {
		return session.Plan{}, false
	}
	var answer struct {
		Description string `json:"description"`
		Steps       []struct {
			Description string `json:"description"`
			Kind        string `json:"kind"`
		} `json:"steps"`
	}
	if json.Unmarshal([]byte(text[from:to+1]), &answer) != nil || len(answer.Steps) == 0 {
		return session.Plan{}, false
	}
	p := session.Plan{Description: answer.Description}
	for _, s := range answer.Steps {
		if strings.TrimSpace(s.Description) == "" {
			return session.Plan{}, false
		}
		kind := s.Kind
		if kind != "primary" && kind != "verification" {
			kind = ""
		}
		p.Steps = append(p.Steps, session.PlanStep{Description: s.Description, Kind: kind})
	}
	return p, true
}
