// Package display says how sessions look at a terminal: their titles and
// changes, the calls that wait, and live views of turns, runs and tasks. It
// reads what it is given and changes nothing.
package display

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/workflow"
)

// StatusOf returns the status that listings show: a run's or a task's own.
func StatusOf(i session.Info) string {
	switch {
	case i.Status == session.Deleted:
	case i.Workflow != nil:
		return i.Workflow.Status
	case i.Task != nil:
		return task.Canonical(*i.Task)
	}
	return string(i.Status)
}

// StatusColour returns the colour of a status.
func StatusColour(s session.Status) terminal.Colour {
	switch s {
	case session.Active:
		return terminal.Green
	case session.Suspended:
		return terminal.Yellow
	case session.Failed:
		return terminal.Red
	}
	return terminal.Dim
}

// ProgressText returns how far a run or a task has come, from its row: units that
// are done, steps of the plan, items of the checklist.
func ProgressText(i session.Info) string {
	of := func(done, all int) string {
		if all == 0 {
			return strconv.Itoa(done)
		}
		return fmt.Sprintf("%d/%d", done, all)
	}
	switch {
	case i.Workflow != nil:
		return of(i.Workflow.UnitsDone, i.Workflow.Units)
	case i.Task == nil || i.Task.Projection == nil:
	case i.Task.Projection.Steps > 0:
		return of(i.Task.Projection.StepsDone, i.Task.Projection.Steps)
	case i.Task.Projection.Items > 0:
		return of(i.Task.Projection.ItemsDone, i.Task.Projection.Items)
	}
	return ""
}

// CostText returns what a run or a task has cost, from its row. A chat's row has
// no cost: it would have to be written with every answer.
func CostText(i session.Info) string {
	switch {
	case i.Workflow != nil:
		return "$" + i.Workflow.Cost.String()
	case i.Task != nil && i.Task.Projection != nil:
		return "$" + i.Task.Projection.Cost.String()
	}
	return ""
}

// RunStatus is the status of a run as a person reads it: one that was killed
// still says that it runs.
func RunStatus(status string, live bool) string {
	if status == string(workflow.StatusRunning) && !live {
		return status + " (interrupted)"
	}
	return status
}

// RunColour returns the colour of the status of a run.
func RunColour(s workflow.Status) terminal.Colour {
	switch s {
	case workflow.StatusRunning:
		return terminal.Cyan
	case workflow.StatusPaused:
		return terminal.Yellow
	case workflow.StatusFailed, workflow.StatusCancelled:
		return terminal.Red
	case workflow.StatusCompleted:
		return terminal.Green
	}
	return terminal.Plain
}

// ShortID returns enough of a generated id to tell it from others. An id somebody
// chose is returned whole.
func ShortID(id string) string {
	if uuid.Validate(id) == nil {
		return id[:8]
	}
	return id
}

// Title returns how a session is called in a sentence.
func Title(i session.Info) string {
	if i.Name == "" {
		return ShortID(i.ID)
	}
	return ShortID(i.ID) + " “" + terminal.OneLine(i.Name) + "”"
}

// ContinueCommand returns the command that continues an interrupted session.
func ContinueCommand(kind session.Kind, id string) string {
	switch kind {
	case session.KindTask:
		return "holdfast task resume " + ShortID(id)
	case session.KindWorkflow:
		return "holdfast run --resume " + ShortID(id)
	}
	return "holdfast chat --session " + ShortID(id)
}

// HolderText returns who executes, in words: a holder is named host/process/….
func HolderText(holder string) string {
	parts := strings.Split(holder, "/")
	if len(parts) < 3 {
		return terminal.OneLine(holder)
	}
	return terminal.OneLine("process " + parts[1] + " on " + parts[0])
}

// ModelText names the model of a session.
func ModelText(s session.Session) string {
	text := cmp.Or(s.Model(), "the default")
	if params, err := json.Marshal(s.ModelParams()); err == nil && string(params) != "{}" {
		text += " " + string(params)
	}
	return text
}

// LastMessages returns the last messages of a session, each under who said it.
func LastMessages(to *terminal.Screen, now time.Time, s session.Session, most int) string {
	var b strings.Builder
	from := max(0, s.Len()-max(most, 0))
	if hidden := s.Info().MessageCount - (s.Len() - from); hidden > 0 && from < s.Len() {
		fmt.Fprintf(&b, "\n%s\n", to.Paint(terminal.Dim, "… "+terminal.CountOf(hidden, "earlier message")))
	}
	for i := from; i < s.Len(); i++ {
		b.WriteString(MessageText(to, now, s.Message(i)))
	}
	return b.String()
}

// MessageText returns a message under who said it.
func MessageText(to *terminal.Screen, now time.Time, m session.Message) string {
	var b strings.Builder
	who := map[session.Role]string{session.RoleUser: "you", session.RoleAssistant: "agent"}[m.Role]
	if who == "" {
		who = string(m.Role)
	}
	fmt.Fprintf(&b, "\n%s %s\n", to.Paint(terminal.Cyan, who), to.Paint(terminal.Dim, terminal.Ago(m.CreatedAt, now)))
	indent := func(text string) {
		for line := range strings.Lines(terminal.Printable(text)) {
			b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	indent(m.Content.Text())
	for _, part := range m.Content {
		if part.Type != session.PartText {
			indent("[" + strings.TrimSpace(part.Type+" "+terminal.OneLine(part.Name)) + "]")
		}
	}
	for _, call := range m.ToolCalls {
		indent("→ " + call.Name + " " + terminal.Shortened(string(call.Arguments), 200))
	}
	if r := m.ToolResult; r != nil {
		indent("← " + r.ToolName + " " + terminal.Shortened(r.Content, 200))
	}
	return b.String()
}

// SavedText says what is safe now.
func SavedText(i session.Info) string {
	return fmt.Sprintf("saved · version %d · %s · id %s", i.Version, terminal.CountOf(i.MessageCount, "message"), ShortID(i.ID))
}

// SpentText returns what something used, "" where that is nothing. A price that is
// not known is left out.
func SpentText(u session.Usage, c session.Cost) string {
	if u.Input+u.Output == 0 {
		return ""
	}
	text := fmt.Sprintf("%d tokens in, %d out", u.Input, u.Output)
	if c > 0 {
		text += " · $" + c.String()
	}
	return text
}
