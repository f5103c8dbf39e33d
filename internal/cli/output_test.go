package cli

import (
	"bytes"
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/store"
)

func TestAgo_readsAsAPersonWouldSay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for before, want := range map[time.Duration]string{
		0: "just now", -30 * time.Second: "just now", 59 * time.Second: "59s ago", time.Minute: "1m ago",
		119 * time.Minute: "1h ago", 47 * time.Hour: "1d ago", 29 * 24 * time.Hour: "29d ago",
		60 * 24 * time.Hour: now.Add(-60 * 24 * time.Hour).Local().Format("2006-01-02"),
	} {
		if got := ago(now.Add(-before), now); got != want {
			t.Errorf("%v before is %q, want %q", before, got, want)
		}
	}
}

func TestTable_alignsWideCharacters(t *testing.T) {
	t.Parallel()
	tb := table{head: []string{"NAME", "N"}}
	tb.add(cell{"日本", plain}, cell{"1", plain})
	tb.add(cell{"plain", plain}, cell{"2", plain})
	want := "NAME   N\n日本   1\nplain  2\n"
	if got := tb.layout(newScreen(&bytes.Buffer{})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPrintable_cannotDriveATerminal(t *testing.T) {
	t.Parallel()
	if got := printable("a\x1b[31mb\u202ec\r\td\n"); strings.ContainsAny(got, "\x1b\u202e\r") || !strings.Contains(got, "\td\n") {
		t.Errorf("%q", got)
	}
}

func TestScreen_saysOnceThatNobodyReads(t *testing.T) {
	t.Parallel()
	s := newScreen(brokenPipe{})
	for range 2 {
		if err := s.print("x"); outcomeCode(err) != exitOK || err == nil {
			t.Errorf("writing to a closed pipe is %v", err)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func outcomeCode(err error) int {
	code, _ := exitCodeOf(err)
	return code
}

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
		p := &program{
			out: newScreen(&bytes.Buffer{}), err: newScreen(&bytes.Buffer{}), noColor: c.flag,
			getenv: func(name string) string { return c.env[name] },
		}
		p.out.terminal = c.terminal
		if err := p.begin(&cobra.Command{}); err != nil {
			t.Fatal(err)
		}
		if got := p.out.paint(red, "x") != "x"; got != c.want {
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
	p := &program{
		in: newInput(strings.NewReader("hello\n")), out: newScreen(fullDisk{}), err: newScreen(&errs), getenv: func(string) string { return "" },
		now: time.Now, redactor: newRedactor(), interrupts: &interrupts{signals: d.signals, catch: func() {}, release: func() {}},
		open: func(context.Context, storeURL) (store.Store, error) { return d.store.Handle(), nil },
	}
	if code := p.run([]string{"--store", "inmem:", "chat", "--model", "offline/echo"}); code != exitIO || !strings.Contains(errs.String(), "no space left on device") {
		t.Errorf("ended with %d:\n%s", code, &errs)
	}
}
