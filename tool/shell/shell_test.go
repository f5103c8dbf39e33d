//go:build unix

package shell_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/sandbox"
	"github.com/holdfast-dev/holdfast/tool/shell"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newShell(t *testing.T, c shell.Config) (tool.Tool, string) {
	t.Helper()
	c.Sandbox.Dir = t.TempDir()
	sh, err := shell.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return sh, c.Sandbox.Dir
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
		`printf '\033[31mred\033[0m\377'`: {Content: "exit code 0\nred\uFFFD"},
	} {
		if got := run(t, sh, line); got != want {
			t.Errorf("%s: got %+v, want %+v", line, got, want)
		}
	}
	if got := run(t, sh, "kill -9 $$"); !got.IsError || !strings.HasPrefix(got.Content, "exit code 137\n") {
		t.Errorf("a killed shell: %+v", got)
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
		if _, err := shell.New(shell.Config{Sandbox: sandbox.Config{Dir: dir}}); err == nil {
			t.Errorf("made a shell in %q", dir)
		}
	}
}

func TestShell_seesOnlyTheVariablesItMay(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_KEY", "sesame")
	t.Setenv("HOLDFAST_TEST_OPEN", "handed on")
	sh, _ := newShell(t, shell.Config{Sandbox: sandbox.Config{Env: []string{"HOLDFAST_TEST_OPEN"}}})
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

// openPipe makes a named pipe in the workspace and opens its reading end. Read
// only, it ends when no process of a command holds the other end open any more.
// (The numbers of processes mean nothing outside their namespace.)
func openPipe(t *testing.T, path string, flag int) *os.File {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	if err := pipe.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return pipe
}

// expectReleased waits until nobody holds the pipe open.
func expectReleased(t *testing.T, pipe *os.File) {
	t.Helper()
	if _, err := io.ReadAll(pipe); err != nil {
		t.Errorf("a process is still there: %v", err)
	}
}

func TestShell_outOfTimeEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	sh, dir := newShell(t, shell.Config{})
	pipe := openPipe(t, filepath.Join(dir, "held"), os.O_RDONLY)
	got, err := call(t.Context(), t, sh, map[string]any{"command": "exec 9> held; echo begun; sleep 600 & wait", "timeout": 5})
	if err != nil || !got.IsError || got.Content != "stopped after 5s\nbegun\n" {
		t.Errorf("got %+v, %v", got, err)
	}
	expectReleased(t, pipe)
}

func TestShell_nothingStaysInTheBackground(t *testing.T) {
	t.Parallel()
	sh, dir := newShell(t, shell.Config{})
	pipe := openPipe(t, filepath.Join(dir, "held"), os.O_RDONLY)
	if got := run(t, sh, "exec 9> held; sleep 600 & echo done"); got.Content != "exit code 0\ndone\n" {
		t.Errorf("got %+v", got)
	}
	expectReleased(t, pipe)
}

func TestShell_cancelEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	sh, dir := newShell(t, shell.Config{})
	pipe := openPipe(t, filepath.Join(dir, "held"), os.O_RDONLY)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begins, begun := openPipe(t, filepath.Join(dir, "begins"), os.O_RDWR), make(chan error, 1)
	go func() {
		defer cancel()
		_, err := begins.Read(make([]byte, 1))
		begun <- err
	}()
	got, err := call(ctx, t, sh, map[string]any{"command": "exec 9> held; echo > begins; sleep 600 & wait"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	expectReleased(t, pipe)
}
