package task_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

const (
	crashID     = "crashed"
	crashUpdate = "in brief, please"
)

// taskScenario is the task that crashing processes work on.
var taskScenario = crashtest.Scenario{
	Name: "task", Row: "task", Work: workOnTask,
	Prepare: func(context.Context, *crashtest.Run, store.Store) (any, error) { return nil, nil },
	Load:    loadTask,
	Once:    func(call string) bool { return call == "note-1" },
	CheckEnd: func(r, undisturbed *crashtest.Run) []error {
		effects, err := r.Effects()
		if err != nil {
			return []error{err}
		}
		plans := 0
		for _, e := range effects {
			if e.Key == "plan" {
				plans++
			}
		}
		return taskFaults(r.Last.State.(crashFound), undisturbed.Last.State.(crashFound), plans > 1)
	},
}

// taskWorker is a process, and the executor it works with.
type taskWorker struct {
	*crashtest.Worker
	x *task.Executor

	mu  sync.Mutex // guards ids
	ids int
}

// workOnTask brings the task to its end.
func workOnTask(ctx context.Context, process *crashtest.Worker) error {
	w := &taskWorker{Worker: process}
	rt, err := holdfast.New(holdfast.Config{Store: w.Store, Models: llm.Map{"m": modelFunc(w.answer)}, DefaultModel: "m", Poll: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	w.x, err = task.New(rt, task.Config{
		Clock: func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }, NewID: w.newID, Snapshots: task.SnapshotEveryStep,
		Registry: kit{
			toolOf("look", tool.Read, tool.ReadOnly, w.look),
			toolOf("note", tool.Write, tool.Once, w.note),
		},
	})
	if err == nil {
		err = w.finish(ctx)
	}
	return errors.Join(err, rt.Close())
}

// finish does what a user does who comes back: goes on, and allows what is
// asked for.
func (w *taskWorker) finish(ctx context.Context) error {
	if _, err := w.x.Get(ctx, crashID); errors.Is(err, session.ErrNotFound) {
		if _, err := w.x.Create(ctx, task.Spec{ID: crashID, Prompt: "look, note and tell"}); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	for range 3000 {
		row, err := w.x.Settle(ctx, crashID)
		if err != nil || task.Ended(row.TaskRow) {
			return err
		}
		if row.PendingApprovals > 0 {
			w.Point("blocked")
			view, viewErr := w.x.View(ctx, crashID, 0)
			if viewErr != nil {
				return viewErr
			}
			asked := view.Session.PendingCalls()[0]
			answer := responseOf(asked.ID, permission.AllowOnce, "ann")
			if asked.Kind == session.PendingQuestion {
				answer = replyTo(asked.ID, "all of it")
			}
			if _, err = w.x.Respond(ctx, crashID, answer, task.RespondOptions{NoRun: true}); err == nil {
				w.Point("answered: " + asked.CallID)
				err = w.recover(ctx)
			}
		} else {
			var result task.ResumeResult
			if result, err = w.x.Resume(ctx, crashID); result.Already { // by a process that is gone, until its lease is
				time.Sleep(10 * time.Millisecond)
			}
		}
		if err != nil && !errors.Is(err, session.ErrTaskTerminal) {
			return err
		}
	}
	return errors.New("the task does not come to an end")
}

// recover goes on with a task whose answer has come.
func (w *taskWorker) recover(ctx context.Context) error {
	found, err := w.x.Recover(ctx)
	for _, f := range found {
		err = errors.Join(err, f.Err)
	}
	return err
}

// answer is what the model says, by what it was told alone. Each answer begins
// with its name.
func (w *taskWorker) answer(_ context.Context, r llm.Request) (llm.Response, error) {
	key, response := w.reply(r)
	return response, w.Asked(key)
}

func (w *taskWorker) reply(r llm.Request) (string, llm.Response) {
	text := func(key, text string) (string, llm.Response) { return key, says("(" + key + ") " + text) }
	with := func(key, name, arguments string) (string, llm.Response) {
		response := callsTool(key+"-1", name, arguments)
		response.Content = session.Text("(" + key + ")")
		return key, response
	}
	call := func(key, name string) (string, llm.Response) { return with(key, name, "{}") }
	ask := func(key, arguments string) (string, llm.Response) { return with(key, "request_user_input", arguments) }
	if strings.Contains(lastText(r), "Make a plan") {
		return "plan", says(`{"description":"d","steps":[{"description":"look around"},{"description":"note it"},{"description":"tell of it"}]}`)
	}
	step, result := "", ""
	for _, m := range r.Messages {
		switch {
		case m.Role == session.RoleUser && strings.HasPrefix(m.Content.Text(), "Step "):
			step, result = m.Content.Text(), ""
		case m.ToolResult != nil:
			result = m.ToolResult.Content
		}
	}
	switch {
	case result == "" && strings.Contains(step, "tell of it"):
		return ask("ask", `{"question":"How much?"}`)
	case strings.Contains(step, "tell of it"):
		return text("tell", "that is all there is to say: "+result)
	case result == "" && strings.Contains(step, "look around"):
		return call("look", "look")
	case result == "" && strings.Contains(step, "note it"):
		return call("note", "note")
	case strings.Contains(step, "note it"):
		return text("noted", result)
	}
	return text("looked", result)
}

// look is a tool that may run again. While it runs, a user has more to say.
func (w *taskWorker) look(ctx context.Context, c tool.Call) (tool.Result, error) {
	if err := w.Began(c.ID); err != nil {
		return tool.Result{}, err
	}
	if _, err := w.x.QueueFollowUp(ctx, crashID, session.FollowUp{ID: "more", Message: crashUpdate}); err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Content: "all is there"}, w.Ended(c.ID)
}

// note is a tool that must not run again.
func (w *taskWorker) note(_ context.Context, c tool.Call) (tool.Result, error) {
	w.Point("tool starts: " + c.ID)
	return tool.Result{Content: "it is noted"}, errors.Join(w.Began(c.ID), w.Ended(c.ID))
}

func (w *taskWorker) newID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return fmt.Sprintf("id-%d-%d", w.Life, w.ids)
}
