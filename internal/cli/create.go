package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func (p *program) createCommand() *cobra.Command {
	var agent, name, model string
	cmd := &cobra.Command{
		Use: "create", Short: "make a session and say nothing in it", Args: cobra.NoArgs,
		Long: "Make a session and print its id; with --json: its header. \"holdfast send\" and\n\"holdfast chat --session\" talk in it.",
		RunE: p.inEnv(func(ctx context.Context, e *env, _ []string) error {
			def, err := p.loadAgent(ctx, e, agent)
			if err != nil {
				return err
			}
			if model != "" {
				def.Model = model
			}
			s, err := e.create(ctx, p, def, name)
			if err != nil {
				return e.explain(err, def, def.Model)
			}
			return p.printResult(s.Info(), "%s", s.ID())
		}),
	}
	cmd.Flags().StringVar(&agent, "agent", "", "definition `FILE` of the agent, or a name that \"holdfast definitions list\" shows")
	cmd.Flags().StringVar(&name, "name", "", "`NAME` of the new session")
	cmd.Flags().StringVar(&p.user, "user", "", "`NAME` of the user that the new session belongs to (default $HOLDFAST_USER, else no user)")
	cmd.Flags().StringVar(&model, "model", "", "the `MODEL` that answers, as provider/model (default the agent's)")
	return p.addPermissionFlags(cmd)
}
