package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) forkCommand() *cobra.Command {
	var (
		at   int64
		name string
	)
	cmd := &cobra.Command{
		Use: "fork REF", Short: "start a new session with the same history", Args: cobra.ExactArgs(1),
		Long: "Start a new session with the same history, up to a version. The two never affect\neach other again. With --json: the header of the new one.",
	}
	cmd.RunE = p.onSession(func(ctx context.Context, e *env, i session.Info, _ []string) error {
		var opts []holdfast.Option
		if cmd.Flags().Changed("at") {
			opts = append(opts, holdfast.At(at))
		}
		if name != "" {
			opts = append(opts, holdfast.WithName(name))
		}
		child, err := e.Fork(ctx, i.ID, opts...)
		if err != nil {
			return err
		}
		made := child.Info()
		return p.printResult(made, "forked %s at version %d: the new session is %s", title(i), made.Fork.Version, title(made))
	})
	cmd.Flags().Int64Var(&at, "at", 0, "`VERSION` to fork (default the last one)")
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of the new session")
	return cmd
}
