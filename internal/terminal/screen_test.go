package terminal

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAgo_readsAsAPersonWouldSay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for before, want := range map[time.Duration]string{
		0: "just now", -30 * time.Second: "just now", 59 * time.Second: "59s ago", time.Minute: "1m ago",
		119 * time.Minute: "1h ago", 47 * time.Hour: "1d ago", 29 * 24 * time.Hour: "29d ago",
		60 * 24 * time.Hour: now.Add(-60 * 24 * time.Hour).Local().Format("2006-01-02"),
	} {
		if got := Ago(now.Add(-before), now); got != want {
			t.Errorf("%v before is %q, want %q", before, got, want)
		}
	}
}

func TestTable_alignsWideCharacters(t *testing.T) {
	t.Parallel()
	tb := Table{Head: []string{"NAME", "N"}}
	tb.Add(Styled("日本", Plain), Styled("1", Plain))
	tb.Add(Styled("plain", Plain), Styled("2", Plain))
	want := "NAME   N\n日本   1\nplain  2\n"
	if got := tb.Layout(NewScreen(&bytes.Buffer{})); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPrintable_cannotDriveATerminal(t *testing.T) {
	t.Parallel()
	if got := Printable("a\x1b[31mb\u202ec\r\td\n"); strings.ContainsAny(got, "\x1b\u202e\r") || !strings.Contains(got, "\td\n") {
		t.Errorf("%q", got)
	}
}

func TestScreen_saysOnceThatNobodyReads(t *testing.T) {
	t.Parallel()
	s := NewScreen(brokenPipe{})
	for range 2 {
		if err := s.Print("x"); !errors.Is(err, ErrReaderGone) {
			t.Errorf("writing to a closed pipe is %v", err)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }
