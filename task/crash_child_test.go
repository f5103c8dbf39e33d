package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

const (
	crashWhole    = "crash.whole"
	crashVariable = "HOLDFAST_CRASH_TASK" // holds the job of a process that is to crash, as JSON
	crashID       = "crashed"
	crashTrace    = "trace"
	crashUpdate   = "in brief, please"
)

// TestMain is also where processes begin that the crash tests start to kill
// them: this very binary, with a job.
func TestMain(m *testing.M) {
	if raw, ok := os.LookupEnv(crashVariable); ok {
		os.Exit(crashWork(raw))
	}
	flag.Bool(crashWhole, false, "kill tasks at every moment, not at a sample of them")
	os.Exit(m.Run())
}

// crashJob is what a process is started for: to bring the task to its end.
type crashJob struct {
	Dir      string // of the store and the trace
	Life     int    // how many processes worked on it before
	DieAt    string // the moment at which it kills itself
	DieWrite int    // the same for a write point of the store, counted from 1
	Record   bool   // its moments go to the trace
}

// crasher is whoever does a job.
type crasher struct {
	crashJob
	rt *holdfast.Runtime
	x  *task.Executor

	mu     sync.Mutex // guards what follows, and makes moments come one by one
	writes int
	ids    int
}

func crashWork(raw string) int {
	w := &crasher{}
	err := json.Unmarshal([]byte(raw), &w.crashJob)
	if err == nil {
		err = w.workOnDisk(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (w *crasher) workOnDisk(ctx context.Context) (err error) {
	st, err := sqlite.Open(ctx, filepath.Join(w.Dir, "tasks.db"), sqlite.Config{OnWrite: w.onWrite})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }() //nolint:contextcheck // what is open is closed whoever waits
	return w.work(ctx, st)
}

// work opens everything, brings the task to its end and closes everything.
func (w *crasher) work(ctx context.Context, st store.Store) (err error) {
	w.rt, err = holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"m": modelFunc(w.answer)}, DefaultModel: "m", Poll: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.rt.Close()) }()
	w.x, err = task.New(w.rt, task.Config{
		Clock: func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }, NewID: w.newID, Snapshot: seqSnapshot, Snapshots: task.SnapshotEveryStep,
		Registry: kit{
			toolOf("look", permission.Read, tool.ReadOnly, w.look),
			toolOf("note", permission.Write, tool.Once, w.note),
		},
	})
	if err != nil {
		return err
	}
	return w.finish(ctx)
}

// finish brings the task to its end, whatever it has come to: a user who comes
// back, goes on and allows what is asked for.
func (w *crasher) finish(ctx context.Context) error {
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
		state, err := w.x.State(ctx, crashID)
		if err != nil {
			return err
		}
		if row.PendingApprovals > 0 {
			w.moment("blocked")
			_, err = w.x.Respond(ctx, crashID, state.Approvals[0].ID, permission.AllowOnce, "ann", task.RespondOptions{})
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

// answer is what the model says, by what it was told alone. Each answer begins
// with its name.
func (w *crasher) answer(_ context.Context, r llm.Request) (llm.Response, error) {
	key, response := w.reply(r)
	w.trace("asked", key)
	w.moment("asked " + key)
	return response, nil
}

func (w *crasher) reply(r llm.Request) (string, llm.Response) {
	text := func(key, text string) (string, llm.Response) { return key, says("(" + key + ") " + text) }
	call := func(key, name string) (string, llm.Response) {
		response := callsTool(key+"-1", name, "{}")
		response.Content = session.Text("(" + key + ")")
		return key, response
	}
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
	case strings.Contains(step, "tell of it"):
		return text("tell", "that is all there is to say")
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
func (w *crasher) look(ctx context.Context, c tool.Call) (tool.Result, error) {
	w.trace("began", c.ID)
	w.moment("began look")
	if _, err := w.x.QueueFollowUp(ctx, crashID, session.FollowUp{ID: "more", Message: crashUpdate}); err != nil {
		return tool.Result{}, err
	}
	w.moment("ended look")
	return tool.Result{Content: "all is there"}, nil
}

// note is a tool that must not run again.
func (w *crasher) note(_ context.Context, c tool.Call) (tool.Result, error) {
	w.moment("beginning note")
	w.trace("began", c.ID)
	w.moment("ended note")
	return tool.Result{Content: "it is noted"}, nil
}

func (w *crasher) newID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids++
	return fmt.Sprintf("id-%d-%d", w.Life, w.ids)
}

var crashIDs = regexp.MustCompile(`id-\d+-\d+`)

// trace writes a line that outlives the process.
func (w *crasher) trace(what, key string) {
	f, err := os.OpenFile(filepath.Join(w.Dir, crashTrace), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s\t%s\t%d\n", what, key, w.Life)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

// onWrite is a write point of the store.
func (w *crasher) onWrite(string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if w.Record {
		w.trace("write", fmt.Sprint(w.writes))
	}
	if w.writes == w.DieWrite {
		die()
	}
}

// moment is any other point to die at.
func (w *crasher) moment(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Record {
		w.trace("moment", name)
	}
	if name == w.DieAt {
		die()
	}
}
