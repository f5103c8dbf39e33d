package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) exportCommand() *cobra.Command {
	var at int64
	cmd := &cobra.Command{
		Use: "export REF", Short: "print the session document with the whole transcript", Args: cobra.ExactArgs(1),
		Long: "Print the session document, always as JSON and with the whole transcript. What is\nprinted can be imported again.",
	}
	cmd.RunE = p.onSession(func(ctx context.Context, h *home, i session.Info, _ []string) error {
		opts := []holdfast.Option{holdfast.Whole()}
		if cmd.Flags().Changed("at") {
			opts = append(opts, holdfast.At(at))
		}
		s, err := h.Get(ctx, i.ID, opts...)
		if err != nil {
			return err
		}
		return p.printJSON(s)
	})
	cmd.Flags().Int64Var(&at, "at", 0, "as it was at `VERSION` (needs a store with a log)")
	return cmd
}
