package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// newServedDesk returns a desk whose commands work against a server, and that
// server's own desk, which has the store.
func newServedDesk(t *testing.T, env map[string]string, flags ...string) (d, at *desk) {
	t.Helper()
	at = newDesk(t)
	for name, value := range env {
		at.env[name] = value
	}
	ended := make(chan int, 1)
	go func() {
		ended <- at.run(strings.NewReader(""), append([]string{"serve", "--listen", "127.0.0.1:0", "--quiet", "--no-work"}, flags...)...)
	}()
	at.err.wait(t, "shown this once: ")
	at.err.waitAfter(t, "shown this once: ", "\n")
	t.Cleanup(func() {
		at.signals <- os.Interrupt
		if code := <-ended; code != 0 {
			t.Errorf("the server ended with %d:\n%s", code, at.err)
		}
	})
	d = newDesk(t)
	d.env["HOLDFAST_SERVER"] = regexp.MustCompile(`http://[0-9.:]+`).FindString(at.err.String())
	d.env["HOLDFAST_KEY"] = regexp.MustCompile(`hf_\w+`).FindString(at.err.String())
	return d, at
}

func TestServer_refusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	d, at := newServedDesk(t, nil)
	reads := newDesk(t)
	reads.store = at.store
	readKey := strings.TrimSpace(reads.must("", "keys", "create", "--scope", "read"))
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	t.Cleanup(other.Close)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(d.env["HOLDFAST_KEY"]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, key := d.env["HOLDFAST_SERVER"], d.env["HOLDFAST_KEY"]
	for name, c := range map[string]struct {
		url, key string
		args     []string
		code     int
		says     []string
	}{
		"no server":        {closed.URL, key, []string{"sessions", "list"}, exitIO, []string{"reach the server", "refused", "holdfast serve"}},
		"another server":   {other.URL, key, []string{"sessions", "list"}, exitIO, []string{"no Holdfast server"}},
		"no address":       {"nonsense", key, []string{"sessions", "list"}, exitUsage, []string{"is not an address"}},
		"no key":           {url, "", []string{"sessions", "list"}, exitUnsupported, []string{"HOLDFAST_KEY", "holdfast keys create"}},
		"wrong key":        {url, "hf_wrong", []string{"sessions", "list"}, exitUnsupported, []string{"not known", "is HOLDFAST_KEY right"}},
		"wrong scope":      {url, readKey, []string{"sessions", "create"}, exitUnsupported, []string{"does not have the scope write", "use a key with that scope"}},
		"key in a file":    {url, "", []string{"sessions", "list", "--key-file", keyFile}, exitOK, nil},
		"no key file":      {url, "", []string{"sessions", "list", "--key-file", keyFile + "x"}, exitIO, []string{"read the key"}},
		"doctor":           {url, key, []string{"doctor"}, exitUnsupported, []string{`"holdfast doctor" does not work against the server`, "run it where the store is"}},
		"serve":            {url, key, []string{"serve"}, exitUnsupported, []string{"does not work against the server"}},
		"copy":             {url, key, []string{"sessions", "copy", "--server", url, "--from", "sqlite:a", "--to", "sqlite:b"}, exitUnsupported, []string{"between stores"}},
		"tools":            {url, key, []string{"chat", "--allow-write"}, exitUsage, []string{"the server decides it"}},
		"tenant":           {url, key, []string{"sessions", "list", "--tenant", "x"}, exitUsage, []string{"the key says the tenant"}},
		"store and server": {url, key, []string{"sessions", "list", "--server", url, "--store", "inmem:"}, exitUsage, []string{"either --server or --store"}},
		"store counts":     {closed.URL, key, []string{"sessions", "list", "--store", "inmem:"}, exitOK, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.env["HOLDFAST_SERVER"], d.env["HOLDFAST_KEY"] = c.url, c.key
			if code := d.run(strings.NewReader(""), c.args...); code != c.code {
				t.Errorf("exit code %d, want %d:\n%s", code, c.code, d.err)
			}
			for _, text := range c.says {
				if !strings.Contains(d.err.String(), text) {
					t.Errorf("%q is not said:\n%s", text, d.err)
				}
			}
		})
	}
}

// Ctrl-C interrupts a turn on a server as it does here: nothing is lost, and
// the next message continues it.
func TestServer_interruptsATurn(t *testing.T) {
	t.Parallel()
	d, at := newServedDesk(t, map[string]string{"HOLDFAST_OFFLINE_PACE": "10m"})
	d.person = true
	keyboard, ended := d.talk("chat", "--name", "s")
	typed(t, keyboard, "hello")
	d.out.wait(t, "You ")
	d.signals <- os.Interrupt
	d.err.wait(t, "together with your next one")
	if err := keyboard.Close(); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != exitInterrupted {
		t.Errorf("exit code %d:\n%s", code, d.err)
	}
	d.person = false
	if shown := d.must("", "sessions", "show", "s"); !strings.Contains(shown, "interrupted") {
		t.Errorf("shown is %s", shown)
	}
	here := newDesk(t) // without the pause
	here.store = at.store
	if got := here.must("", "send", "s", "--continue"); !strings.Contains(got, "You said: hello") {
		t.Errorf("the answer is %q", got)
	}
	if log := d.must("", "sessions", "log", "s"); strings.Count(log, "user: hello") != 1 {
		t.Errorf("the log is %s", log)
	}
}
