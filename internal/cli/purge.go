package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) purgeCommand() *cobra.Command {
	var yes, cascade bool
	cmd := &cobra.Command{
		Use: "purge REF", Short: "remove a session for good", Args: cobra.ExactArgs(1),
		Long: "Remove a session for good: nothing brings it back. Forks of it stay. A session that\ncannot be read is purged by its whole id.",
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, args []string) error {
			info, err := e.Resolve(ctx, args[0])
			if errors.Is(err, session.ErrCorrupt) && session.CheckID(args[0]) == nil {
				info, err = session.Info{ID: args[0]}, nil
			}
			if err != nil {
				return err
			}
			if err := p.Confirm(ctx, yes, fmt.Sprintf("Remove %s (%s) for good?", display.Title(info), terminal.CountOf(info.MessageCount, "message"))); err != nil {
				return err
			}
			var opts []holdfast.Option
			if cascade {
				opts = append(opts, holdfast.Cascade())
			}
			if err := e.Purge(ctx, info.ID, opts...); err != nil {
				return err
			}
			return p.PrintResult(map[string]string{"purged": info.ID}, "purged %s", display.Title(info))
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&cascade, "cascade", false, "remove its children too")
	return cmd
}
