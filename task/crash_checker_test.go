package task_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// The account sees every fault it is there to see.
func TestCrashAccount_seesEveryFault(t *testing.T) {
	t.Parallel()
	done := func() crashFound {
		return crashFound{
			row:       session.TaskRow{Status: task.Completed, TerminalStatus: task.TerminalOK, Projection: &session.TaskProjection{}},
			state:     session.TaskState{Approvals: []session.Approval{{ID: "a", Status: "approved", By: "ann"}}},
			said:      []string{"user: USER UPDATE: " + crashUpdate},
			delivered: 1, completed: 1, approvalID: "a",
		}
	}
	lines := []crashLine{{"asked", "plan", 0}, {"asked", "look", 0}, {"began", "look-1", 0}, {"began", "look-1", 1}, {"asked", "note", 1}, {"began", "note-1", 1}}
	lives := func() []crashFound {
		return []crashFound{{}, {planned: true, answered: map[string]bool{"look": true}, finished: map[string]bool{}, approvalID: "a"}}
	}
	undisturbed := done()
	if faults := crashAccount(lines, lives(), done(), &undisturbed); faults != nil {
		t.Fatalf("nothing is wrong, and it sees %v", faults)
	}
	for name, c := range map[string]struct {
		more   []crashLine
		change func(lives []crashFound, end *crashFound)
		want   string
	}{
		"an answer asked for again":  {more: []crashLine{{"asked", "look", 1}}, want: "which the log answers"},
		"a plan made again":          {more: []crashLine{{"asked", "plan", 1}}, want: "which the log answers"},
		"a tool that ran again":      {change: func(l []crashFound, _ *crashFound) { l[1].finished["look-1"] = true }, want: "whose result is in the log"},
		"a tool that ran twice":      {more: []crashLine{{"began", "note-1", 1}}, want: "ran 2 times"},
		"a message that was lost":    {change: func(_ []crashFound, e *crashFound) { e.delivered, e.said = 0, nil }, want: "delivered 0 times"},
		"a message that came twice":  {change: func(_ []crashFound, e *crashFound) { e.said = append(e.said, e.said[0]) }, want: "said 2 times"},
		"an approval of another one": {change: func(_ []crashFound, e *crashFound) { e.approvalID = "b" }, want: "asked for again"},
		"an approval that is open":   {change: func(_ []crashFound, e *crashFound) { e.state.Approvals[0].Status = "pending" }, want: "the approvals are"},
		"a task that failed":         {change: func(_ []crashFound, e *crashFound) { e.row.Status = task.Failed }, want: "the task is failed"},
		"another state":              {change: func(_ []crashFound, e *crashFound) { e.state.Loop.LifetimeTurns++ }, want: "another state"},
		"another row":                {change: func(_ []crashFound, e *crashFound) { e.row.ResultSummary = "x" }, want: "another row"},
		"another transcript":         {change: func(_ []crashFound, e *crashFound) { e.said = append(e.said, "user: more") }, want: "another transcript"},
	} {
		l, end := lives(), done()
		if c.change != nil {
			c.change(l, &end)
		}
		err := errors.Join(crashAccount(append(append([]crashLine{}, lines...), c.more...), l, end, &undisturbed)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: it sees %v, want %q", name, err, c.want)
		}
	}
}
