package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/setup"
)

func (p *program) createCommand() *cobra.Command {
	var agent, name, model string
	cmd := &cobra.Command{
		Use: "create", Short: "make a session and say nothing in it", Args: cobra.NoArgs,
		Long: "Make a session and print its id; with --json: its header. \"holdfast send\" and\n\"holdfast chat --session\" talk in it.",
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
			s, err := p.newChat(ctx, e, agent, name, model)
			if err != nil {
				return err
			}
			return p.PrintResult(s.Info(), "%s", s.ID())
		}),
	}
	p.addNewChatFlags(cmd, &agent, &name, &model)
	return p.AddPermissionFlags(cmd)
}
