package cli

import (
	"strings"
	"testing"
)

func TestChat_aPersonChoosesTheSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.must("", "ask", "--name", "first", "one")
	d.must("", "ask", "two words without a name")
	d.person, d.screen = true, true
	for answer, want := range map[string]string{"1": "You said: two words", "2": "You said: one", "first": "You said: one"} {
		if code := d.run(strings.NewReader(answer+"\n"), "chat", "--session"); code != 0 {
			t.Fatalf("%q ended with %d:\n%s", answer, code, d.err)
		}
		if shown := d.err.String(); !strings.Contains(shown, "which one?") || !strings.Contains(shown, "two words without a name") {
			t.Errorf("the choice is\n%s", shown)
		}
		if !strings.Contains(d.out.String(), want) {
			t.Errorf("%q leads to\n%s", answer, d.out)
		}
	}
	if code := d.run(strings.NewReader("3\n"), "chat", "--session"); code != exitUsage || !strings.Contains(d.err.String(), "3 is not 1 to 2") {
		t.Errorf("3 of 2 ended with %d:\n%s", code, d.err)
	}
	if code := d.run(strings.NewReader("\n"), "chat", "--session"); code != exitCancelled {
		t.Errorf("no choice ended with %d:\n%s", code, d.err)
	}
}
