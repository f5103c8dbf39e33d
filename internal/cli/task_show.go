package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

func (p *program) taskListCommand() *cobra.Command {
	var statuses []string
	cmd := &cobra.Command{
		Use: "list", Short: "list tasks, those first that moved last", Args: cobra.NoArgs,
		RunE: p.atWork(func(ctx context.Context, d *workshop, _ []string) error {
			rows := []task.Row{}
			for row, err := range d.List(ctx, task.Filter{Statuses: statuses}) {
				if err != nil {
					return err
				}
				rows = append(rows, row)
			}
			if p.json {
				shown := make([]taskJSON, len(rows))
				for i, row := range rows {
					shown[i] = newTaskJSON(row)
				}
				return p.printJSON(shown)
			}
			if len(rows) == 0 {
				p.err.status("no tasks; begin one with: holdfast task start \"…\"")
				return nil
			}
			t := &table{head: []string{"ID", "TITLE", "STATUS", "PROGRESS", "TURNS", "COST", "UPDATED"}, flex: 1}
			for _, row := range rows {
				info, turns := session.Info{Task: &row.TaskRow}, 0
				if row.Projection != nil {
					turns = row.Projection.LifetimeTurnsUsed
				}
				t.add(cell{shortID(row.ID), plain}, cell{oneLine(row.Title), plain}, cell{statusText(row), taskColour(row)},
					cell{progressText(info), plain}, cell{fmt.Sprint(turns), plain}, cell{costText(info), plain}, cell{ago(time.UnixMilli(row.UpdatedAt), p.now()), dim})
			}
			return p.out.print(t.layout(p.out))
		}),
	}
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only tasks that are `STATUS`: "+strings.Join(task.Statuses(), ", "))
	return cmd
}

func taskColour(row task.Row) colour {
	switch task.Canonical(row.TaskRow) {
	case task.Completed:
		return green
	case task.Failed:
		return red
	case task.Blocked, task.Paused, task.Interrupted:
		return yellow
	case task.Executing, task.Planning:
		return cyan
	}
	return plain
}

func (p *program) taskShowCommand() *cobra.Command {
	var whole bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "show where a task stands, and what to do next", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *workshop, row task.Row, _ []string) error {
			state, err := d.State(ctx, row.ID)
			if err != nil {
				return err
			}
			waiting, err := d.Pending(ctx, row.ID)
			if err != nil {
				return err
			}
			row.PendingApprovals = len(waiting) // without those that have their response
			switch {
			case whole:
				return p.printJSON(struct {
					Row     taskJSON              `json:"row"`
					State   session.TaskState     `json:"state"`
					Pending []session.PendingCall `json:"pending"`
				}{newTaskJSON(row), state, waiting})
			case p.json:
				shown := newTaskJSON(row)
				shown.Pending = waiting
				return p.printJSON(shown)
			}
			var b strings.Builder
			for _, line := range taskLines(row, state, waiting, "", -1) {
				b.WriteString(p.out.paint(line.colour, line.text) + "\n")
			}
			fmt.Fprintf(&b, "%s\n", p.out.paint(dim, "next: "+nextForTask(row)))
			return p.out.print(b.String())
		}),
	}
	cmd.Flags().BoolVar(&whole, "state", false, "everything, as JSON: row, state and pending calls")
	return cmd
}

// taskLines draw a task: its plan, its checklist, what it has used and what it
// asks for. A negative frame is a drawing that stands still.
func taskLines(row task.Row, state session.TaskState, waiting []session.PendingCall, doing string, frame int) []cell {
	lines := []cell{{fmt.Sprintf("%s · %s · %s", oneLine(row.Title), statusText(row), shortID(row.ID)), taskColour(row)}}
	if state.Plan != nil {
		for _, s := range state.Plan.Steps {
			mark, c := stepMark(s.Status, frame)
			text := fmt.Sprintf("  %s %s", mark, oneLine(s.Description))
			if s.Error != "" {
				text += " · " + oneLine(s.Error)
			}
			lines = append(lines, cell{text, c})
		}
	}
	if doing != "" {
		lines = append(lines, cell{"    → " + doing, dim})
	}
	if len(state.Checklist.Items) > 0 {
		lines = append(lines, cell{"  checklist", dim})
		for _, item := range state.Checklist.Items {
			mark, c := stepMark(item.Status, -1)
			lines = append(lines, cell{fmt.Sprintf("    %s %s", mark, oneLine(item.Title)), c})
		}
	}
	for _, asked := range waiting {
		lines = append(lines, cell{"  ? " + oneLine(asked.Prompt), yellow})
		if frame < 0 { // a drawing that moves has no room for a whole call
			for _, line := range callLines(asked, maxCallLines) {
				lines = append(lines, cell{"    " + line.text, line.colour})
			}
		}
		if asked.Kind != session.PendingQuestion {
			continue
		}
		for _, o := range asked.Choices {
			lines = append(lines, cell{"    · " + oneLine(o.Value), yellow})
		}
	}
	if n := len(state.Queues.FollowUps); n > 0 {
		lines = append(lines, cell{"  waiting: " + counted(n, "message"), dim})
	}
	if row.Error != "" {
		lines = append(lines, cell{"  " + oneLine(row.Error), red})
	}
	if row.ResultSummary != "" && hasResult(row) {
		lines = append(lines, cell{"  " + oneLine(row.ResultSummary), plain})
	}
	return append(lines, cell{"  " + usedText(row, state), dim})
}

// stepMark is how a step of a plan or a checklist is marked.
func stepMark(status string, frame int) (string, colour) {
	switch status {
	case "completed":
		return "✓", green
	case "failed", "blocked":
		return "✗", red
	case "skipped":
		return "–", dim
	case "in_progress":
		if frame >= 0 {
			return string(spinner[frame%len(spinner)]), cyan
		}
		return "▸", cyan
	}
	return "·", dim
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

func (p *program) taskLogCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "log ID", Short: "print what has happened in a task", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *workshop, row task.Row, _ []string) error {
			entries := d.h.Log(ctx, row.ID, 0)
			if follow {
				entries = d.h.Watch(ctx, row.ID, 0)
			}
			items := projector.New(row.ID)
			for e, err := range entries {
				if err != nil {
					if ctx.Err() != nil {
						return nil // the person has seen enough
					}
					return err
				}
				if err := p.printTaskEntry(e, items); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as more happens")
	return cmd
}

func (p *program) printTaskEntry(e session.LogEntry, items *projector.Projector) error {
	if p.json {
		return p.printJSON(e)
	}
	for _, c := range items.Apply(holdfast.Update{Record: &e}) {
		text := taskLine(c)
		if m := c.Item.Message; m != nil && m.Text != "" && c.Op == projector.Finished {
			text = string(m.Role) + " · " + oneLine(m.Text)
		}
		if text == "" {
			continue
		}
		if err := p.out.print(p.out.paint(dim, e.At.Local().Format("15:04:05")+" ") + printable(text) + "\n"); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) taskWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "watch a task while another process works on it", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *workshop, row task.Row, _ []string) error {
			v, err := p.watchTask(ctx, d, row.ID)
			if err != nil {
				return err
			}
			for ctx.Err() == nil {
				if row, err = d.Show(ctx, row.ID); err != nil {
					break
				}
				if _, live, holdErr := d.h.Holder(ctx, row.ID); holdErr != nil || !live {
					break
				}
				select {
				case <-ctx.Done():
				case <-time.After(redraw):
				}
			}
			v.end(ctx)
			if ctx.Err() != nil {
				return nil // the watcher leaves; the task does not notice
			}
			if err != nil {
				return err
			}
			return p.tellRow(row)
		}),
	}
}
