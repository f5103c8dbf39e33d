//go:build unix

package cli_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSend_signalLeavesAResumableSession interrupts the real program in the
// middle of an answer.
func TestSend_signalLeavesAResumableSession(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		dir := t.TempDir()
		holdfast := func(pace string, args ...string) (*exec.Cmd, *bytes.Buffer) {
			var text bytes.Buffer
			cmd := exec.CommandContext(t.Context(), "holdfast", args...)
			cmd.Env = append(os.Environ(), "HOLDFAST_STORE=file:"+dir, "HOLDFAST_OFFLINE_PACE="+pace, "GORACE="+noSleep)
			cmd.Stdout, cmd.Stderr = &text, &text
			return cmd, &text
		}
		made, text := holdfast("", "chat", "--name", "s")
		if err := made.Run(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		cut, text := holdfast("1h", "send", "s", "a question")
		if err := cut.Start(); err != nil {
			t.Fatal(err)
		}
		awaitTail(t, dir)
		if err := cut.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cut.Wait() // the code is looked at instead
		if code := cut.ProcessState.ExitCode(); code != 21 {
			t.Errorf("%v: exit code %d, want 21: %s", signal, code, text)
		}
		if !strings.Contains(text.String(), "continue with: holdfast chat --session") {
			t.Errorf("%v: it does not say how to continue: %s", signal, text)
		}
		back, text := holdfast("", "chat", "--session", "s")
		if err := back.Run(); err != nil || !strings.Contains(text.String(), "You said: a question") {
			t.Errorf("%v: coming back: %v: %s", signal, err, text)
		}
	}
}

// awaitTail waits until an execution has written what it was told.
func awaitTail(t *testing.T, dir string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		tails, err := filepath.Glob(filepath.Join(dir, "*.tail"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range tails {
			if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte("a question")) {
				return
			}
		}
	}
	t.Fatal("no execution has begun")
}

// A database that takes connections and never answers is given up.
func TestCopy_silentDatabaseIsGivenUp(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	var text bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "holdfast", "sessions", "copy", "--from", "file:"+t.TempDir(),
		"--to", fmt.Sprintf("postgres://me:geheim@%s/x?connect_timeout=1&sslmode=disable", silent.Addr()))
	cmd.Env = append(os.Environ(), "GORACE="+noSleep)
	cmd.Stdout, cmd.Stderr = &text, &text
	_ = cmd.Run() // the code is looked at instead
	if code := cmd.ProcessState.ExitCode(); code != 12 || !strings.Contains(text.String(), "holdfast: --to: ") || strings.Contains(text.String(), "geheim") {
		t.Errorf("exit code %d: %s", code, &text)
	}
}
