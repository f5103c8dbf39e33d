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

func TestTable_doesWithoutColumnsWhereItIsNarrow(t *testing.T) {
	t.Parallel()
	tb := Table{Head: []string{"ID", "NAME", "AGENT", "UPDATED"}, Flex: 1, Spare: []string{"AGENT", "UPDATED"}}
	tb.Add(Styled("4711", Plain), Styled("a question of some length", Plain), Styled("assistant", Plain), Styled("just now", Plain))
	for columns, want := range map[int]string{
		0:  "ID    NAME                       AGENT      UPDATED\n4711  a question of some length  assistant  just now\n",
		40: "ID    NAME           AGENT      UPDATED\n4711  a question o…  assistant  just now\n",
		30: "ID    NAME            UPDATED\n4711  a question of…  just now\n",
		20: "ID    NAME\n4711  a question of…\n",
		5:  "ID    NAME\n4711  a quest…\n",
	} {
		if got := tb.layout(NewScreen(&bytes.Buffer{}), columns); got != want {
			t.Errorf("in %d columns:\n%s\nwant\n%s", columns, got, want)
		}
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
