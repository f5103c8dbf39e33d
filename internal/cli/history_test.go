package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

// conversation is a session s with three versions: made, "one", "two".
func conversation(t *testing.T) *desk {
	d := newDesk(t)
	d.must("one\ntwo\n", "chat", "--name", "s")
	return d
}

func TestLog_hasEveryChangeInOrder(t *testing.T) {
	t.Parallel()
	d := conversation(t)
	text := d.must("", "sessions", "log", "s")
	for _, want := range []string{"session_created", "user: one", "assistant: You said: two", "execution_finished", " v3 "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var last int64
	for line := range strings.Lines(d.must("", "sessions", "log", "s", "--json")) {
		var e session.LogEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Seq != last+1 {
			t.Errorf("change %d follows %d", e.Seq, last)
		}
		last = e.Seq
	}
	if last == 0 || strings.Count(text, "\n") != int(last) {
		t.Errorf("%d changes as JSON, %d as text", last, strings.Count(text, "\n"))
	}
	if after := d.must("", "sessions", "log", "s", "--after", "2"); strings.Contains(after, "session_created") {
		t.Errorf("--after 2 shows the first change:\n%s", after)
	}
}

func TestLog_followsUntilInterrupted(t *testing.T) {
	t.Parallel()
	d := conversation(t)
	_, ended := d.talk("sessions", "log", "s", "--follow")
	d.out.wait(t, "You said: two")
	other := newDesk(t)
	other.store = d.store
	other.must("", "send", "s", "three")
	d.out.wait(t, "You said: three")
	d.signals <- os.Interrupt
	if code := exitCode(t, ended); code != exitOK {
		t.Errorf("following ended with %d:\n%s", code, d.err)
	}
}

func TestDiff_isWhatLiesBetweenTwoVersions(t *testing.T) {
	t.Parallel()
	d := conversation(t)
	text := d.must("", "sessions", "diff", "s", "2", "3")
	if !strings.Contains(text, "user: two") || strings.Contains(text, "user: one") {
		t.Errorf("from 2 to 3:\n%s", text)
	}
	var entries []session.LogEntry
	if err := json.Unmarshal([]byte(d.must("", "sessions", "diff", "s", "2", "3", "--json")), &entries); err != nil || len(entries) == 0 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	if same := d.must("", "sessions", "diff", "s", "3", "3", "--json"); same != "[]\n" {
		t.Errorf("from 3 to 3: %s", same)
	}
	for _, args := range [][]string{{"3", "2"}, {"0", "2"}, {"2", "9"}} {
		if code := d.run(strings.NewReader(""), "sessions", "diff", "s", args[0], args[1]); code != exitUsage {
			t.Errorf("diff %v ended with %d", args, code)
		}
	}
}

func TestRewind_goesBackAndForth(t *testing.T) {
	t.Parallel()
	d := conversation(t)
	if text := d.must("", "sessions", "rewind", "s", "2"); !strings.Contains(text, "rewound to version 2") || !strings.Contains(text, "version 4") {
		t.Errorf("it says %s", text)
	}
	if shown := d.must("", "sessions", "show", "s"); strings.Contains(shown, "two") || !strings.Contains(shown, "one") {
		t.Errorf("after going back:\n%s", shown)
	}
	d.must("", "sessions", "rewind", "s", "3")
	if shown := d.must("", "sessions", "show", "s"); !strings.Contains(shown, "two") {
		t.Errorf("after going forth:\n%s", shown)
	}
	if code := d.run(strings.NewReader(""), "sessions", "rewind", "s", "99"); code != exitUsage {
		t.Errorf("a version that never was ended with %d", code)
	}
}

func TestVersions_areShownExportedAndForked(t *testing.T) {
	t.Parallel()
	d := conversation(t)
	for _, command := range [][]string{{"show", "s", "--at", "2"}, {"show", "s", "--at", "2", "--json"}, {"export", "s", "--at", "2"}} {
		text := d.must("", append([]string{"sessions"}, command...)...)
		if strings.Contains(text, "two") || !strings.Contains(text, "one") {
			t.Errorf("%v:\n%s", command, text)
		}
	}
	d.must("", "sessions", "fork", "s", "--at", "2", "--name", "branch")
	if shown := d.must("", "sessions", "show", "branch"); strings.Contains(shown, "two") || !strings.Contains(shown, "at version 2") {
		t.Errorf("the fork:\n%s", shown)
	}
}

func TestSend_keyRunsOnce(t *testing.T) {
	t.Parallel()
	d := conversation(t)
	first := d.must("", "send", "s", "three", "--key", "k", "--json")
	if again := d.must("", "send", "s", "three", "--key", "k", "--json"); again != first {
		t.Errorf("the second call gives another session:\n%s\n%s", first, again)
	}
	if code := d.run(strings.NewReader(""), "send", "s", "four", "--key", "k"); code != exitSession {
		t.Errorf("another message under the same key ended with %d", code)
	}
}
