//go:build unix

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// hangs is a gate that leaves a question unanswered until it is let go: the
// one in a step, after its tool has run.
func hangs(step string) (gate func(string, bool) *provtest.Reply, let *atomic.Bool) {
	let = &atomic.Bool{}
	return func(said string, ran bool) *provtest.Reply {
		if strings.Contains(said, step) && ran && !let.Load() {
			return &provtest.Reply{Hang: true, Begun: true}
		}
		return nil
	}, let
}

// beginTold starts the program and waits until it is stuck. What it tells can
// be read while it runs.
func (b *bench) beginTold(received int, args ...string) (cmd *exec.Cmd, errs func() string) {
	b.t.Helper()
	path := filepath.Join(b.dir, "told")
	file, err := os.Create(path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = file.Close() })
	cmd, _, _ = b.command(args...)
	cmd.Stderr = file
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.until(received)
	return cmd, func() string { return b.read("told") }
}

// comes waits until something is told.
func (b *bench) comes(errs func() string, text string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		if strings.Contains(errs(), text) {
			return
		}
	}
	b.t.Fatalf("%q was not told:\n%s", text, errs())
}

func TestTask_killedGoesOnWithoutARepeatedTool(t *testing.T) {
	t.Parallel()
	gate, let := hangs("leave a mark")
	b, folder := workbench(t, gate, "read the file", "leave a mark", "repair the file")
	cmd, _ := b.begin(5, "task", "start", "repair it", "--workspace", folder, "--model", taskModel, "--permission-mode", "bypass_permissions")
	b.signal(cmd, syscall.SIGKILL)
	id := b.task()
	out, _ := b.run(0, "task", "list")
	b.contains(out, id[:8], "repair it", "interrupted")
	out, _ = b.run(0, "sessions", "list")
	b.contains(out, "KIND", id[:8], "task", "repair it", "interrupted")
	out, _ = b.run(0, "sessions", "list", "--status", "interrupted", "--json")
	b.contains(out, id)
	out, _ = b.run(0, "doctor")
	b.contains(out, "interrupted", "continue with: holdfast task resume "+id[:8])
	out, _ = b.run(0, "sessions", "show", id)
	b.contains(out, "interrupted", "continue with: holdfast task resume "+id[:8])
	out, _ = b.run(0, "task", "log", id)
	if strings.Contains(out, "task interrupted") {
		t.Error("looking at it has changed it")
	}
	out, _ = b.run(0, "task", "show", id)
	b.contains(out, "interrupted", "✓ read the file", "▸ leave a mark", "· repair the file", "next: holdfast task resume")
	let.Store(true)
	out, _ = b.run(0, "task", "resume", id)
	if out != "It is 30 now.\n" || b.read("work", "marks") != "x\n" || b.read("work", "service.ini") != "timeout = 30\n" {
		t.Errorf("it ends with %q, %q and %q", out, b.read("work", "marks"), b.read("work", "service.ini"))
	}
	out, _ = b.run(0, "task", "log", id)
	b.contains(out, "task interrupted · The process that worked on it has ended\n", " task resumed\n", "task completed\n")
	if n := b.asked("Make a plan"); n != 1 {
		t.Errorf("planned %d times", n)
	}
}

// A second Ctrl-C interrupts; the task can be resumed.
func TestTask_interruptedTwice(t *testing.T) {
	t.Parallel()
	gate, let := hangs("leave a mark")
	b, folder := workbench(t, gate, "leave a mark", "repair the file")
	cmd, errs := b.beginTold(3, "task", "start", "repair it", "--workspace", folder, "--model", taskModel, "--permission-mode", "bypass_permissions")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	b.comes(errs, "Ctrl-C again interrupts")
	if code := b.signal(cmd, syscall.SIGINT); code != 21 {
		t.Fatalf("exit code %d: %s", code, errs())
	}
	b.contains(errs(), "is interrupted (resume available)", "next: holdfast task resume")
	let.Store(true)
	out, _ := b.run(0, "task", "show", b.task(), "--json")
	if row := jsonOf(t, out); row["status"] != "interrupted" || row["terminalStatus"] != "resume_available" {
		t.Errorf("it is %v, %v", row["status"], row["terminalStatus"])
	}
	// The wish to wrap up was heard: what is under way is finished, no more.
	b.run(21, "task", "resume", b.task())
	if b.read("work", "marks") != "x\n" || b.read("work", "service.ini") != "timeout = 3O\n" {
		t.Errorf("it left %q and %q", b.read("work", "marks"), b.read("work", "service.ini"))
	}
}

// One Ctrl-C or SIGTERM has the agent finish what it is at. The rest is left to
// be resumed.
func TestTask_interruptedOnceWrapsUp(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		interruptOnce(t, signal)
	}
}

func interruptOnce(t *testing.T, signal syscall.Signal) {
	t.Helper()
	gate := make(chan struct{})
	b, folder := workbench(t, func(said string, ran bool) *provtest.Reply {
		if strings.Contains(said, "leave a mark") && ran {
			<-gate
		}
		return nil
	}, "leave a mark", "repair the file")
	cmd, errs := b.beginTold(3, "task", "start", "repair it", "--workspace", folder, "--model", taskModel, "--permission-mode", "bypass_permissions")
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	b.comes(errs, "Ctrl-C again interrupts")
	close(gate)
	_ = cmd.Wait() // the code is looked at instead
	if code := cmd.ProcessState.ExitCode(); code != 21 {
		t.Errorf("exit code %d: %s", code, errs())
	}
	out, _ := b.run(0, "task", "show", b.task())
	b.contains(out, "interrupted (resume available)", "✓ leave a mark", "· repair the file")
}

// A check that was given is run before a task that was wrapped up is called
// done, and the agent's last words are the result.
func TestTask_wrappedUpIsChecked(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b, folder := workbench(t, func(said string, ran bool) *provtest.Reply {
		if strings.Contains(said, "leave a mark") && !ran {
			<-gate
		}
		if strings.Contains(said, "[WRAP_UP]") {
			last := saying("Half of it is done.")
			return &last
		}
		return nil
	}, "leave a mark")
	cmd, out, errs := b.command("task", "start", "repair it", "--workspace", folder, "--model", taskModel, "--permission-mode", "bypass_permissions", "--check", "false")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.until(2)
	b.run(0, "task", "wrap-up", b.task())
	close(gate)
	_ = cmd.Wait() // the code is looked at instead
	if code := cmd.ProcessState.ExitCode(); code != 21 || out.String() != "Half of it is done.\n" {
		t.Errorf("exit code %d, %q: %s", code, out.String(), errs.String())
	}
	b.contains(errs.String(), "verification failed", "criteria of the task are not met", "next: holdfast task resume")
}
