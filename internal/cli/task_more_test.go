package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// Another process watches: it sees the rest, and ends as the task does.
func TestTask_watchedFromElsewhere(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b, folder := workbench(t, func(said string, ran bool) *provtest.Reply {
		if strings.Contains(said, "leave a mark") && ran {
			<-gate
		}
		return nil
	}, "leave a mark", "repair the file")
	work, _ := b.begin(3, "task", "start", "repair it", "--workspace", folder, "--model", taskModel, "--permission-mode", "bypass_permissions")
	id := b.task()
	_, errs := b.run(0, "task", "resume", id)
	b.contains(errs, "somebody is at work on it", "holdfast task watch "+id[:8])
	watch, out, told := b.command("task", "watch", id)
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	b.run(0, "task", "show", id) // a look does not disturb it
	close(gate)
	if err := work.Wait(); err != nil {
		t.Errorf("the work ended with %v", err)
	}
	if err := watch.Wait(); err != nil {
		t.Errorf("the watcher ended with %v: %s", err, told)
	}
	if out.String() != "It is 30 now.\n" {
		t.Errorf("the watcher saw %q", out)
	}
}

func TestTask_retriedInAnotherRun(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	b, folder := workbench(t, func(string, bool) *provtest.Reply {
		if well.Load() {
			return nil
		}
		return &provtest.Reply{Status: 400, Body: `{"error":{"message":"no"}}`}
	}, "read the file")
	_, errs := b.start(10, folder)
	b.contains(errs, "is failed", "next: holdfast task retry")
	well.Store(true)
	out, _ := b.run(0, "task", "retry", b.task())
	if out != "It has the letter O.\n" {
		t.Errorf("it ends with %q", out)
	}
}

// A plan from a file is taken as it is; feedback stops the task, and a wish to
// wrap up ends it with what there is.
func TestTask_givenPlanStoppedAndWrappedUp(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil)
	plan := b.write("plan.json", `{"description":"mine","steps":[{"id":"a","description":"read the file"},{"id":"b","description":"repair the file"}]}`)
	b.start(19, folder, "--plan", plan)
	id := b.task()
	if n := b.asked("Make a plan"); n != 0 {
		t.Errorf("the model was asked for a plan %d times", n)
	}
	b.run(0, "task", "feedback", id, "b", "stop", "leave it")
	out, _ := b.run(0, "task", "show", id)
	b.contains(out, "✓ read the file", "✗ repair the file", "Stopped by user")
	b.run(0, "task", "wrap-up", id)
	out, _ = b.run(0, "task", "show", id, "--json")
	row := jsonOf(t, out)
	if row["completedAt"] == nil || row["status"] == "executing" {
		t.Errorf("it is %s", out)
	}
	for _, name := range []string{"createdAt", "updatedAt", "startedAt", "completedAt"} {
		if _, err := time.Parse(time.RFC3339, fmt.Sprint(row[name])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := b.read("work", "service.ini"); got != "timeout = 3O\n" {
		t.Errorf("stopped, it made %q", got)
	}
}

// A task that is moved works in the other folder from then on.
func TestTask_movedToAnotherFolder(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "repair the file")
	b.start(0, folder, "--detach", "--permission-mode", "accept_edits")
	other := filepath.Join(b.dir, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	b.write(filepath.Join("other", "service.ini"), "timeout = 3O\n")
	b.run(0, "task", "workspace", b.task(), other)
	b.run(2, "task", "workspace", b.task(), filepath.Join(b.dir, "none"))
	b.run(0, "task", "resume", b.task())
	if b.read("work", "service.ini") != "timeout = 3O\n" || b.read("other", "service.ini") != "timeout = 30\n" {
		t.Errorf("it left %q and %q", b.read("work", "service.ini"), b.read("other", "service.ini"))
	}
}

// With --json standard output has the row and standard error the changes, one
// on each line.
func TestTask_json(t *testing.T) {
	t.Parallel()
	b, folder := workbench(t, nil, "read the file", "repair the file")
	out, errs := b.start(19, folder, "--json")
	if row := jsonOf(t, out); row["status"] != "blocked" || row["terminalStatus"] != "awaiting_approval" || row["pendingApprovals"] != 1.0 {
		t.Errorf("the row is %s", out)
	}
	kinds := map[string]bool{}
	for line := range strings.Lines(errs) {
		change := jsonOf(t, line)
		if kind, ok := change["kind"].(string); ok {
			kinds[kind] = true
		}
	}
	for _, kind := range []string{"plan_created", "step_started", "tool_call", "tool_result", "call_pending"} {
		if !kinds[kind] {
			t.Errorf("no %s in\n%s", kind, errs)
		}
	}
}

// What is refused changes nothing, and a snapshot waits for nobody.
func TestTask_refusedCommandsChangeNothing(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b, folder := workbench(t, func(said string, _ bool) *provtest.Reply {
		if strings.Contains(said, "read the file") {
			<-gate
		}
		return nil
	}, "read the file")
	cmd, _, errs := b.command("task", "start", "repair it", "--workspace", folder, "--model", taskModel)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.until(2)
	id := b.task()
	_, told := b.run(17, "task", "snapshot", id)
	b.contains(told, "busy")
	close(gate)
	if err := cmd.Wait(); err != nil {
		t.Fatal(err, errs.String())
	}
	before, _ := b.run(0, "sessions", "show", id, "--json")
	_, told = b.run(17, "task", "snapshot", id, "--json")
	if problem, _ := jsonOf(t, told)["error"].(map[string]any); problem["type"] != "TaskError" {
		t.Errorf("refused with %s", told)
	}
	for _, refused := range [][]string{{"mode", id, "plan"}, {"approve", id}, {"continue", id}, {"resume", id}} {
		b.run(17, append([]string{"task"}, refused...)...)
	}
	if after, _ := b.run(0, "sessions", "show", id, "--json"); after != before {
		t.Errorf("refused commands have made\n%s\nof\n%s", after, before)
	}
	out, _ := b.run(0, "doctor")
	if strings.Contains(out, "interrupted") {
		t.Errorf("the doctor finds\n%s", out)
	}
}

// A response that no process has acted on yet is enough: nobody is asked again.
func TestTask_approvedElsewhereGoesOn(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"approve", "resume"} {
		b, folder := workbench(t, nil, "repair the file")
		b.start(19, folder)
		id := b.task()
		b.run(0, "respond", id, "approve")
		out, _ := b.run(0, "task", "show", id)
		b.contains(out, "next: holdfast task resume "+id[:8])
		out, _ = b.run(0, "task", verb, id)
		if out != "It is 30 now.\n" {
			t.Errorf("%s: it ends with %q", verb, out)
		}
	}
}
