package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// Report compares a replay with its recording.
type Report struct {
	Session string       `json:"session"`        // the recording's id
	Replay  string       `json:"replay"`         // the id of the new session
	From    int64        `json:"from,omitempty"` // the version that it is a fork of; 0: it is a session of its own
	Model   string       `json:"model"`          // that answered last
	Turns   []Comparison `json:"turns"`
	Missing int          `json:"missing,omitempty"` // turns that were not replayed, because one before them failed
	Differs int          `json:"differs"`           // how many turns differ
}

// Comparison is a turn as it was recorded and as it was replayed.
type Comparison struct {
	Recorded Turn     `json:"recorded"`
	Replayed Turn     `json:"replayed"`
	Differs  []string `json:"differs"` // in what: answer, calls, results
}

// What a turn may differ in. What it used is shown, but is no difference.
const (
	InAnswer  = "answer"  // what was said at the end
	InCalls   = "calls"   // which tools were called, with which arguments, in which order
	InResults = "results" // what the same calls came to
)

// Same reports a replay that came to what was recorded.
func (r *Report) Same() bool { return r.Differs == 0 && r.Missing == 0 }

// Cost returns what the recorded turns cost, and the replayed ones.
func (r *Report) Cost() (recorded, replayed session.Cost) {
	for _, c := range r.Turns {
		recorded, replayed = recorded+c.Recorded.Cost, replayed+c.Replayed.Cost
	}
	return recorded, replayed
}

func newReport(r *Recording, s session.Session, replayed []Turn, t *tape, sent int) *Report {
	report := &Report{Session: r.Session.ID, Replay: s.ID(), From: r.from, Model: s.Model(), Turns: []Comparison{}, Missing: len(r.Turns) - sent}
	for i, recorded := range r.Turns[:sent] {
		c := Comparison{Recorded: recorded}
		if i < len(replayed) {
			c.Replayed = replayed[i]
		}
		for j := range c.Replayed.Calls {
			c.Replayed.Calls[j].Source = t.sourceOf(c.Replayed.Calls[j].id)
		}
		c.Differs = compare(c.Recorded, c.Replayed)
		if len(c.Differs) > 0 {
			report.Differs++
		}
		report.Model = cmp.Or(c.Replayed.Model, report.Model)
		report.Turns = append(report.Turns, c)
	}
	return report
}

// compare returns what two turns differ in.
func compare(a, b Turn) []string {
	differs := []string{}
	if a.Answer != b.Answer {
		differs = append(differs, InAnswer)
	}
	switch {
	case !slices.EqualFunc(a.Calls, b.Calls, func(x, y Call) bool {
		return x.Waiting == y.Waiting && keyOf(x.Tool, x.Arguments) == keyOf(y.Tool, y.Arguments)
	}):
		differs = append(differs, InCalls)
	case !slices.EqualFunc(a.Calls, b.Calls, func(x, y Call) bool { return x.Result == y.Result && x.IsError == y.IsError }):
		differs = append(differs, InResults)
	}
	return differs
}

// String shows the turns and what they differ in: recorded lines with a minus,
// replayed ones with a plus.
func (r *Report) String() string {
	var b strings.Builder
	for i, c := range r.Turns {
		fmt.Fprintf(&b, "%d  %s\n", i+1, firstLine(c.Recorded.Text))
		for _, what := range []string{InCalls, InResults, InAnswer} {
			if slices.Contains(c.Differs, what) {
				fmt.Fprint(&b, marked("-", linesOf(c.Recorded, what)), marked("+", linesOf(c.Replayed, what)))
			}
		}
		fmt.Fprintf(&b, "   %s\n", summary(c))
	}
	return b.String()
}

// summary says in a line how two turns compare.
func summary(c Comparison) string {
	text := "same"
	if len(c.Differs) > 0 {
		text = "other " + strings.Join(c.Differs, " and ")
	}
	for _, s := range []Source{Recorded, Ran, Refused} {
		n := 0
		for _, call := range c.Replayed.Calls {
			if call.Source == s {
				n++
			}
		}
		if n > 0 {
			text += fmt.Sprintf(" · %d of %d calls %s", n, len(c.Replayed.Calls), s)
		}
	}
	if a, b := tokens(c.Recorded), tokens(c.Replayed); a+b > 0 {
		text += fmt.Sprintf(" · %d → %d tokens", a, b)
	}
	if c.Recorded.Cost != 0 || c.Replayed.Cost != 0 {
		text += fmt.Sprintf(" · $%s → $%s", c.Recorded.Cost, c.Replayed.Cost)
	}
	return text
}

func tokens(t Turn) int64 { return t.Usage.Input + t.Usage.Output }

// linesOf returns what of a turn is compared, as lines.
func linesOf(t Turn, what string) []string {
	var lines []string
	switch what {
	case InCalls, InResults:
		for _, c := range t.Calls {
			line := keyOf(c.Tool, c.Arguments)
			switch {
			case c.Waiting:
				line += " (waits)"
			case what == InResults:
				line += " → " + firstLine(c.Result)
			}
			lines = append(lines, line)
		}
	case InAnswer:
		lines = strings.Split(t.Answer, "\n")
		if t.Answer == "" {
			lines = []string{"(no answer)"}
		}
	}
	return lines
}

// marked shows lines with a mark before each.
func marked(mark string, lines []string) string {
	text := ""
	for _, line := range lines {
		text += "   " + mark + " " + line + "\n"
	}
	return text
}

// firstLine returns the beginning of a text, at most a line of it.
func firstLine(text string) string {
	line, _, cut := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(line); len(runes) > 100 {
		line, cut = string(runes[:100]), true
	}
	if cut {
		line += " …"
	}
	return line
}
