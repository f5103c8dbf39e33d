package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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
	p.addNetworkFlag(cmd.PersistentFlags())
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

// workshop is where tasks are worked on: an executor in a home, or a server, and
// then the rest is nil.
type workshop struct {
	tasks
	h     *env
	x     *task.Executor
	tools *taskkit.Registry
	rules *rules.Store
}

// close ends the tools of tasks.
func (d *workshop) close() error {
	if d.tools == nil {
		return nil
	}
	return d.tools.Close()
}

// work goes on with a task that was made a moment ago.
func (d *workshop) work(ctx context.Context, id string) (task.Row, error) {
	if d.h.server != nil { // it works on it already
		return d.h.server.Tasks().Wait(ctx, id)
	}
	res, err := d.Resume(ctx, id)
	return res.Row, err
}

// workshop opens the executor. The caller closes it.
func (p *program) workshop(h *env) (*workshop, error) {
	if h.server != nil {
		return &workshop{tasks: h.server.Tasks(), h: h}, nil
	}
	c := taskkit.Config{Shell: &shell.Config{Sandbox: p.newSandboxConfig()}}
	if !p.noWeb {
		c.Web = &web.Config{}
	}
	registry, err := taskkit.New(c)
	if err != nil {
		return nil, err
	}
	engine, err := newEngine()
	if err != nil {
		return nil, err
	}
	if p.agentsRun {
		p.warnUnsandboxed()
	}
	rules := p.newRules(h.rt)
	x, err := task.New(h.rt, task.Config{Registry: registry, Engine: engine, Rules: rules, Warn: p.warnEarly, Clock: p.now, Snapshot: taskruntime.Snapshot})
	if err != nil {
		return nil, errors.Join(err, registry.Close())
	}
	return &workshop{tasks: x, x: x, h: h, tools: registry, rules: rules}, nil
}

// atWork makes the work of a command about tasks.
func (p *program) atWork(work func(ctx context.Context, d *workshop, args []string) error) func(*cobra.Command, []string) error {
	return p.inEnv(func(ctx context.Context, h *env, args []string) (err error) {
		d, err := p.workshop(h)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.close()) }()
		return work(ctx, d, args)
	})
}

// onTask makes the work of a command whose first argument is a task.
func (p *program) onTask(work func(ctx context.Context, d *workshop, row task.Row, args []string) error) func(*cobra.Command, []string) error {
	return p.atWork(func(ctx context.Context, d *workshop, args []string) error {
		info, err := d.h.Resolve(ctx, args[0])
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
	text := fmt.Sprintf("task %s is %s", shortID(e.row.ID), statusText(e.row))
	if e.row.Error != "" {
		text += ": " + oneLine(e.row.Error)
	}
	return text
}

// hint is what to do next.
func (e *restError) hint() string { return "next: " + nextForTask(e.row) }

// statusText is where a task stands, in words.
func statusText(row task.Row) string {
	status := task.Canonical(row.TaskRow)
	if row.TerminalStatus != "" && row.TerminalStatus != task.TerminalOK && row.TerminalStatus != status {
		return status + " (" + strings.ReplaceAll(row.TerminalStatus, "_", " ") + ")"
	}
	return status
}

// asksUser reports a task that rests until its question is answered.
func asksUser(row task.Row) bool {
	return task.Canonical(row.TaskRow) == task.Paused && row.AwaitingUserInputReasonCode != "" && row.PendingApprovals > 0
}

// nextForTask is the command that leads on.
func nextForTask(row task.Row) string {
	id := shortID(row.ID)
	switch status := task.Canonical(row.TaskRow); {
	case status == task.Blocked && row.PendingApprovals > 0:
		return "holdfast task approve " + id + " (or deny)"
	case asksUser(row):
		return "holdfast task send " + id + " \"…\""
	case status == task.Paused && row.FailureClass == task.ClassBudget:
		return "holdfast task continue " + id
	case status == task.Failed:
		return "holdfast task retry " + id
	case slices.Contains([]string{task.Completed, task.Cancelled}, status):
		return "holdfast task send " + id + " \"…\" opens another run"
	case status == task.Executing, status == task.Planning:
		return "holdfast task watch " + id
	}
	return "holdfast task resume " + id
}

// tellRow says what became of a task, and is its error where it is not done.
func (p *program) tellRow(row task.Row) error {
	if p.json {
		if err := p.printJSON(newTaskJSON(row)); err != nil {
			return err
		}
		return p.withoutText(rest(row))
	}
	notDone := rest(row)
	text := ""
	switch {
	case row.ResultSummary != "" && hasResult(row):
		text = strings.TrimRight(printable(row.ResultSummary), "\n") + "\n"
	case notDone == nil:
		text = fmt.Sprintf("%s is %s\n", shortID(row.ID), statusText(row))
	}
	return errors.Join(p.out.print(text), notDone)
}

// hasResult reports a task whose summary is its result: it has ended, or was
// asked to wrap up.
func hasResult(row task.Row) bool {
	n := len(row.StopReasons)
	return task.Ended(row.TaskRow) || row.Status == task.Interrupted && n > 0 && row.StopReasons[n-1] == string(task.StopWrapUp)
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

// terminal is the answer to a call that comes too late.
func late(err error) (session.TaskError, bool) {
	var ended *session.TaskError
	if errors.As(err, &ended) {
		return *ended, true
	}
	return session.TaskError{}, false
}
