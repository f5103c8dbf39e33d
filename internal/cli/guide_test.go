package cli_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// firstBlock is the first block of a document in a language.
func firstBlock(t *testing.T, path, language string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```"+language+"\n")
	block, _, ended := strings.Cut(after, "```")
	if !found || !ended {
		t.Fatalf("%s has no block of %s", path, language)
	}
	return block
}

// freeAddress returns an address for a server that is started later. Where the
// machine has more loopback addresses than one, it has one of its own: the port
// of the common one may be given to somebody else meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.84.20.1:0")
	if err != nil {
		port, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

// The first requests of the guide to the server are copied into a shell.
func TestGuide_firstRequests(t *testing.T) {
	t.Parallel()
	block := firstBlock(t, "../../docs/server.md", "sh")
	address := freeAddress(t)
	script := strings.ReplaceAll(block, "localhost:8420", address)
	script = strings.Replace(script, "\n", "\nuntil curl -s "+address+"/livez >/dev/null; do sleep 0.1; done\n", 1) // a person is slower
	dir := t.TempDir()
	var out output
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "HOLDFAST_LISTEN=" + address, "GORACE=" + noSleep}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the server goes with the shell
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it may have ended by itself
	cmd.Cancel = func() error { end(); return nil }
	t.Cleanup(func() { end(); _ = cmd.Wait() })
	ended := time.Now().Add(time.Minute)
	for !strings.Contains(out.String(), "event: caught-up") {
		if time.Now().After(ended) {
			t.Fatalf("the events never caught up:\n%s", out.String())
		}
		<-time.After(20 * time.Millisecond)
	}
	for _, want := range []string{`"name":"demo"`, "You said: hello", "event: record", "inference_answered"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the requests do not show %s:\n%s", want, out.String())
		}
	}
}
