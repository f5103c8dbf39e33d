package cli

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// Each word is shown once, whatever a broken connection makes the server send
// again; an answer that begins anew says so.
func TestServerTurn_wordsAreShownOnce(t *testing.T) {
	t.Parallel()
	first := holdfast.Attempt{ExecutionID: "e", StepID: "s"}
	second := holdfast.Attempt{ExecutionID: "e", StepID: "s", Number: 1}
	delta := func(a holdfast.Attempt, text string) holdfast.Update {
		return holdfast.Update{Delta: &holdfast.Delta{Attempt: a, Text: text}}
	}
	dropped := holdfast.Update{Dropped: &first}
	answer := func(text string) holdfast.Update {
		m := session.Message{ID: "m", Role: session.RoleAssistant, Content: session.Text(text)}
		return holdfast.Update{Record: &session.LogEntry{Record: session.Record{Seq: 5, Change: session.MessageAdded{Message: m}}}}
	}
	const void = "(the answer was interrupted, asking again)\n"
	for name, c := range map[string]struct {
		updates []holdfast.Update
		want    string
	}{
		"whole":                  {[]holdfast.Update{delta(first, "one "), delta(first, "two"), answer("one two")}, "one two\n"},
		"record alone":           {[]holdfast.Update{answer("one two")}, "one two\n"},
		"sent again in one":      {[]holdfast.Update{delta(first, "one "), dropped, delta(first, "one two"), answer("one two")}, "one two\n"},
		"sent again in pieces":   {[]holdfast.Update{delta(first, "one two"), dropped, delta(first, "one "), delta(first, "two"), delta(first, " three"), answer("one two three")}, "one two three\n"},
		"the rest is recorded":   {[]holdfast.Update{delta(first, "one "), dropped, answer("one two")}, "one two\n"},
		"another attempt":        {[]holdfast.Update{delta(first, "one "), dropped, delta(second, "uno"), answer("uno")}, "one \n" + void + "uno\n"},
		"another was recorded":   {[]holdfast.Update{delta(first, "one "), answer("uno")}, "one \n" + void + "uno\n"},
		"broken again and again": {[]holdfast.Update{delta(first, "a"), dropped, delta(first, "ab"), dropped, delta(first, "abc"), answer("abcd")}, "abcd\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			p := d.program(strings.NewReader(""))
			n := p.newTurnView("id")
			turn := &serverTurn{turnView: n}
			for _, u := range c.updates {
				turn.hear(u)
			}
			n.end()
			if got := d.out.String(); got != c.want {
				t.Errorf("shown is %q, want %q", got, c.want)
			}
		})
	}
}
