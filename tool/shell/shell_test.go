//go:build unix

package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newShell(t *testing.T, c shell.Config) (tool.Tool, string) {
	t.Helper()
	c.Dir = t.TempDir()
	sh, err := shell.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return sh, c.Dir
}

func call(ctx context.Context, t *testing.T, sh tool.Tool, in map[string]any) (tool.Result, error) {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return sh.Call(ctx, tool.Call{Arguments: raw})
}

func run(t *testing.T, sh tool.Tool, line string) tool.Result {
	t.Helper()
	got, err := call(t.Context(), t, sh, map[string]any{"command": line})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return got
}

func TestShell_outputAndExitCode(t *testing.T) {
	t.Parallel()
	sh, dir := newShell(t, shell.Config{})
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]tool.Result{
		"echo out; echo err >&2":          {Content: "exit code 0\nout\nerr\n"},
		"true":                            {Content: "exit code 0\n[no output]"},
		"echo no; exit 3":                 {Content: "exit code 3\nno\n", IsError: true},
		"pwd -P":                          {Content: "exit code 0\n" + resolved + "\n"},
		"cat":                             {Content: "exit code 0\n[no output]"}, // no input to wait for
		"kill -9 $$":                      {Content: "ended by signal: killed\n[no output]", IsError: true},
		`printf '\033[31mred\033[0m\377'`: {Content: "exit code 0\nred\uFFFD"},
	} {
		if got := run(t, sh, line); got != want {
			t.Errorf("%s: got %+v, want %+v", line, got, want)
		}
	}
	if spec := sh.Spec(); spec.Nature != tool.Once || spec.Concurrent() {
		t.Errorf("it is %q and may run beside others: %v", spec.Nature, spec.Concurrent())
	}
}

func TestShell_badCallsRunNothing(t *testing.T) {
	t.Parallel()
	sh, dir := newShell(t, shell.Config{})
	for _, in := range []map[string]any{
		{}, {"command": " "}, {"command": "touch x", "timeout": -1}, {"command": "touch x", "timeout": 1e6}, {"command": "touch x", "dir": "/"},
	} {
		if got, err := call(t.Context(), t, sh, in); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%v: %+v, %v", in, got, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("something ran: %v, %v", left, err)
	}
	for _, dir := range []string{"", "/dev/null", filepath.Join(dir, "missing")} {
		if _, err := shell.New(shell.Config{Dir: dir}); err == nil {
			t.Errorf("made a shell in %q", dir)
		}
	}
}

func TestShell_seesOnlyTheVariablesItMay(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_KEY", "sesame")
	t.Setenv("HOLDFAST_TEST_OPEN", "handed on")
	sh, _ := newShell(t, shell.Config{Env: []string{"HOLDFAST_TEST_OPEN"}})
	got := run(t, sh, "env").Content
	if strings.Contains(got, "sesame") || !strings.Contains(got, "HOLDFAST_TEST_OPEN=handed on\n") || !strings.Contains(got, "PATH=") {
		t.Errorf("the environment is %q", got)
	}
}

func TestShell_longOutputKeepsBothEnds(t *testing.T) {
	t.Parallel()
	sh, _ := newShell(t, shell.Config{MaxOutput: 100})
	got := run(t, sh, "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done").Content
	if !strings.HasPrefix(got, "exit code 0\nline 0\nline 1\n") || !strings.HasSuffix(got, "\nline 4998\nline 4999\n") ||
		!strings.Contains(got, "[cut: 48790 of 48890 bytes]") || len(got) > 200 {
		t.Errorf("got %q", got)
	}
}

// gone waits for a process to end.
func gone(t *testing.T, pid int) {
	t.Helper()
	for range 500 {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || zombie(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond) // there is nothing to wait on: it is not our child
	}
	t.Errorf("process %d is still there", pid)
}

// zombie reports a process that has ended and that nobody has asked about.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func pidIn(t *testing.T, file string) int {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestShell_outOfTimeEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	sh, dir := newShell(t, shell.Config{})
	got, err := call(t.Context(), t, sh, map[string]any{"command": "echo begun; sleep 600 & echo $! > pid; wait", "timeout": 2})
	if err != nil || !got.IsError || got.Content != "stopped after 2s\nbegun\n" {
		t.Errorf("got %+v, %v", got, err)
	}
	gone(t, pidIn(t, filepath.Join(dir, "pid")))
}

func TestShell_nothingStaysInTheBackground(t *testing.T) {
	t.Parallel()
	sh, dir := newShell(t, shell.Config{})
	start := time.Now()
	if got := run(t, sh, "sleep 600 & echo $! > pid; echo done"); got.Content != "exit code 0\ndone\n" {
		t.Errorf("got %+v", got)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it waited for the background: %v", took)
	}
	gone(t, pidIn(t, filepath.Join(dir, "pid")))
}

func TestShell_cancelEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	sh, dir := newShell(t, shell.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pid := filepath.Join(dir, "pid")
	go func() {
		defer cancel()
		for range 1000 {
			if raw, err := os.ReadFile(pid); err == nil && len(raw) > 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	got, err := call(ctx, t, sh, map[string]any{"command": "sleep 600 & echo $! > pid; wait"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", got, err)
	}
	gone(t, pidIn(t, pid))
}
