package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) exportCommand() *cobra.Command {
	var (
		at          int64
		format, dir string
	)
	cmd := &cobra.Command{
		Use: "export REF", Short: "print the session document with the whole transcript", Args: cobra.ExactArgs(1),
		Long: `Print the session document, always as JSON and with the whole transcript of the last
version. What is printed can be imported again. A turn that was interrupted is not part of
a version: continue it first; a warning says so.

With --format strands a workflow run becomes a directory below --out as strands-cli keeps
it, which can list, show and resume it; "sessions import" reads it back.`,
	}
	cmd.RunE = p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
		switch {
		case format != "json" && format != "strands":
			return &session.InvalidError{Field: "format", Reason: fmt.Sprintf("%q is not json or strands", format)}
		case (format == "strands") != (dir != ""):
			return &session.InvalidError{Field: "out", Reason: "--format strands needs --out DIR, and --out needs --format strands"}
		case dir != "":
			return p.exportDir(ctx, e, i, dir, at)
		}
		opts := []holdfast.Option{holdfast.Whole()}
		if cmd.Flags().Changed("at") {
			opts = append(opts, holdfast.At(at))
		}
		s, err := e.Get(ctx, i.ID, opts...)
		if err != nil {
			return err
		}
		if !cmd.Flags().Changed("at") {
			p.warnOfTail(ctx, e, i.ID)
		}
		return p.PrintJSON(s)
	})
	cmd.Flags().Int64Var(&at, "at", 0, "as it was at `VERSION` (needs a store with a log)")
	cmd.Flags().StringVar(&format, "format", "json", "`FORMAT` of the export: json, or strands for a workflow run")
	cmd.Flags().StringVar(&dir, "out", "", "`DIR` in which to make the strands directory")
	return cmd
}

// exportDir writes a run as another program keeps it, and prints where.
func (p *program) exportDir(ctx context.Context, e *setup.Env, i session.Info, dir string, at int64) error {
	if i.Kind != session.KindWorkflow {
		return &session.InvalidError{Field: "format", Reason: fmt.Sprintf("session %s is not a workflow run", display.ShortID(i.ID))}
	}
	made, err := strands.Export(ctx, e, i.ID, dir, strands.ExportOptions{At: at})
	if err != nil {
		return err
	}
	return p.Out.Print(string(made) + "\n")
}

// warnOfTail says that a document lacks what an interrupted turn has written.
func (p *program) warnOfTail(ctx context.Context, e *setup.Env, id string) {
	s, err := e.Get(ctx, id, holdfast.WithTail())
	if err == nil && s.HasTail() {
		p.Err.Warn("the session was interrupted: the document lacks what its turn wrote since version %d; continue it with: holdfast send %s --continue", s.Version(), display.ShortID(id))
	}
}
