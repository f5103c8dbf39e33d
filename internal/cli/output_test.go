package cli

import (
	"bytes"
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/store"
)

func TestPaint_onlyWhereThereAreColours(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terminal, flag bool
		env            map[string]string
		want           bool
	}{
		{terminal: true, want: true},
		{terminal: false},
		{terminal: true, flag: true},
		{terminal: true, env: map[string]string{"NO_COLOR": "1"}},
		{terminal: true, env: map[string]string{"TERM": "dumb"}},
	} {
		p := &program{noColor: c.flag, Setup: setup.New(&terminal.Console{
			Out: terminal.NewScreen(&bytes.Buffer{}), Err: terminal.NewScreen(&bytes.Buffer{}), Getenv: func(name string) string { return c.env[name] },
		}, nil, time.Now)}
		p.Out.Terminal = c.terminal
		if err := p.begin(&cobra.Command{}); err != nil {
			t.Fatal(err)
		}
		if got := p.Out.Paint(terminal.Red, "x") != "x"; got != c.want {
			t.Errorf("%+v: coloured is %t", c, got)
		}
	}
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Output that cannot be written is an error, also where the words of an answer
// are only streamed.
func TestOutput_thatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var errs bytes.Buffer
	p := &program{Setup: setup.New(&terminal.Console{
		In: terminal.NewInput(strings.NewReader("hello\n")), Out: terminal.NewScreen(fullDisk{}), Err: terminal.NewScreen(&errs), Getenv: func(string) string { return "" },
		Redactor: terminal.NewRedactor(), Interrupts: terminal.NewInterrupts(d.signals),
	}, nil, time.Now)}
	p.Open = func(context.Context, setup.StoreURL) (store.Store, error) { return d.store.Handle(), nil }
	if code := p.run([]string{"--store", "inmem:", "chat", "--model", "offline/echo"}); code != exitIO || !strings.Contains(errs.String(), "no space left on device") {
		t.Errorf("ended with %d:\n%s", code, &errs)
	}
}
