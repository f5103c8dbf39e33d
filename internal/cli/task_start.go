package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// jobOrder is what a command line wants of a task.
type jobOrder struct {
	title, workspace, mode, permissions, plan, check, model string
	maxTurns, lifetimeTurns                                 int
	tokens                                                  int64
	cost                                                    float64
	deep, detach                                            bool
}

func (p *program) taskStartCommand() *cobra.Command {
	o := &jobOrder{}
	cmd := &cobra.Command{
		Use: "start PROMPT", Short: "begin a task and work on it", Args: cobra.ExactArgs(1),
		Long: `Begin a task and work on it. What it does is shown on standard error, its result goes to
standard output. At a terminal it asks you when it may not do something on its own; elsewhere
it stops there, and any other process may answer: exit code 19.

Ctrl-C asks the agent to wrap up; a second Ctrl-C interrupts it, and the task can be resumed.
With --server the server works on it, in its own workspace: a second Ctrl-C leaves it to that.
PROMPT - reads the job from standard input.`,
		PreRun: func(*cobra.Command, []string) { p.AgentsRun = true },
	}
	f := cmd.Flags()
	f.StringVar(&o.title, "title", "", "a short `NAME` (default: the beginning of PROMPT)")
	f.StringVar(&o.workspace, "workspace", "", "the `DIR` it may work in (default: none, so no files and no shell)")
	f.StringVar(&o.mode, "mode", "execute", "execute, chat, plan, analyze, verified or debug")
	f.StringVar(&o.permissions, "permission-mode", "default", "plan, default, dont_ask, accept_edits, dangerous_only, allow_known or bypass_permissions")
	f.IntVar(&o.maxTurns, "max-turns", 0, "turns of one window; `N`")
	f.IntVar(&o.lifetimeTurns, "lifetime-turns", 0, "turns in all; `N`")
	f.Int64Var(&o.tokens, "tokens", 0, "tokens in all; `N`")
	f.Float64Var(&o.cost, "cost", 0, "dollars in all; `X`")
	f.BoolVar(&o.deep, "deep", false, "long work: more turns, longer steps")
	f.StringVar(&o.plan, "plan", "auto", "auto, none, or a JSON `FILE` with {description, steps: [{description}]}")
	f.StringVar(&o.check, "check", "", "the task is done only when this `CMD` succeeds in the workspace")
	f.StringVar(&o.model, "model", "", "the `MODEL` that works on it (default $HOLDFAST_MODEL)")
	f.BoolVar(&o.detach, "detach", false, "make the task and leave it to \"task resume\" or \"holdfast recover\"")
	p.addAgentsFileFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.WithEnv(cmd.Context(), func(h *setup.Env) error { return p.startTask(cmd, h, o, args[0]) })
	}
	return cmd
}

func (p *program) startTask(cmd *cobra.Command, h *setup.Env, o *jobOrder, arg string) (err error) {
	d, err := p.openTaskEnv(h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := p.checkTaskModel(h, o.model); err != nil {
		return err
	}
	prompt, err := p.ReadText(cmd.Context(), arg)
	if err != nil {
		return err
	}
	spec, err := o.spec(prompt)
	if err != nil {
		return err
	}
	p.limitWorkspace(&spec.Workspace)
	row, err := d.Create(cmd.Context(), spec)
	if err != nil {
		return err
	}
	if o.detach {
		return p.tellRow(row)
	}
	return p.work(cmd.Context(), d, row.ID, func(ctx context.Context) (task.Row, error) {
		return d.work(ctx, row.ID)
	})
}

// limitWorkspace switches off what the command line does, also for whoever
// resumes the task.
func (p *program) limitWorkspace(w *task.Workspace) {
	for capability, off := range map[string]bool{"network": p.NoWeb, task.CapabilityAgentsFile: !p.readsAgentsFile()} {
		if !off {
			continue
		}
		if w.Capabilities == nil {
			w.Capabilities = map[string]bool{}
		}
		w.Capabilities[capability] = false
	}
}

// checkTaskModel refuses a task that no model could do. The built-in model only
// repeats what it is told, so it has to be named.
func (p *program) checkTaskModel(h *setup.Env, model string) error {
	if h.Server != nil {
		return nil
	}
	if model == "" && h.Model == offline.Name && p.Getenv("HOLDFAST_MODEL") == "" {
		return &setup.UnavailableError{
			What: "a task needs a model and none is named", Remedy: "give --model or \"holdfast config set model …\", or set the key of a provider; see: holdfast models list",
		}
	}
	if model == "" {
		return h.CheckDefaultModel()
	}
	_, err := h.Models.Model(model)
	if errors.Is(err, session.ErrNotFound) {
		return &setup.UnknownModelError{By: "--model", Err: err}
	}
	return err
}

// spec is the job as the command line says it.
func (o *jobOrder) spec(prompt string) (task.Spec, error) {
	s := task.Spec{
		Title: o.title, Prompt: prompt, ExecutionMode: o.mode, PermissionMode: o.permissions, Deep: o.deep,
		Definition: session.Definition{Name: "task", Model: o.model},
		Budget:     &task.Budget{MaxTurns: o.maxTurns, LifetimeTurns: o.lifetimeTurns},
	}
	if o.tokens > 0 {
		s.Budget.MaxTokens = &o.tokens
	}
	if o.cost > 0 {
		s.Budget.MaxCost = &o.cost
	}
	if o.check != "" {
		s.SuccessCriteria = &task.SuccessCriteria{Type: "shell_command", Command: o.check}
	}
	if o.workspace != "" {
		var err error
		if s.Workspace, err = setup.WorkspaceAt(o.workspace); err != nil {
			return s, err
		}
	}
	switch o.plan {
	case task.PlanAuto, task.PlanNone:
		s.PlanMode = o.plan
		return s, nil
	}
	data, err := os.ReadFile(o.plan)
	if err != nil {
		return s, fmt.Errorf("read the plan: %w", err)
	}
	s.Plan = &session.Plan{}
	if err := json.Unmarshal(data, s.Plan); err != nil {
		return s, &session.InvalidError{Field: "plan", Reason: fmt.Sprintf("%s is no plan: %v", o.plan, err)}
	}
	return s, nil
}

// work shows a task while fn works on it, asks the person who is there what it
// asks for, and says what became of it. The first Ctrl-C asks to wrap up, the
// second interrupts.
func (p *program) work(ctx context.Context, d *taskEnv, id string, fn func(context.Context) (task.Row, error)) error {
	v, err := display.WatchTask(ctx, p.Console, d, d.env, id)
	if err != nil {
		return err
	}
	row, err := p.patiently(ctx, d, id, v, fn)
	asks := func() bool { return task.Canonical(row.TaskRow) == task.Blocked || display.AsksUser(row) }
	for err == nil && asks() && p.In.Terminal && p.Err.Terminal && !p.JSON {
		var answered bool
		if row, answered, err = p.askPerson(ctx, d, row, v); !answered {
			break
		}
	}
	v.End(ctx)
	if errors.Is(err, session.ErrInterrupted) && row.Status == task.Interrupted {
		err = nil // the row says so
	}
	if err != nil {
		return err
	}
	return p.tellRow(row)
}

// patiently works until the task rests, through the signals that may come.
func (p *program) patiently(ctx context.Context, d *taskEnv, id string, v *display.TaskView, fn func(context.Context) (task.Row, error)) (task.Row, error) {
	type result struct {
		row task.Row
		err error
	}
	working, interrupt := context.WithCancel(ctx)
	defer interrupt()
	done := make(chan result, 1)
	go func() {
		row, err := fn(working)
		done <- result{row, err}
	}()
	first, stop := p.Interrupts.Watch(ctx)
	select {
	case r := <-done:
		stop()
		return r.row, r.err
	case <-first.Done():
		stop()
	}
	second, stop := p.Interrupts.Watch(ctx)
	defer stop()
	if _, err := d.WrapUp(ctx, id); err != nil {
		v.Say("%v; Ctrl-C again interrupts", err)
	} else {
		v.Say("asked to wrap up; Ctrl-C again interrupts") // it is: whoever reads it may rely on it
	}
	select {
	case r := <-done:
		return r.row, r.err
	case <-second.Done():
		interrupt()
		r := <-done
		return r.row, r.err
	}
}
