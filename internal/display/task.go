package display

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// StatusText is where a task stands, in words.
func StatusText(row task.Row) string {
	status := task.Canonical(row.TaskRow)
	if row.TerminalStatus != "" && row.TerminalStatus != task.TerminalOK && row.TerminalStatus != status {
		return status + " (" + strings.ReplaceAll(row.TerminalStatus, "_", " ") + ")"
	}
	return status
}

// AsksUser reports a task that rests until its question is answered.
func AsksUser(row task.Row) bool {
	return task.Canonical(row.TaskRow) == task.Paused && row.AwaitingUserInputReasonCode != "" && row.PendingApprovals > 0
}

// NextForTask is the command that leads on.
func NextForTask(row task.Row) string {
	id := ShortID(row.ID)
	switch status := task.Canonical(row.TaskRow); {
	case status == task.Blocked && row.PendingApprovals > 0:
		return "holdfast task approve " + id + " (or deny)"
	case AsksUser(row):
		return "holdfast task send " + id + " \"…\""
	case status == task.Paused && row.FailureClass == task.ClassBudget:
		return "holdfast task continue " + id
	case status == task.Failed:
		return "holdfast task retry " + id
	case slices.Contains([]string{task.Completed, task.Cancelled}, status):
		return "holdfast task send " + id + " \"…\" opens another run"
	case status == task.Executing, status == task.Planning:
		return "holdfast task watch " + id
	}
	return "holdfast task resume " + id
}

// HasResult reports a task whose summary is its result: it has ended, or was
// asked to wrap up.
func HasResult(row task.Row) bool {
	n := len(row.StopReasons)
	return task.Ended(row.TaskRow) || row.Status == task.Interrupted && n > 0 && row.StopReasons[n-1] == string(task.StopWrapUp)
}

// TaskColour returns the colour of the status of a task.
func TaskColour(row task.Row) terminal.Colour {
	switch task.Canonical(row.TaskRow) {
	case task.Completed:
		return terminal.Green
	case task.Failed:
		return terminal.Red
	case task.Blocked, task.Paused, task.Interrupted:
		return terminal.Yellow
	case task.Executing, task.Planning:
		return terminal.Cyan
	}
	return terminal.Plain
}

// TaskLines draw a task: its plan, its checklist, what it has used and what it
// asks for. A negative frame is a drawing that stands still.
func TaskLines(row task.Row, state session.TaskState, waiting []session.PendingCall, doing string, frame int) []terminal.Cell {
	lines := []terminal.Cell{terminal.Styled(fmt.Sprintf("%s · %s · %s", terminal.OneLine(row.Title), StatusText(row), ShortID(row.ID)), TaskColour(row))}
	if state.Plan != nil {
		for _, s := range state.Plan.Steps {
			mark, c := StepMark(s.Status, frame)
			text := fmt.Sprintf("  %s %s", mark, terminal.OneLine(s.Description))
			if s.Error != "" {
				text += " · " + terminal.OneLine(s.Error)
			}
			lines = append(lines, terminal.Styled(text, c))
		}
	}
	if doing != "" {
		lines = append(lines, terminal.Styled("    → "+doing, terminal.Dim))
	}
	if len(state.Checklist.Items) > 0 {
		lines = append(lines, terminal.Styled("  checklist", terminal.Dim))
		for _, item := range state.Checklist.Items {
			mark, c := StepMark(item.Status, -1)
			lines = append(lines, terminal.Styled(fmt.Sprintf("    %s %s", mark, terminal.OneLine(item.Title)), c))
		}
	}
	for _, asked := range waiting {
		lines = append(lines, terminal.Styled("  ? "+terminal.OneLine(asked.Prompt), terminal.Yellow))
		if frame < 0 { // a drawing that moves has no room for a whole call
			for _, line := range CallLines(asked, maxCallLines) {
				lines = append(lines, terminal.Styled("    "+line.Text, line.Colour))
			}
		}
		if asked.Kind != session.PendingQuestion {
			continue
		}
		for _, o := range asked.Choices {
			lines = append(lines, terminal.Styled("    · "+terminal.OneLine(o.Value), terminal.Yellow))
		}
	}
	if n := len(state.Queues.FollowUps); n > 0 {
		lines = append(lines, terminal.Styled("  waiting: "+counted(n, "message"), terminal.Dim))
	}
	if row.Error != "" {
		lines = append(lines, terminal.Styled("  "+terminal.OneLine(row.Error), terminal.Red))
	}
	if row.ResultSummary != "" && HasResult(row) {
		lines = append(lines, terminal.Styled("  "+terminal.OneLine(row.ResultSummary), terminal.Plain))
	}
	return append(lines, terminal.Styled("  "+usedText(row, state), terminal.Dim))
}

// StepMark is how a step of a plan or a checklist is marked.
func StepMark(status string, frame int) (string, terminal.Colour) {
	switch status {
	case "completed":
		return "✓", terminal.Green
	case "failed", "blocked":
		return "✗", terminal.Red
	case "skipped":
		return "–", terminal.Dim
	case "in_progress":
		if frame >= 0 {
			return string(spinner[frame%len(spinner)]), terminal.Cyan
		}
		return "▸", terminal.Cyan
	}
	return "·", terminal.Dim
}

// usedText is what a task has used, with a bar for each budget it has.
func usedText(row task.Row, state session.TaskState) string {
	u := state.Usage
	tokens := u.Input + u.Output + u.EarlierInput + u.EarlierOutput
	var parts []string
	if r := row.Projection; r != nil {
		parts = append(parts, counted(r.LifetimeTurnsUsed, "turn"), counted(r.BudgetUsage.ToolCalls, "tool call"))
	}
	parts = append(parts, tokensText(tokens))
	var b task.Budget
	if len(state.Settings.Budget) > 0 && json.Unmarshal(state.Settings.Budget, &b) == nil {
		if b.MaxTurns > 0 {
			parts = append(parts, "window "+bar(float64(state.Loop.Turns), float64(b.MaxTurns)))
		}
		if b.MaxTokens != nil {
			parts = append(parts, "tokens "+bar(float64(tokens), float64(*b.MaxTokens)))
		}
		if b.MaxCost != nil {
			parts = append(parts, "cost "+bar(u.Cost+u.EarlierCost, *b.MaxCost))
		}
	}
	if row.WorkspacePath != "" {
		parts = append(parts, row.WorkspacePath)
	}
	if row.PermissionMode != "" {
		parts = append(parts, "mode "+row.PermissionMode)
	}
	return strings.Join(parts, " · ")
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// bar shows how much of a budget is used.
func bar(have, limit float64) string {
	const width = 10
	full := min(width, max(0, int(have/max(limit, 1e-9)*width)))
	return "[" + strings.Repeat("█", full) + strings.Repeat("░", width-full) + "]"
}
