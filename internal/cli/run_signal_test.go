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
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/workflow"
)

const threeSteps = `
version: 1
name: three steps
runtime: {provider: openai, model_id: gpt-4o-mini}
inputs: {optional: {tone: {type: string, default: plain}}}
agents:
  clerk: {prompt: You write., tools: []}
pattern:
  type: chain
  config:
    steps:
      - {agent: clerk, input: "the first step"}
      - {agent: clerk, input: "the second step"}
      - {agent: clerk, input: "the third step, {{ tone }}"}
outputs:
  artifacts:
    - {path: end.txt, from: "{{ last_response }}"}
`

// stuck is a bench with a spec of three steps, of which the second is not
// answered until it is let go.
func stuck(t *testing.T) (b *bench, path string, let *atomic.Bool) {
	t.Helper()
	let = &atomic.Bool{}
	b = newBench(t, func(said string, _ provtest.Request) provtest.Reply {
		if strings.Contains(said, "second") && !let.Load() {
			return provtest.Reply{Hang: true, Begun: true}
		}
		return saying("re: " + said)
	})
	path = b.write("three.yaml", threeSteps)
	return b, path, let
}

func (b *bench) write(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// until waits for the program to have asked so often.
func (b *bench) until(received int) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		if b.openai.Calls().Received >= received {
			return
		}
	}
	b.t.Fatalf("never asked %d times: %+v", received, b.openai.Calls())
}

// asked is how often a server was sent a text as the last message.
func (b *bench) asked(text string) int {
	n := 0
	for _, r := range b.openai.Requests() {
		if strings.Contains(lastSaid(r), text) {
			n++
		}
	}
	return n
}

// tells waits until the program has said something.
func (b *bench) tells(errs func() string, want string) {
	b.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		if strings.Contains(errs(), want) {
			return
		}
	}
	b.t.Fatalf("it never said %q: %s", want, errs())
}

// untilPaused waits until a run is saved as paused. It looks into the store
// itself: another process may take as long to start as this one needs to end.
func (b *bench) untilPaused(id string) {
	b.t.Helper()
	st, err := sqlite.Open(b.t.Context(), filepath.Join(b.dir, "sessions.db"), sqlite.Config{})
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = st.Close() }() // it was only read
	for end := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		s, err := st.Load(b.t.Context(), store.Ref{Tenant: session.DefaultTenant, ID: id}, true)
		if err != nil {
			b.t.Fatal(err)
		}
		status := s.Info().Workflow.Status
		if status == string(workflow.StatusPaused) {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("it is still %s", status)
		}
	}
}

// begin starts the program and waits until it is stuck.
func (b *bench) begin(received int, args ...string) (cmd *exec.Cmd, errs func() string) {
	b.t.Helper()
	cmd, _, text := b.command(args...)
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.until(received)
	return cmd, text.String
}

func (b *bench) signal(cmd *exec.Cmd, s syscall.Signal) int {
	b.t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		b.t.Fatal(err)
	}
	_ = cmd.Wait() // the code is looked at instead
	return cmd.ProcessState.ExitCode()
}

func TestRun_interruptedGoesOnWithoutARepeatedCall(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		b, path, let := stuck(t)
		cmd, errs := b.begin(2, "run", path)
		if signal == syscall.SIGINT { // the first waits for the call in flight, which never ends
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			b.tells(errs, "Ctrl-C again breaks them off")
		}
		if code := b.signal(cmd, signal); code != 21 || !strings.Contains(errs(), "go on with: holdfast run --resume ") {
			t.Fatalf("%v: exit code %d: %s", signal, code, errs())
		}
		shown, _ := b.run(0, "sessions", "show", b.only())
		for _, want := range []string{"three steps  paused\n", "live       no\n", "✓ 1", "‖ 2", "· 3", "next: holdfast run --resume "} {
			if !strings.Contains(shown, want) {
				t.Errorf("%v: %q is not in\n%s", signal, want, shown)
			}
		}
		let.Store(true)
		out, _ := b.run(0, "run", "--resume", b.only())
		if out != "re: the third step, plain\n" {
			t.Errorf("%v: it ends with %q", signal, out)
		}
		if n := b.answered(); n != 3 || b.asked("first") != 1 || b.asked("second") != 2 {
			t.Errorf("%v: %d answers, the first step was asked %d times, the second %d times", signal, n, b.asked("first"), b.asked("second"))
		}
	}
}

func TestRun_killedIsTakenUpByAutoResume(t *testing.T) {
	t.Parallel()
	b, path, let := stuck(t)
	cmd, _ := b.begin(2, "run", path, "--var", "tone=warm")
	b.signal(cmd, syscall.SIGKILL)
	if out, _ := b.run(0, "sessions", "list"); !strings.Contains(out, "running (interrupted)") {
		t.Errorf("listed as\n%s", out)
	}
	shown, _ := b.run(0, "sessions", "show", b.only(), "--json")
	for _, want := range []string{`"status":"running"`, `"live":false`, `"next":"holdfast run --resume `} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is not in %s", want, shown)
		}
	}
	let.Store(true)
	out, _ := b.run(0, "run", path, "--auto-resume", "--var", "tone=warm")
	if out != "re: the third step, warm\n" || b.asked("first") != 1 || b.answered() != 3 {
		t.Errorf("it ends with %q; the first step was asked %d times, %d answers", out, b.asked("first"), b.answered())
	}
	b.only() // there is no second session
	// What is complete is not taken up again, and other variables are another run.
	b.run(0, "run", path, "--auto-resume", "--var", "tone=warm", "--force")
	if b.asked("first") != 2 {
		t.Errorf("the first step was asked %d times", b.asked("first"))
	}
}

func TestRun_autoResumeLooksForTheVariables(t *testing.T) {
	t.Parallel()
	b, path, let := stuck(t)
	cmd, _ := b.begin(2, "run", path, "--var", "tone=warm")
	b.signal(cmd, syscall.SIGKILL)
	let.Store(true)
	out, _ := b.run(0, "run", path, "--auto-resume", "--var", "tone=cold")
	if out != "re: the third step, cold\n" || b.asked("first") != 2 {
		t.Errorf("it ends with %q; the first step was asked %d times", out, b.asked("first"))
	}
}

func TestRun_secondResumeNamesTheHolder(t *testing.T) {
	t.Parallel()
	b, path, let := stuck(t)
	cmd, _ := b.begin(2, "run", path)
	b.signal(cmd, syscall.SIGKILL)
	id := b.only()
	first, _ := b.begin(3, "run", "--resume", id)
	for _, args := range [][]string{{"run", "--resume", id}, {"run", "--resume", id, "--no-wait"}} {
		_, errs := b.run(17, args...)
		if !strings.Contains(errs, "is at work on it, for now until ") || strings.Contains(errs, "held by") {
			t.Errorf("%q: %s", args, errs)
		}
	}
	if out, _ := b.run(0, "sessions", "show", id); !strings.Contains(out, "live       yes, by process ") || !strings.Contains(out, "▸ 2") {
		t.Errorf("shown as\n%s", out)
	}
	let.Store(true)
	if code := b.signal(first, syscall.SIGTERM); code != 21 {
		t.Errorf("the first ended with %d", code)
	}
	b.run(0, "run", "--resume", id)
	if b.asked("first") != 1 || b.answered() != 3 {
		t.Errorf("the first step was asked %d times, %d answers", b.asked("first"), b.answered())
	}
}

func TestSuspend_stopsALiveRun(t *testing.T) {
	t.Parallel()
	b, path, let := stuck(t)
	cmd, errs := b.begin(2, "run", path)
	id := b.only()
	if out, _ := b.run(0, "sessions", "suspend", id); !strings.HasPrefix(out, "asked ") {
		t.Errorf("told %q, while a call is in flight", out)
	}
	if out, _ := b.run(0, "sessions", "suspend", id); !strings.HasPrefix(out, "suspended ") && !strings.HasPrefix(out, "asked ") {
		t.Errorf("told %q", out)
	}
	_ = cmd.Wait() // the code is looked at instead
	if code := cmd.ProcessState.ExitCode(); code != 21 {
		t.Errorf("it ended with %d: %s", code, errs())
	}
	if out, _ := b.run(0, "sessions", "show", id); !strings.Contains(out, "three steps  paused\n") || !strings.Contains(out, "session    suspended\n") {
		t.Errorf("shown as\n%s", out)
	}
	let.Store(true)
	b.run(0, "sessions", "resume", id)
	if b.asked("first") != 1 || b.answered() != 3 {
		t.Errorf("the first step was asked %d times, %d answers", b.asked("first"), b.answered())
	}
}

// In whichever process: a live run ends, and does not go on unless that is said.
func TestCancel_endsALiveRun(t *testing.T) {
	t.Parallel()
	b, path, let := stuck(t)
	cmd, errs := b.begin(2, "run", path, "--name", "tea")
	id := b.only()
	if _, told := b.run(17, "sessions", "delete", id); !strings.Contains(told, "end it first: holdfast sessions cancel ") {
		t.Errorf("to delete it: %s", told)
	}
	b.run(0, "sessions", "cancel", "tea")
	_ = cmd.Wait() // the code is looked at instead
	if code := cmd.ProcessState.ExitCode(); code != 22 || !strings.Contains(errs(), "was cancelled") {
		t.Errorf("it ended with %d: %s", code, errs())
	}
	if out, _ := b.run(0, "sessions", "list", "--status", "cancelled"); !strings.Contains(out, "cancelled") {
		t.Errorf("listed as\n%s", out)
	}
	let.Store(true)
	if _, told := b.run(17, "run", "--resume", id); !strings.Contains(told, "--reopen") {
		t.Errorf("to resume it: %s", told)
	}
	out, _ := b.run(0, "run", "--resume", id, "--reopen")
	if out != "re: the third step, plain\n" || b.asked("first") != 1 {
		t.Errorf("it ends with %q; the first step was asked %d times", out, b.asked("first"))
	}
	b.run(0, "run", "--resume", id, "--redo", "step/2")
	if b.asked("third") != 2 || b.asked("second") != 2 {
		t.Errorf("the third step was asked %d times, the second %d times", b.asked("third"), b.asked("second"))
	}
	b.run(0, "sessions", "delete", id)
	if _, told := b.run(17, "run", "--resume", id); !strings.Contains(told, "sessions restore") {
		t.Errorf("to resume what was deleted: %s", told)
	}
}

// The run is paused at once; ending a tool server that does not want to takes
// a while, which a second signal does not wait for.
func TestRun_secondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	b, _, _ := stuck(t)
	path := b.write("stubborn.yaml", strings.Replace(threeSteps, "agents:", "tools: {mcp: [{id: sea, command: stubborn-server}]}\nagents:", 1))
	cmd, errs := b.begin(2, "run", path)
	id := b.only()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	b.untilPaused(id)
	b.signal(cmd, syscall.SIGINT)
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("it ended with %v: %s", cmd.ProcessState, errs())
	}
}
