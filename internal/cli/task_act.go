package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// working makes the work of a command that goes on with a task.
func (p *program) working(fn func(ctx context.Context, d *taskEnv, row task.Row, args []string) (task.Row, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p.AgentsRun = true
		return p.WithEnv(cmd.Context(), func(h *setup.Env) (err error) {
			d, err := p.openTaskEnv(h)
			if err != nil {
				return err
			}
			defer func() { err = joined(err, d.close()) }()
			info, err := h.Resolve(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			row, err := d.Get(cmd.Context(), info.ID)
			if err == nil {
				row, err = d.Settle(cmd.Context(), row.ID)
			}
			if err != nil {
				return err
			}
			return p.work(cmd.Context(), d, row.ID, func(ctx context.Context) (task.Row, error) { return fn(ctx, d, row, args[1:]) })
		})
	}
}

func joined(err, more error) error {
	if err == nil {
		return more
	}
	return err
}

func (p *program) taskResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "resume ID", Short: "go on with a task", Args: cobra.ExactArgs(1),
		RunE: p.working(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) (task.Row, error) {
			res, err := d.Resume(ctx, row.ID)
			if res.Already {
				p.Err.Status("somebody is at work on it; see: holdfast task watch %s", display.ShortID(row.ID))
			}
			return res.Row, err
		}),
	}
}

func (p *program) taskContinueCommand() *cobra.Command {
	var (
		o      task.ContinueOptions
		tokens int64
		cost   float64
	)
	cmd := &cobra.Command{Use: "continue ID", Short: "go on in a new window of turns, with raised budgets", Args: cobra.ExactArgs(1)}
	cmd.Flags().IntVar(&o.LifetimeTurns, "lifetime-turns", 0, "turns in all; `N`")
	cmd.Flags().Int64Var(&tokens, "tokens", 0, "tokens in all; `N`")
	cmd.Flags().Float64Var(&cost, "cost", 0, "dollars in all; `X`")
	cmd.RunE = p.working(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) (task.Row, error) {
		if tokens > 0 {
			o.MaxTokens = &tokens
		}
		if cost > 0 {
			o.MaxCost = &cost
		}
		return d.Continue(ctx, row.ID, o)
	})
	return cmd
}

func (p *program) taskRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "retry ID", Short: "try a task once more", Args: cobra.ExactArgs(1),
		RunE: p.working(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) (task.Row, error) {
			return d.Retry(ctx, row.ID)
		}),
	}
}

func (p *program) taskCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID", Short: "end a task for good", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) error {
			row, err := d.Cancel(ctx, row.ID)
			if err != nil {
				return err
			}
			return p.said(row, "%s is %s", display.ShortID(row.ID), display.StatusText(row))
		}),
	}
}

func (p *program) taskWrapUpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "wrap-up ID", Short: "ask a task to finish with what it has", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) error {
			row, err := d.WrapUp(ctx, row.ID)
			if err != nil {
				return err
			}
			if status := task.Canonical(row.TaskRow); status == task.Executing || status == task.Planning {
				return p.said(row, "%s was asked to wrap up", display.ShortID(row.ID))
			}
			return p.said(row, "%s is %s", display.ShortID(row.ID), display.StatusText(row))
		}),
	}
}

// said tells a row, or a sentence about it.
func (p *program) said(row task.Row, format string, args ...any) error {
	if p.JSON {
		return p.PrintJSON(newTaskJSON(row))
	}
	return p.Out.Print(fmt.Sprintf(format, args...) + "\n")
}

func (p *program) taskFeedbackCommand() *cobra.Command {
	return &cobra.Command{
		Use: "feedback ID STEP retry|skip|stop|drift [TEXT]", Short: "say something about a step; STEP may be current", Args: cobra.RangeArgs(3, 4),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, args []string) error {
			f := session.StepFeedback{StepID: args[0], Action: args[1]}
			if len(args) > 2 {
				f.Message = args[2]
			}
			id, err := d.SetStepFeedback(ctx, row.ID, f)
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(map[string]string{"id": id})
			}
			return p.Out.Print(fmt.Sprintf("%s %s\n", f.Action, f.StepID))
		}),
	}
}

// taskAnswerCommand is approve or deny.
func (p *program) taskAnswerCommand(verb string) *cobra.Command {
	var (
		span string
		goOn bool
	)
	effect, action, short := "allow", session.RespondApprove, "allow what a task asks for, and go on with it"
	if verb == "deny" {
		effect, action, short = "deny", session.RespondDeny, "refuse what a task asks for"
	}
	cmd := &cobra.Command{Use: verb + " ID [APPROVAL]", Short: short, Args: cobra.RangeArgs(1, 2)}
	cmd.Flags().StringVar(&span, "for", "once", "`SPAN` of the answer: once, session, workspace or profile")
	if verb == "deny" {
		cmd.Flags().BoolVar(&goOn, "go-on", false, "tell the agent, which goes on without it")
	}
	cmd.RunE = p.working(func(ctx context.Context, d *taskEnv, row task.Row, args []string) (task.Row, error) {
		if !slices.Contains([]string{"once", "session", "workspace", "profile"}, span) {
			return row, &session.InvalidError{Field: "for", Reason: fmt.Sprintf("%q is none of once, session, workspace, profile", span)}
		}
		if task.Ended(row.TaskRow) {
			return row, &session.TaskError{ID: row.ID, Status: task.Canonical(row.TaskRow), Err: session.ErrTaskTerminal}
		}
		waiting, err := d.Pending(ctx, row.ID)
		if err != nil {
			return row, err
		}
		if len(waiting) == 0 && len(args) == 0 && task.Canonical(row.TaskRow) == task.Blocked {
			res, err := d.Resume(ctx, row.ID) // what it waited for has its response
			return res.Row, err
		}
		id, err := whichApproval(waiting, args)
		if err != nil {
			return row, err
		}
		r := session.Response{PendingID: id, Action: action, Choice: effect + "_" + span, By: "cli"}
		return d.Respond(ctx, row.ID, r, task.RespondOptions{GoOn: goOn})
	})
	return cmd
}

// whichApproval is the one that is meant: the named one, or the only one.
func whichApproval(waiting []session.PendingCall, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	var open []string
	for _, call := range waiting {
		open = append(open, call.ID)
	}
	switch len(open) {
	case 0:
		return "", &session.NotFoundError{What: "pending approval", Available: []string{}}
	case 1:
		return open[0], nil
	}
	return "", &session.InvalidError{Field: "approval", Reason: "several are open: " + strings.Join(open, ", ")}
}

func (p *program) taskModeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "mode ID MODE", Short: "set what a task may do on its own", Args: cobra.ExactArgs(2),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, args []string) error {
			if err := d.SetMode(ctx, row.ID, args[0]); err != nil {
				return err
			}
			return p.said(row, "%s works in mode %s", display.ShortID(row.ID), args[0])
		}),
	}
}

func (p *program) taskWorkspaceCommand() *cobra.Command {
	return &cobra.Command{
		Use: "workspace ID DIR", Short: "let a task work in another folder", Args: cobra.ExactArgs(2),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, args []string) error {
			w, err := setup.WorkspaceAt(args[0])
			if err != nil {
				return err
			}
			p.limitWorkspace(&w)
			if err := d.x.SetWorkspace(ctx, row.ID, w); err != nil {
				return err
			}
			return p.said(row, "%s works in %s", display.ShortID(row.ID), w.Root)
		}),
	}
}

func (p *program) taskChecklistCommand() *cobra.Command {
	var clearNudge bool
	cmd := &cobra.Command{
		Use: "checklist ID", Short: "print the agent's own list of what is to be done", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) error {
			if clearNudge {
				if err := d.clearReminder(ctx, row); err != nil {
					return err
				}
			}
			state, err := d.State(ctx, row.ID)
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(state.Checklist)
			}
			var b strings.Builder
			for _, item := range state.Checklist.Items {
				mark, c := display.StepMark(item.Status, -1)
				fmt.Fprintf(&b, "%s %s\n", p.Out.Paint(c, mark), terminal.OneLine(item.Title))
			}
			if r := state.Checklist.NudgeReason; r != nil {
				fmt.Fprintf(&b, "%s\n", p.Out.Paint(terminal.Yellow, terminal.OneLine(*r)))
			}
			if b.Len() == 0 {
				p.Err.Status("the agent has made no checklist")
			}
			return p.Out.Print(b.String())
		}),
	}
	cmd.Flags().BoolVar(&clearNudge, "clear-nudge", false, "take back the reminder to verify")
	return cmd
}
