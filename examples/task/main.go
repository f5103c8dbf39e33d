// Command task shows a task from its beginning to its end, without a key and
// without a network: it is planned, asks a person, is killed, goes on in
// another process, fails its check, makes it good and is done.
//
// Three processes work on it, one after the other; this one watches, answers
// and kills. The model is a server on this machine that answers from a script
// (model.go). All else is what a real program would use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/task/kit"
)

const (
	taskID = "repair"
	check  = `grep -Eq '^timeout = [0-9]+$' service.ini && grep -q timeout CHANGES.md`

	// Set for the processes that work: the folder and the model's address.
	folderVariable = "HOLDFAST_EXAMPLE_DIR"
	modelVariable  = "HOLDFAST_EXAMPLE_MODEL"
)

func main() {
	dir := flag.String("dir", "", "work in this folder and leave everything there (default: a temporary one)")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "task:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if os.Getenv(folderVariable) != "" {
		return work(ctx)
	}
	return tell(ctx, os.Stdout, dir)
}

// desk is what every process opens: the store, and an executor on it.
type desk struct {
	*task.Executor
	rt    *holdfast.Runtime
	close func() error
}

func open(ctx context.Context, dir, model string) (*desk, error) {
	st, err := sqlite.Open(ctx, filepath.Join(dir, "tasks.db"), sqlite.Config{})
	if err != nil {
		return nil, err
	}
	m, err := openai.New(openai.Config{Model: "scripted", URL: model})
	if err != nil {
		return nil, err
	}
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"scripted": m}, DefaultModel: "scripted"})
	if err != nil {
		return nil, err
	}
	tools, err := kit.New(kit.Config{})
	if err != nil {
		return nil, err
	}
	x, err := task.New(rt, task.Config{Registry: tools})
	end := func() error { return errors.Join(tools.Close(), rt.Close(), st.Close()) } //nolint:contextcheck // what is open is closed whoever waits
	return &desk{x, rt, end}, err
}

// work is all that a process does which works on the task: it takes up
// whatever was left, and goes on until the task rests.
func work(ctx context.Context) (err error) {
	d, err := open(ctx, os.Getenv(folderVariable), os.Getenv(modelVariable))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if _, err := d.Settle(ctx, taskID); err != nil { // the one before may have been killed
		return err
	}
	_, err = d.Resume(ctx, taskID)
	return err
}

// tell runs the story and prints it.
func tell(ctx context.Context, out io.Writer, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "holdfast-task-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	workspace := filepath.Join(dir, "service")
	if err := os.MkdirAll(workspace, 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(workspace, "service.ini"), []byte("name = clock\ntimeout = 3O\n"), 0o600); err != nil {
		return err
	}
	m := startModel()
	defer m.Close()
	d, err := open(ctx, dir, m.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	_, err = d.Create(ctx, task.Spec{
		ID: taskID, Prompt: "The service does not start. Find out why, and repair it.",
		Workspace:       task.Workspace{ID: workspace, Root: workspace, Capabilities: map[string]bool{"shell": true}},
		SuccessCriteria: &task.SuccessCriteria{Type: "shell_command", Command: check},
	})
	if err != nil {
		return err
	}
	s := &story{desk: d, out: out, dir: dir, model: m}
	stop := s.watch(ctx)
	defer stop()
	return s.run(ctx)
}

// run is the story itself.
func (s *story) run(ctx context.Context) error {
	for _, part := range []func(context.Context) error{s.begin, s.answer, s.kill, s.finish} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) begin(ctx context.Context) error {
	if err := s.say(ctx, "A process begins to work."); err != nil {
		return err
	}
	return s.worker(ctx).Run()
}

func (s *story) answer(ctx context.Context) error {
	if err := s.say(ctx, "It has ended: the task waits for a person, in the store. Another process answers."); err != nil {
		return err
	}
	waiting, err := s.Pending(ctx, taskID)
	if err != nil {
		return err
	}
	if len(waiting) != 1 {
		return fmt.Errorf("%d calls wait for an approval, not one", len(waiting))
	}
	yes := session.Response{PendingID: waiting[0].ID, Action: session.RespondApprove, Choice: permission.AllowOnce, By: "you"}
	if _, err := s.Respond(ctx, taskID, yes, task.RespondOptions{NoRun: true}); err != nil {
		return err
	}
	return s.SetMode(ctx, taskID, session.PermissionAcceptEdits) // it need not ask for edits again
}

func (s *story) kill(ctx context.Context) error {
	if err := s.say(ctx, "A second process goes on."); err != nil {
		return err
	}
	second := s.worker(ctx)
	if err := second.Start(); err != nil {
		return err
	}
	select {
	case <-s.model.edited: // the file is edited, and the model has the next question
	case <-ctx.Done():
	}
	if err := second.Process.Kill(); err != nil {
		return err
	}
	_ = second.Wait() // it was killed
	return s.say(ctx, "It was killed (kill -9) while the model was thinking.")
}

func (s *story) finish(ctx context.Context) error {
	if err := s.say(ctx, "A third process goes on. The edit is done, and is not done again."); err != nil {
		return err
	}
	if err := s.worker(ctx).Run(); err != nil {
		return err
	}
	row, err := s.Get(ctx, taskID)
	if err != nil {
		return err
	}
	if row.Status != task.Completed {
		return fmt.Errorf("the task is %s: %s", row.Status, row.Error)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, "service", "service.ini"))
	if err != nil {
		return err
	}
	return s.say(ctx, "%s: %d turns, %d tool calls, %d edit of service.ini, which is now\n%s",
		row.Status, row.Projection.LifetimeTurnsUsed, row.Projection.BudgetUsage.ToolCalls, s.edited(), data)
}

// worker is a process that works on the task: this very program.
func (s *story) worker(ctx context.Context) *exec.Cmd {
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(os.Environ(), folderVariable+"="+s.dir, modelVariable+"="+s.model.URL)
	c.Stderr = os.Stderr
	return c
}
