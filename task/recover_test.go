package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
)

const (
	childDB    = "HOLDFAST_TASK_CHILD_DB"
	childPhase = "HOLDFAST_TASK_CHILD_PHASE"
)

// die ends this process as nothing can keep from.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// journal is a file to which tools write that they ran.
func journal(dir string) *counter {
	c := &counter{name: "note"}
	c.do = func(context.Context) (tool.Result, error) {
		f, err := os.OpenFile(filepath.Join(dir, "ran"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return tool.Result{}, err
		}
		_, err = f.WriteString("x")
		return tool.Result{Content: "noted"}, errors.Join(err, f.Close())
	}
	return c
}

func ran(t *testing.T, dir string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "ran"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return len(data)
}

// TestChildOfRecovery is no test: it is the process that is killed.
func TestChildOfRecovery(t *testing.T) {
	dir, phase := os.Getenv(childDB), os.Getenv(childPhase)
	if dir == "" {
		t.Skip("it is run by others")
	}
	st, err := sqlite.Open(context.Background(), filepath.Join(dir, "tasks.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	note := journal(dir)
	run := note.do
	note.do = func(ctx context.Context) (tool.Result, error) {
		if phase == "before the tool" {
			die()
		}
		result, err := run(ctx)
		if phase == "after the tool" {
			die()
		}
		return result, err
	}
	h := houseOn(t, st, func(_ context.Context, n int, r llm.Request) (llm.Response, error) {
		switch {
		case strings.Contains(lastText(r), "Make a plan"):
			if phase == "planning" {
				die()
			}
			return says(`{"description":"d","steps":[{"description":"note it"},{"description":"tell of it"}]}`), nil
		case phase == "the first question", phase == "the second step" && strings.Contains(lastText(r), "tell of it"):
			die()
		}
		return answerOf(n, r), nil
	}, with(declared{note, tool.Write}))
	s := task.Spec{ID: "t1", Prompt: "note it", PermissionMode: "allow_known"}
	if phase == "waiting" {
		s.PermissionMode = "default"
	}
	if _, err := h.x.Start(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	die()
}

// answerOf is what the model of the tests says to a step.
func answerOf(n int, r llm.Request) llm.Response {
	last := r.Messages[len(r.Messages)-1]
	switch {
	case last.ToolResult != nil:
		return says("noted: " + last.ToolResult.Content)
	case strings.Contains(last.Content.Text(), "note it"):
		return callsTool(fmt.Sprintf("c%d", n), "note", "{}")
	}
	return says("told")
}

// killed runs a child to its end in a phase.
func killed(t *testing.T, phase string) string {
	t.Helper()
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildOfRecovery$") //nolint:gosec // it is this very program
	child.Env = append(os.Environ(), childDB+"="+dir, childPhase+"="+phase)
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child was not killed: %v\n%s", err, out)
	}
	return dir
}

func survivor(t *testing.T, dir string) *house {
	t.Helper()
	st, err := sqlite.Open(context.Background(), filepath.Join(dir, "tasks.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return houseOn(t, st, func(_ context.Context, n int, r llm.Request) (llm.Response, error) {
		if strings.Contains(lastText(r), "Make a plan") {
			return says(`{"description":"d","steps":[{"description":"note it"},{"description":"tell of it"}]}`), nil
		}
		return answerOf(100+n, r), nil
	}, with(declared{journal(dir), tool.Write}))
}

func TestRecover_afterAKillInAnyPhase(t *testing.T) {
	t.Parallel()
	for phase, want := range map[string]struct {
		before string // the row as the kill left it
		ran    int    // how often the tool ran in all
		plans  int
	}{
		"planning":           {"planning", 1, 1},
		"the first question": {"executing", 1, 1},
		"before the tool":    {"executing", 0, 1}, // whether it ran cannot be known: not again
		"after the tool":     {"executing", 1, 1},
		"the second step":    {"executing", 1, 1},
	} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			dir := killed(t, phase)
			h := survivor(t, dir)
			if row := h.row(); row.Status != want.before {
				t.Errorf("the kill left %s", row.Status)
			}
			h.recovered()
			h.stands("completed", "ok", "")
			if got := ran(t, dir); got != want.ran {
				t.Errorf("the tool ran %d times, want %d", got, want.ran)
			}
			if h.count("plan_created") != want.plans || h.count("task_interrupted") != 1 || h.count("task_completed") != 1 || h.count("task_status") != 0 {
				t.Errorf("events are %v", h.events())
			}
			for _, step := range h.state().Plan.Steps {
				if step.Status != "completed" {
					t.Errorf("step %+v", step)
				}
			}
			for id, n := range h.results() {
				if n != 1 {
					t.Errorf("call %s has %d results", id, n)
				}
			}
		})
	}
}

// recovered recovers until the one task was taken up: a lease of a process that
// was killed may have to run out first.
func (h *house) recovered() {
	h.Helper()
	for {
		found, err := h.x.Recover(context.Background())
		if err != nil {
			h.Fatal(err)
		}
		if len(found) == 1 {
			if found[0].Err != nil || !found[0].Resumed {
				h.Errorf("recovered %+v", found[0])
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// results counts the results of each call.
func (h *house) results() map[string]int {
	h.Helper()
	counts := map[string]int{}
	for e, err := range h.rt.Log(context.Background(), "t1", 0) {
		if err != nil {
			h.Fatal(err)
		}
		if added, ok := e.Change.(session.MessageAdded); ok {
			for _, c := range added.Message.ToolCalls {
				counts[c.ID] += 0
			}
			if r := added.Message.ToolResult; r != nil {
				counts[r.CallID]++
			}
		}
	}
	return counts
}

func TestRecover_aTaskThatWaitsStaysAsItIs(t *testing.T) {
	t.Parallel()
	dir := killed(t, "waiting")
	h := survivor(t, dir)
	h.stands("blocked", "awaiting_approval", "")
	found, err := h.x.Recover(context.Background())
	if err != nil || len(found) != 0 {
		t.Errorf("recovered %+v, %v", found, err)
	}
	reply, err := h.respond(h.open().ID, "allow_once", task.RespondOptions{})
	if err != nil || reply.Status != "completed" || ran(t, dir) != 1 {
		t.Errorf("%+v, %v; the tool ran %d times", reply, err, ran(t, dir))
	}
}

func TestRecover_ofTwoNodesOneWins(t *testing.T) {
	t.Parallel()
	dir := killed(t, "the first question")
	one, other := survivor(t, dir), survivor(t, dir)
	var wg sync.WaitGroup
	for _, h := range []*house{one, other} {
		wg.Go(func() {
			for h.row().Status != "completed" {
				if _, err := h.x.Recover(context.Background()); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	if ran(t, dir) != 1 || one.count("task_interrupted") != 1 || one.count("task_resumed") != 1 || one.calls()+other.calls() != 3 {
		t.Errorf("the tool ran %d times, events %v, %d questions", ran(t, dir), one.events(), one.calls()+other.calls())
	}
}

func TestRecover_goesOnOnlyWithTasksThatWantIt(t *testing.T) {
	t.Parallel()
	st := inmem.New(inmem.Config{})
	h := houseOn(t, st, script("done"))
	no := false
	s := job()
	s.AutoResume = &no
	if _, err := h.x.Create(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	err := h.x.Open(context.Background(), "t1", func(r *task.Run) error { return r.Executing(context.Background()) })
	if err != nil {
		t.Fatal(err)
	}
	found, err := h.x.Recover(context.Background())
	if err != nil || len(found) != 1 || found[0].Resumed || found[0].Row.Status != "interrupted" {
		t.Fatalf("recovered %+v, %v", found, err)
	}
	h.stands("interrupted", "resume_available", "")
	if result, err := h.x.Resume(context.Background(), "t1"); err != nil || result.Row.Status != "completed" {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestRecover_takesUpWhatWasQueuedByAProcessThatIsGone(t *testing.T) {
	t.Parallel()
	h := newHouse(t, script("done"))
	if _, err := h.x.Create(context.Background(), job()); err != nil {
		t.Fatal(err)
	}
	found, err := h.x.Recover(context.Background())
	if err != nil || len(found) != 1 || !found[0].Resumed || found[0].Row.Status != "completed" || h.count("task_interrupted") != 0 {
		t.Errorf("recovered %+v, %v", found, err)
	}
}

// A process that is killed after a response was taken in and before the task
// moved leaves a task that nobody need answer any more.
func TestRecover_aTaskWhoseAnswerHasComeGoesOn(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, goOn := range map[string]func(h *house, id string) error{
		"recover": func(h *house, _ string) error {
			found, err := h.x.Recover(ctx)
			if len(found) != 1 || !found[0].Resumed {
				h.Errorf("recovered %+v", found)
			}
			return err
		},
		"resume": func(h *house, _ string) error {
			_, err := h.x.Resume(ctx, "t1")
			return err
		},
		"the same answer": func(h *house, id string) error {
			_, err := h.respond(id, "allow_once", task.RespondOptions{})
			return err
		},
	} {
		h, c := asked(t)
		id := h.open().ID
		if row, err := h.respond(id, "allow_once", task.RespondOptions{NoRun: true}); err != nil || row.Status != "blocked" {
			t.Fatal(row.Status, err)
		}
		if waiting, err := h.x.Pending(ctx, "t1"); err != nil || len(waiting) != 0 {
			t.Errorf("%s: %d calls are shown as waiting, %v", name, len(waiting), err)
		}
		if err := goOn(h, id); err != nil {
			t.Fatal(name, err)
		}
		h.stands("completed", "ok", "")
		if c.ran() != 1 {
			t.Errorf("%s: the tool ran %d times", name, c.ran())
		}
	}
}

// A process that recovers tasks may be killed as well.
func TestRecover_goesOnWithWhatAnotherHasBegunToRecover(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newHouse(t, script("done"))
	if _, err := h.x.Create(ctx, job()); err != nil {
		t.Fatal(err)
	}
	if err := h.x.Open(ctx, "t1", func(r *task.Run) error { return r.Executing(ctx) }); err != nil {
		t.Fatal(err)
	}
	if row, err := h.x.Settle(ctx, "t1"); err != nil || row.Status != "interrupted" {
		t.Fatal(row.Status, err)
	}
	if found, err := h.x.Recover(ctx); err != nil || len(found) != 1 || found[0].Row.Status != "completed" {
		t.Errorf("recovered %+v, %v", found, err)
	}
}

// A task whose process was killed is shown as interrupted, and looking at it
// changes nothing.
func TestList_aTaskNobodyWorksOnIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newHouse(t, script("done"))
	if _, err := h.x.Create(ctx, job()); err != nil {
		t.Fatal(err)
	}
	if err := h.x.Open(ctx, "t1", func(r *task.Run) error {
		for row, err := range h.x.List(ctx, task.Filter{Statuses: []string{"executing"}}) {
			t.Error("before it begins it is", row.Status, err)
		}
		if err := r.Executing(ctx); err != nil {
			return err
		}
		row, err := h.x.Show(ctx, "t1")
		if row.Status != "executing" {
			t.Errorf("at work it is %s", row.Status)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	before := h.seq()
	n := 0
	for row, err := range h.x.List(ctx, task.Filter{Statuses: []string{"interrupted"}}) {
		if n++; err != nil || row.Status != "interrupted" || row.TerminalStatus != "resume_available" {
			t.Errorf("listed as %s/%s, %v", row.Status, row.TerminalStatus, err)
		}
	}
	if row, err := h.x.Show(ctx, "t1"); err != nil || row.Status != "interrupted" || n != 1 || h.seq() != before {
		t.Errorf("shown as %s, listed %d times, %d changes; %v", row.Status, n, h.seq()-before, err)
	}
}

func TestSaveSnapshot_ofAnEndedTaskChangesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	h := newHouse(t, script("done"), func(c *task.Config) {
		c.Snapshot = func(task.View) (json.RawMessage, error) { return json.RawMessage(`{}`), nil }
	})
	h.start(job())
	before, version := h.seq(), h.row().Version
	err := h.x.Open(ctx, "t1", func(r *task.Run) error {
		_, err := r.SaveSnapshot(ctx)
		return err
	})
	s, getErr := h.rt.Get(ctx, "t1", holdfast.WithTail())
	if !errors.Is(err, session.ErrTaskTerminal) || getErr != nil || s.HasTail() || h.seq() != before || h.row().Version != version {
		t.Errorf("%v, %v; %d changes were left", err, getErr, h.seq()-before)
	}
}
