package cli

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
)

// line tells a change in a line of its own, for a file or a pipe.
func (v *view) line(c projector.Change) {
	i := c.Item
	p := v.course.pieces[i.Unit]
	switch {
	case i.Work != nil && c.Op == projector.Added && !i.Done:
		v.err.status("▸ %s · %s", i.Unit, i.Work.Agent)
	case i.Work != nil && c.Op == projector.Finished && i.Work.State == projector.WorkFinished && i.Work.Agent != "":
		v.err.status("✓ %s · %s · %s · %s so far", i.Unit, i.Work.Agent, durationText(p.took), tokensText(v.course.used.Total()))
	case i.Pending != nil && i.Pending.CallID != "" && p != nil && c.Op == projector.Added:
		v.err.status("? %s · %s", i.Unit, oneLine(p.note))
	case i.Pending != nil && i.Pending.CallID != "" && c.Op == projector.Finished:
		v.err.status("▸ %s · %s has its response", i.Unit, i.Pending.Tool)
	case i.Pending != nil && c.Op == projector.Added:
		v.err.status("? %s · a person is asked", i.Unit)
	case i.Pending != nil && c.Op == projector.Finished && p != nil:
		v.err.status("✓ %s · %s", i.Unit, p.note)
	}
	if text := v.kept(c); text != "" {
		fmt.Fprintln(v.err, text)
	}
}

// kept is what stays on the screen of a change whatever is drawn below it, ""
// for nothing: a warning, and where that is wanted what a unit answered.
func (v *view) kept(c projector.Change) string {
	i := c.Item
	switch {
	case i.Status != nil && i.Status.Event == (session.BudgetWarned{}).Kind() && c.Op == projector.Added:
		return v.err.paint(yellow, "warning:") + fmt.Sprintf(" %v: %v of %v used", i.Status.Name, i.Status.Used, i.Status.Limit)
	case v.verbose && i.Work != nil && c.Op == projector.Finished && i.Work.State == projector.WorkFinished && i.Work.Agent != "":
		return v.err.paint(dim, i.Unit) + "\n" + setIn(printable(v.redactor.redact(v.course.pieces[i.Unit].answer)))
	}
	return ""
}

// setIn is text with each line a little to the right.
func setIn(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ")
}
