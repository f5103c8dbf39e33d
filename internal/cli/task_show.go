package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/projector"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

func (p *program) taskListCommand() *cobra.Command {
	var statuses []string
	cmd := &cobra.Command{
		Use: "list", Short: "list tasks, those first that moved last", Args: cobra.NoArgs,
		RunE: p.atWork(func(ctx context.Context, d *taskEnv, _ []string) error {
			rows := []task.Row{}
			for row, err := range d.List(ctx, task.Filter{Statuses: statuses}) {
				if err != nil {
					return err
				}
				rows = append(rows, row)
			}
			if p.JSON {
				shown := make([]taskJSON, len(rows))
				for i, row := range rows {
					shown[i] = newTaskJSON(row)
				}
				return p.PrintJSON(shown)
			}
			if len(rows) == 0 {
				p.Err.Status("no tasks; begin one with: holdfast task start \"…\"")
				return nil
			}
			t := &terminal.Table{Head: []string{"ID", "TITLE", "STATUS", "PROGRESS", "TURNS", "COST", "UPDATED"}, Flex: 1, Spare: []string{"TURNS", "COST", "UPDATED", "PROGRESS"}}
			for _, row := range rows {
				info, turns := session.Info{Task: &row.TaskRow}, 0
				if row.Projection != nil {
					turns = row.Projection.LifetimeTurnsUsed
				}
				t.Add(terminal.Styled(display.ShortID(row.ID), terminal.Plain), terminal.Styled(terminal.OneLine(row.Title), terminal.Plain), terminal.Styled(display.StatusText(row), display.TaskColour(row)),
					terminal.Styled(display.ProgressText(info), terminal.Plain), terminal.Styled(fmt.Sprint(turns), terminal.Plain), terminal.Styled(display.CostText(info), terminal.Plain), terminal.Styled(terminal.Ago(time.UnixMilli(row.UpdatedAt), p.Now()), terminal.Dim))
			}
			return p.Out.Print(t.Layout(p.Out))
		}),
	}
	cmd.Flags().StringSliceVar(&statuses, "status", nil, "only tasks that are `STATUS`: "+strings.Join(task.Statuses(), ", "))
	return cmd
}

func (p *program) taskShowCommand() *cobra.Command {
	var whole bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "show where a task stands, and what to do next", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) error {
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
				return p.PrintJSON(struct {
					Row     taskJSON              `json:"row"`
					State   session.TaskState     `json:"state"`
					Pending []session.PendingCall `json:"pending"`
				}{newTaskJSON(row), state, waiting})
			case p.JSON:
				shown := newTaskJSON(row)
				shown.Pending = waiting
				return p.PrintJSON(shown)
			}
			var b strings.Builder
			for _, line := range display.TaskLines(row, state, waiting, "", -1) {
				b.WriteString(p.Out.Paint(line.Colour, line.Text) + "\n")
			}
			fmt.Fprintf(&b, "%s\n", p.Out.Paint(terminal.Dim, "next: "+display.NextForTask(row)))
			return p.Out.Print(b.String())
		}),
	}
	cmd.Flags().BoolVar(&whole, "state", false, "everything, as JSON: row, state and pending calls")
	return cmd
}

func (p *program) taskLogCommand() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use: "log ID", Short: "print what has happened in a task", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) error {
			entries := d.env.Log(ctx, row.ID, 0)
			if follow {
				entries = d.env.Watch(ctx, row.ID, 0)
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
	if p.JSON {
		return p.PrintJSON(e)
	}
	for _, c := range items.Apply(holdfast.Update{Record: &e}) {
		text := display.TaskLine(c)
		if m := c.Item.Message; m != nil && m.Text != "" && c.Op == projector.Finished {
			text = string(m.Role) + " · " + terminal.OneLine(m.Text)
		}
		if text == "" {
			continue
		}
		if err := p.Out.Print(p.Out.Paint(terminal.Dim, e.At.Local().Format("15:04:05")+" ") + terminal.Printable(text) + "\n"); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) taskWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch ID", Short: "watch a task while another process works on it", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) error {
			v, err := display.WatchTask(ctx, p.Console, d, d.env, row.ID)
			if err != nil {
				return err
			}
			for ctx.Err() == nil {
				if row, err = d.Show(ctx, row.ID); err != nil {
					break
				}
				if _, live, holdErr := d.env.Holder(ctx, row.ID); holdErr != nil || !live {
					break
				}
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
			v.End(ctx)
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
