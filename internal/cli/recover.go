package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/workflow"
)

// recovered is a session that was continued, or why it was not.
type recovered struct {
	ID     string       `json:"id"`
	Kind   session.Kind `json:"kind"`
	Status string       `json:"status,omitempty"`
	Error  string       `json:"error,omitempty"`
	Next   string       `json:"next,omitempty"`
}

func (p *program) recoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "recover", Short: "continue every chat and task that no process works on", Args: cobra.NoArgs,
		Long: `Continue every chat and task that could go on and that no process works on: those whose
process was killed, tasks made with --detach, and tasks whose approval has come. Tasks work
until they end or wait for a person. Workflow runs are listed, with the command that
continues them. With --json: an array of {id, kind, status, error, next}.`,
		PreRun: func(*cobra.Command, []string) { p.AgentsRun = true },
	}
	cmd.RunE = p.atWork(func(ctx context.Context, d *taskEnv, _ []string) error {
		found, failed := p.recoverAll(ctx, d)
		if p.JSON {
			return errors.Join(p.PrintJSON(found), failed)
		}
		if len(found) == 0 && failed == nil {
			p.Err.Status("every session has what it needs")
		}
		for _, f := range found {
			line := fmt.Sprintf("%s %s", f.Kind, display.ShortID(f.ID))
			for _, more := range []string{f.Status, f.Error, f.Next} {
				if more != "" {
					line += " · " + terminal.OneLine(more)
				}
			}
			failed = errors.Join(failed, p.Out.Print(line+"\n"))
		}
		return failed
	})
	return p.AddPermissionFlags(cmd)
}

// recoverAll continues what it can. The error is that of the first session that
// could not be continued.
func (p *program) recoverAll(ctx context.Context, d *taskEnv) (found []recovered, failed error) {
	found = []recovered{}
	chats, err := d.env.Runtime.Recover(ctx)
	if err != nil {
		return found, err
	}
	note := func(r recovered, err error) {
		if err != nil {
			r.Error = p.messageOf(err)
			if failed == nil {
				failed = fmt.Errorf("%s %s: %w", r.Kind, display.ShortID(r.ID), err)
			}
		}
		found = append(found, r)
	}
	for _, c := range chats {
		note(recovered{ID: c.ID, Kind: session.KindChat}, c.Err)
	}
	tasks, err := d.x.Recover(ctx)
	if err != nil {
		return found, err
	}
	for _, t := range tasks {
		note(recovered{ID: t.ID, Kind: session.KindTask, Status: display.StatusText(t.Row), Next: display.NextForTask(t.Row)}, t.Err)
	}
	q := store.Query{Kinds: []session.Kind{session.KindWorkflow}, WorkflowStatuses: []string{string(workflow.StatusRunning)}}
	for {
		page, err := d.env.List(ctx, q)
		if err != nil {
			return found, err
		}
		for _, i := range page.Items {
			if d.env.Interrupted(ctx, setup.Listing{}, i) {
				found = append(found, recovered{ID: i.ID, Kind: i.Kind, Status: "interrupted", Next: display.ContinueCommand(i.Kind, i.ID)})
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return found, failed
		}
	}
}
