package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/rules"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	taskkit "github.com/holdfast-dev/holdfast/task/kit"
	"github.com/holdfast-dev/holdfast/tool/shell"
	"github.com/holdfast-dev/holdfast/tool/web"
)

func (p *program) taskCommand() *cobra.Command {
	cmd := group("task", "give an agent a job: a plan, budgets, permissions, approvals",
		p.taskStartCommand(), p.taskListCommand(), p.taskShowCommand(), p.taskLogCommand(), p.taskWatchCommand(),
		p.taskSendCommand(), p.taskFeedbackCommand(), p.taskAnswerCommand("approve"), p.taskAnswerCommand("deny"),
		p.taskContinueCommand(), p.taskResumeCommand(), p.taskRetryCommand(), p.taskCancelCommand(), p.taskWrapUpCommand(),
		p.taskChecklistCommand(), p.taskRulesCommand(), p.taskTrustCommand(), p.taskModeCommand(), p.taskWorkspaceCommand(),
		p.taskSnapshotCommand(), p.taskExportCommand(), p.taskImportCommand(),
	)
	cmd.Long = `Give an agent a job and let it work: through a plan, under budgets and permissions. A task
survives the process; whoever resumes it goes on where it was, and a tool that ran is not
run again.

  holdfast task start "fix the failing test" --workspace . --check "go test ./..."
  holdfast task list                      what there is
  holdfast task show ID                   where one stands, and what to do next
  holdfast task approve ID                allow what it asks for, from any terminal
  holdfast task resume ID                 go on with one

` + refHelp
	p.AddNetworkFlag(cmd.PersistentFlags())
	return cmd
}

// tasks are the verbs on tasks that commands need. An executor has them, and so
// has the client of a server.
type tasks interface {
	Create(ctx context.Context, s task.Spec) (task.Row, error)
	Get(ctx context.Context, id string) (task.Row, error)
	Show(ctx context.Context, id string) (task.Row, error)
	List(ctx context.Context, f task.Filter) iter.Seq2[task.Row, error]
	State(ctx context.Context, id string) (session.TaskState, error)
	Pending(ctx context.Context, id string) ([]session.PendingCall, error)
	Settle(ctx context.Context, id string) (task.Row, error)

	Resume(ctx context.Context, id string) (task.ResumeResult, error)
	Continue(ctx context.Context, id string, o task.ContinueOptions) (task.Row, error)
	Retry(ctx context.Context, id string) (task.Row, error)
	Respond(ctx context.Context, id string, r session.Response, o task.RespondOptions) (task.Row, error)
	QueueFollowUp(ctx context.Context, id string, f session.FollowUp) (string, error)
	SetStepFeedback(ctx context.Context, id string, f session.StepFeedback) (string, error)
	WrapUp(ctx context.Context, id string) (task.Row, error)
	Cancel(ctx context.Context, id string) (task.Row, error)

	View(ctx context.Context, id string, version int64) (task.View, error)
	SetMode(ctx context.Context, id, mode string) error
	AddRule(ctx context.Context, id string, rule session.Rule) error
	RemoveRule(ctx context.Context, id string, rule session.Rule) error
}

// taskEnv is where tasks are worked on: an executor in a home, or a server, and
// then the rest is nil.
type taskEnv struct {
	tasks
	env   *setup.Env
	x     *task.Executor
	tools *taskkit.Registry
	rules *rules.Store
}

// close ends the tools of tasks.
func (d *taskEnv) close() error {
	if d.tools == nil {
		return nil
	}
	return d.tools.Close()
}

// work goes on with a task that was made a moment ago.
func (d *taskEnv) work(ctx context.Context, id string) (task.Row, error) {
	if d.env.Server != nil { // it works on it already
		return d.env.Server.Tasks().Wait(ctx, id)
	}
	res, err := d.Resume(ctx, id)
	return res.Row, err
}

// openTaskEnv opens the executor. The caller closes it.
func (p *program) openTaskEnv(h *setup.Env) (*taskEnv, error) {
	if h.Server != nil {
		return &taskEnv{tasks: h.Server.Tasks(), env: h}, nil
	}
	c := taskkit.Config{Shell: &shell.Config{Sandbox: p.NewSandboxConfig()}}
	if !p.NoWeb {
		c.Web = &web.Config{}
	}
	registry, err := taskkit.New(c)
	if err != nil {
		return nil, err
	}
	engine, err := setup.NewEngine()
	if err != nil {
		return nil, err
	}
	if p.AgentsRun {
		p.WarnUnsandboxed()
	}
	rules := p.NewRules(h.Runtime)
	x, err := task.New(h.Runtime, task.Config{Registry: registry, Engine: engine, Rules: rules, Warn: p.WarnEarly, Clock: p.Now, Snapshot: taskruntime.Snapshot})
	if err != nil {
		return nil, errors.Join(err, registry.Close())
	}
	return &taskEnv{tasks: x, x: x, env: h, tools: registry, rules: rules}, nil
}

// atWork makes the work of a command about tasks.
func (p *program) atWork(work func(ctx context.Context, d *taskEnv, args []string) error) func(*cobra.Command, []string) error {
	return p.InEnv(func(ctx context.Context, h *setup.Env, args []string) (err error) {
		d, err := p.openTaskEnv(h)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.close()) }()
		return work(ctx, d, args)
	})
}

// onTask makes the work of a command whose first argument is a task.
func (p *program) onTask(work func(ctx context.Context, d *taskEnv, row task.Row, args []string) error) func(*cobra.Command, []string) error {
	return p.atWork(func(ctx context.Context, d *taskEnv, args []string) error {
		info, err := d.env.Resolve(ctx, args[0])
		if err != nil {
			return err
		}
		row, err := d.Show(ctx, info.ID)
		if err != nil {
			return err
		}
		return work(ctx, d, row, args[1:])
	})
}

// restError is a task that came to rest before its end, or to an end that is
// not the one that was wanted.
type restError struct{ row task.Row }

// rest is the error of a row that is not simply done, nil for one that is.
func rest(row task.Row) error {
	if e := (&restError{row}); e.code() != exitOK {
		return e
	}
	return nil
}

func (e *restError) code() int {
	switch status := task.Canonical(e.row.TaskRow); {
	case status == task.Completed && e.row.TerminalStatus == task.TerminalPartial:
		return exitPartial
	case status == task.Completed && e.row.TerminalStatus == task.TerminalNeedsUser:
		return exitWaiting
	case status == task.Completed:
		return exitOK
	case status == task.Failed:
		return exitFailed
	case status == task.Cancelled:
		return exitCancelled
	case status == task.Interrupted:
		return exitInterrupted
	case e.row.FailureClass == task.ClassBudget:
		return exitPartial
	case status == task.Blocked, status == task.Paused:
		return exitWaiting
	}
	return exitOK // it is queued, or somebody else works on it
}

func (e *restError) Error() string {
	text := fmt.Sprintf("task %s is %s", display.ShortID(e.row.ID), display.StatusText(e.row))
	if e.row.Error != "" {
		text += ": " + terminal.OneLine(e.row.Error)
	}
	return text
}

// hint is what to do next.
func (e *restError) hint() string { return "next: " + display.NextForTask(e.row) }

// tellRow says what became of a task, and is its error where it is not done.
func (p *program) tellRow(row task.Row) error {
	if p.JSON {
		if err := p.PrintJSON(newTaskJSON(row)); err != nil {
			return err
		}
		return p.withoutText(rest(row))
	}
	notDone := rest(row)
	text := ""
	switch {
	case row.ResultSummary != "" && display.HasResult(row):
		text = strings.TrimRight(terminal.Printable(row.ResultSummary), "\n") + "\n"
	case notDone == nil:
		text = fmt.Sprintf("%s is %s\n", display.ShortID(row.ID), display.StatusText(row))
	}
	return errors.Join(p.Out.Print(text), notDone)
}

// withoutText is an error whose text is not told: standard output has it.
func (p *program) withoutText(err error) error {
	if err == nil {
		return nil
	}
	return &printedError{err}
}

// printedError is an error that has been told in full.
type printedError struct{ err error }

func (e *printedError) Error() string { return e.err.Error() }

func (e *printedError) Unwrap() error { return e.err }
