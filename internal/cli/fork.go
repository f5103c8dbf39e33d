package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

func (p *program) forkCommand() *cobra.Command {
	var (
		at           int64
		name         string
		set, outputs []string
	)
	cmd := &cobra.Command{
		Use: "fork REF", Short: "start a new session with the same history", Args: cobra.ExactArgs(1),
		Long: "Start a new session with the same history, up to a version. The two never affect\neach other again. With --json: the header of the new one.\n\nA fork of a workflow run may have other variables (--set), which what is still to be done\nuses, and other answers of units (--output): what came after those is done again.",
	}
	cmd.RunE = p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
		if len(set)+len(outputs) > 0 {
			return p.forkRun(ctx, e, i, workflow.ForkOptions{At: at, Name: name}, set, outputs)
		}
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
		return p.PrintResult(made, "forked %s at version %d: the new session is %s", display.Title(i), made.Fork.Version, display.Title(made))
	})
	cmd.Flags().Int64Var(&at, "at", 0, "`VERSION` to fork (default the last one)")
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of the new session")
	cmd.Flags().StringArrayVar(&set, "set", nil, "another value for a variable of a workflow run, `NAME=VALUE`; may be repeated")
	cmd.Flags().StringArrayVar(&outputs, "output", nil, "another answer of a unit of a workflow run, `UNIT=TEXT`; may be repeated")
	return cmd
}

// forkRun forks a workflow run with other variables and answers.
func (p *program) forkRun(ctx context.Context, e *setup.Env, i session.Info, o workflow.ForkOptions, set, outputs []string) error {
	if i.Kind != session.KindWorkflow {
		return &session.InvalidError{Field: "set", Reason: fmt.Sprintf("session %s is not a workflow run; --set and --output are for those", display.ShortID(i.ID))}
	}
	var err error
	if o.Variables, err = parseVariables(set); err != nil {
		return err
	}
	o.Outputs = map[string]string{}
	for _, pair := range outputs {
		unit, text, found := strings.Cut(pair, "=")
		if !found {
			return &session.InvalidError{Field: "output", Reason: fmt.Sprintf("%q is not UNIT=TEXT", pair)}
		}
		o.Outputs[unit] = text
	}
	child, err := e.ForkRun(ctx, i.ID, o)
	if err != nil {
		return err
	}
	made := child.Info()
	return p.PrintResult(made, "forked %s at version %d: the new session is %s; go on with: %s", display.Title(i), made.Fork.Version, display.Title(made), p.nextRun(made.ID))
}
