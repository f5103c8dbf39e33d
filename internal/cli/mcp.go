package cli

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/protocol/mcpserver"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "mcp", Short: "offer sessions to an MCP client over standard input and output", Args: cobra.NoArgs,
		Long: `Offer sessions as MCP tools and resources to the program that starts this command: to send
to a session, search sessions, read one, and respond to what waits. With --server also to
start tasks and workflow runs, which the server works on. A server offers the same at /mcp.`,
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
			c := mcpserver.Config{Sessions: e, Server: e.Server, Version: setup.ThisBuild().Version, Agent: func(ctx context.Context, name string) (session.Definition, error) {
				return p.loadAgent(ctx, e, name)
			}}
			err := mcpserver.New(c).Run(ctx, &sdk.IOTransport{Reader: readCloser{p.In}, Writer: writeCloser{p.Out}})
			if ctx.Err() != nil {
				return nil // it was asked to end
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&p.User, "user", "", "`NAME` of the user that new sessions belong to (default $HOLDFAST_USER, else no user)")
	return p.AddPermissionFlags(cmd)
}

// readCloser and writeCloser are streams that end with the program.
type (
	readCloser  struct{ *terminal.Input }
	writeCloser struct{ *terminal.Screen }
)

func (readCloser) Close() error { return nil }

func (writeCloser) Close() error { return nil }
