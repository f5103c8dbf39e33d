//go:build unix

package cli_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/session"
)

// served is a real process that serves a store.
type served struct {
	cmd   *exec.Cmd
	lines chan string // of standard error
	url   string
}

// listening finds the address and the key in what a server says first.
var (
	listening = regexp.MustCompile(`listening on (http://\S+)`)
	firstKey  = regexp.MustCompile(`\bhf_\w+`)
	startURL  = regexp.MustCompile(`http://\S+/\?code=\w+`)
)

func startServer(t *testing.T, store string, args ...string) *served {
	t.Helper()
	return startServerWith(t, store, []string{"HOLDFAST_OFFLINE_PACE=0s"}, args...)
}

func startServerWith(t *testing.T, store string, env []string, args ...string) *served {
	t.Helper()
	s := &served{cmd: exec.CommandContext(t.Context(), "holdfast", append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...), lines: make(chan string, 1000)}
	s.cmd.Env = append(append(os.Environ(), "HOLDFAST_STORE="+store, "GORACE="+noSleep), env...)
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		for line := range s.lines { // what nobody waited for
			if t.Failed() {
				t.Log("the server said: ", line)
			}
		}
		_ = s.cmd.Wait()
	})
	go func() {
		defer close(s.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			s.lines <- scan.Text()
		}
	}()
	s.url = listening.FindStringSubmatch(s.await(t, "listening on"))[1]
	return s
}

// await returns the next line with a text.
func (s *served) await(t *testing.T, text string) string {
	t.Helper()
	for over := time.After(time.Minute); ; {
		select {
		case line, ok := <-s.lines:
			if !ok {
				t.Fatalf("the server ended before it said %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-over:
			t.Fatalf("the server did not say %q", text)
		}
	}
}

func TestServe_firstKeyATurnAndTheEnd(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "s.db")
	s := startServer(t, store, "--quiet", "--prefix", "/holdfast")
	start := startURL.FindString(s.await(t, "in a browser"))
	key := firstKey.FindString(s.await(t, "administrator's key"))
	c, err := client.New(client.Config{URL: s.url, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, want := range []int{http.StatusSeeOther, http.StatusUnauthorized} { // the address works once
		opened, err := http.NewRequestWithContext(ctx, http.MethodGet, start, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(opened)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != want {
			t.Errorf("%s: %d, want %d, %v", start, res.StatusCode, want, err)
		}
	}
	for path, want := range map[string]string{"/sessions": "assets/index-", "/docs/": `href="design.md"`, "/docs/search?q=fencing": "design.md#leases-and-fencing"} {
		asked, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		asked.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(asked)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d, %v", path, res.StatusCode, err)
		}
	}
	made, err := c.Create(ctx, session.Definition{Name: "echo"}, holdfast.WithName("trip"))
	if err != nil {
		t.Fatal(err)
	}
	turn, err := c.Execute(ctx, "trip", holdfast.SendMessage{Text: "hello"})
	if err != nil || !strings.Contains(turn.Reply(), "hello") {
		t.Fatalf("%+v, %v", turn.Info(), err)
	}
	// The terminal works on the same store at the same time.
	send := exec.CommandContext(ctx, "holdfast", "send", "trip", "from a terminal")
	send.Env = append(os.Environ(), "HOLDFAST_STORE="+store, "GORACE="+noSleep)
	if out, err := send.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if i, err := c.Info(ctx, made.ID()); err != nil || i.Version != 3 {
		t.Errorf("%+v, %v", i, err)
	}
	for {
		nodes := exec.CommandContext(ctx, "holdfast", "nodes", "list")
		nodes.Env = send.Env
		out, err := nodes.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if strings.Contains(string(out), "chat 0/32") && strings.Contains(string(out), "ready") {
			if !strings.Contains(string(out), s.url) {
				t.Errorf("other nodes do not learn the address %s:\n%s", s.url, out)
			}
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	following := make(chan error, 1)
	go func() {
		for range c.Follow(ctx, made.ID(), 0) {
			select {
			case following <- nil:
			default:
			}
		}
	}()
	<-following
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("a server that was told to end: %v", err)
	}
	// A second start shows no key again. The browser's login is a key too.
	again := startServer(t, store)
	if again.url == "" {
		t.Error("no address")
	}
	revoke := exec.CommandContext(ctx, "holdfast", "keys", "list", "--json")
	revoke.Env = append(os.Environ(), "HOLDFAST_STORE="+store, "GORACE="+noSleep)
	out, err := revoke.Output()
	if err != nil || strings.Count(string(out), `"scopes"`) != 2 || strings.Contains(string(out), key) {
		t.Errorf("%v: %s", err, out)
	}
}

// A server that is killed in the middle of an answer leaves it to whoever works
// on the store.
func TestWork_continuesWhatAKilledServerBegan(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "s.db")
	s := startServerWith(t, store, []string{"HOLDFAST_OFFLINE_PACE=10m"}, "--quiet")
	c, err := client.New(client.Config{URL: s.url, Key: firstKey.FindString(s.await(t, "administrator's key"))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	made, err := c.Create(ctx, session.Definition{Name: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = c.Execute(ctx, made.ID(), holdfast.SendMessage{Text: "hello"}) }() // nobody answers it here
	for u, err := range c.Follow(ctx, made.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Record == nil {
			continue
		}
		if _, begun := u.Record.Change.(session.ExecutionStarted); begun {
			break
		}
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // it was killed
	work := exec.CommandContext(ctx, "holdfast", "work", "--quiet")
	work.Env = append(os.Environ(), "HOLDFAST_STORE="+store, "HOLDFAST_OFFLINE_PACE=0s", "GORACE="+noSleep)
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		show := exec.CommandContext(ctx, "holdfast", "sessions", "history", made.ID())
		show.Env = work.Env
		out, err := show.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if strings.Count(string(out), "hello") > 1 { // the message, and the answer to it
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := work.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := work.Wait(); err != nil {
		t.Errorf("a worker that was told to end: %v", err)
	}
}
