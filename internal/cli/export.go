package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func (p *program) exportCommand() *cobra.Command {
	var at int64
	cmd := &cobra.Command{
		Use: "export REF", Short: "print the session document with the whole transcript", Args: cobra.ExactArgs(1),
		Long: "Print the session document, always as JSON and with the whole transcript of the last\nversion. What is printed can be imported again. A turn that was interrupted is not part of\na version: continue it first; a warning says so.",
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
		if !cmd.Flags().Changed("at") {
			p.warnOfTail(ctx, h, i.ID)
		}
		return p.printJSON(s)
	})
	cmd.Flags().Int64Var(&at, "at", 0, "as it was at `VERSION` (needs a store with a log)")
	return cmd
}

// warnOfTail says that a document lacks what an interrupted turn has written.
func (p *program) warnOfTail(ctx context.Context, h *home, id string) {
	s, err := h.store.Load(ctx, store.Ref{Tenant: h.tenant, ID: id}, true)
	if err == nil && s.HasTail() {
		p.err.warn("the session was interrupted: what its turn wrote since version %d is not part of the document; continue it with: holdfast send %s --continue", s.Version(), shortID(id))
	}
}
