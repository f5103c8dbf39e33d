package cli

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/workflow"
)

// line tells an event in a line of its own, for a file or a pipe.
func (v *view) line(e workflow.Event) {
	unit, _ := e.Data["unit"].(string)
	p := v.course.pieces[unit]
	switch e.Type {
	case workflow.WorkflowStart:
		verb := "started"
		if resumed, _ := e.Data["resumed"].(bool); resumed {
			verb = "resumed"
		}
		v.err.status("%s %s · %s · id %s", verb, oneLine(e.SpecName), e.Pattern, e.SessionID)
	case workflow.StepStart, workflow.TaskStart, workflow.WorkerStart, workflow.NodeStart:
		v.err.status("▸ %s · %s", unit, p.agent)
	case workflow.StepComplete, workflow.TaskComplete, workflow.WorkerComplete, workflow.NodeComplete:
		v.err.status("✓ %s · %s · %s · %s so far", unit, p.agent, spell(p.took), tokensText(v.course.used.Total()))
		if text := v.answer(e); text != "" {
			fmt.Fprintln(v.err, text)
		}
	case workflow.RoutingDecision:
		v.err.status("→ %s", v.course.route)
	case workflow.HITLPause:
		v.err.status("? %s · a person is asked", unit)
	case workflow.HITLAnswer:
		v.err.status("✓ %s · %s", unit, p.note)
	case workflow.BudgetWarning:
		fmt.Fprintln(v.err, v.kept(e))
	}
}

// kept is what stays on the screen of an event whatever is drawn below it, ""
// for nothing.
func (v *view) kept(e workflow.Event) string {
	if e.Type == workflow.BudgetWarning {
		return v.err.paint(yellow, "warning:") + fmt.Sprintf(" %v: %v of %v used", e.Data["budget"], e.Data["used"], e.Data["limit"])
	}
	return v.answer(e)
}

// answer is what a unit answered, set in, where that is wanted.
func (v *view) answer(e workflow.Event) string {
	text, _ := e.Data["response"].(string)
	unit, _ := e.Data["unit"].(string)
	if !v.verbose || unit == "" || e.Type == workflow.HITLAnswer {
		return ""
	}
	return v.err.paint(dim, unit) + "\n" + setIn(printable(v.failures.masked(text)))
}

// setIn is text with each line a little to the right.
func setIn(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ")
}
