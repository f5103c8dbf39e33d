package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// desk is a place to run the command at, on one store in memory: what would
// be several runs of the program see each other's sessions.
type desk struct {
	t        *testing.T
	store    *inmem.Store
	env      map[string]string
	person   bool // somebody types
	screen   bool // the outputs are a terminal
	signals  chan os.Signal
	open     func() store.Store // nil: the store in memory
	out, err *transcript
}

func newDesk(t *testing.T) *desk {
	return &desk{
		t: t, store: inmem.New(inmem.Config{}), env: map[string]string{"HOLDFAST_NO_TITLES": "1"}, signals: make(chan os.Signal, 1),
		out: newTranscript(), err: newTranscript(),
	}
}

// run runs a command line and returns its exit code. The outputs are those of
// this run alone.
func (d *desk) run(in io.Reader, args ...string) int {
	d.out.reset()
	d.err.reset()
	where := []string{"--store", "inmem:"}
	if d.env["HOLDFAST_SERVER"] != "" {
		where = nil
	}
	return d.program(in).run(append(where, args...))
}

// program returns a run of the program at this desk.
func (d *desk) program(in io.Reader) *program {
	environ := []string{}
	for name, value := range d.env {
		environ = append(environ, name+"="+value)
	}
	p := &program{Setup: setup.New(&terminal.Console{
		In: terminal.NewInput(in), Out: terminal.NewScreen(d.out), Err: terminal.NewScreen(d.err), Getenv: func(name string) string { return d.env[name] },
		Redactor: terminal.NewRedactor(), Interrupts: terminal.NewInterrupts(d.signals),
	}, environ, time.Now)}
	p.Open = func(context.Context, setup.StoreURL) (store.Store, error) {
		if d.open != nil {
			return d.open(), nil
		}
		return d.store.Handle(), nil
	}
	p.In.Terminal, p.Out.Terminal, p.Err.Terminal = d.person, d.screen, d.screen
	return p
}

// must runs a command line that has to end well, and returns what it printed.
func (d *desk) must(in string, args ...string) string {
	d.t.Helper()
	if code := d.run(strings.NewReader(in), args...); code != 0 {
		d.t.Fatalf("%q ended with %d:\n%s", args, code, d.err)
	}
	return d.out.String()
}

// transcript is an output that can be waited for.
type transcript struct {
	mu    sync.Mutex // guards text and grown
	text  strings.Builder
	grown chan struct{} // closed and replaced when there is more
}

func newTranscript() *transcript { return &transcript{grown: make(chan struct{})} }

func (tr *transcript) Write(data []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	close(tr.grown)
	tr.grown = make(chan struct{})
	return tr.text.Write(data)
}

func (tr *transcript) String() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.text.String()
}

func (tr *transcript) reset() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.text.Reset()
}

// wait waits until a text has been written.
func (tr *transcript) wait(t *testing.T, text string) {
	t.Helper()
	tr.waitAfter(t, "", text)
}

// waitAfter waits until a text has been written after another.
func (tr *transcript) waitAfter(t *testing.T, first, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		tr.mu.Lock()
		have, grown := tr.text.String(), tr.grown
		tr.mu.Unlock()
		if _, after, ok := strings.Cut(have, first); ok && strings.Contains(after, text) {
			return
		}
		select {
		case <-grown:
		case <-ctx.Done():
			t.Fatalf("%q was not written after %q; this was:\n%s", text, first, have)
		}
	}
}
