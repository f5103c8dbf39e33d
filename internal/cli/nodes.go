package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/node"
)

func (p *program) nodesCommand() *cobra.Command {
	return group("nodes", "see the processes that work on a store", p.nodesListCommand(),
		p.nodesDrainCommand("drain ID", "have a node take no new work; what it works on it finishes", true),
		p.nodesDrainCommand("undrain ID", "have a node take work again", false))
}

// nodes are the verbs on nodes that commands need. A store has them, and so has
// the client of a server.
type nodes interface {
	List(ctx context.Context) ([]node.Node, error)
	Drain(ctx context.Context, id string, draining bool, actor string) error
}

func (p *program) nodes(e *setup.Env) nodes {
	if e.Server != nil {
		return e.Server.Nodes()
	}
	return node.New(e.Runtime, p.Now)
}

func (p *program) nodesListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "list the nodes that live", Args: cobra.NoArgs,
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
			list, err := p.nodes(e).List(ctx)
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(list)
			}
			if len(list) == 0 {
				p.Err.Status("no process works on the store; start one with: holdfast serve")
				return nil
			}
			t := terminal.Table{Head: []string{"ID", "ADDRESS", "VERSION", "STARTED", "WORK", "STATE"}, Flex: 1}
			for _, n := range list {
				var loads []string
				for _, l := range n.Loads {
					loads = append(loads, fmt.Sprintf("%s %d/%d", l.Kind, l.Running, l.Slots))
				}
				state := "ready"
				if n.Draining {
					state = "draining"
				}
				t.Add(terminal.Styled(n.ID, terminal.Cyan), terminal.Styled(terminal.OneLine(n.Address), terminal.Plain), terminal.Styled(n.Version, terminal.Plain), terminal.Styled(terminal.Ago(n.StartedAt, p.Now()), terminal.Dim), terminal.Styled(strings.Join(loads, ", "), terminal.Plain), terminal.Styled(state, terminal.Plain))
			}
			return p.Out.Print(t.Layout(p.Out))
		}),
	}
}

func (p *program) nodesDrainCommand(use, short string, draining bool) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, args []string) error {
			if err := p.nodes(e).Drain(ctx, args[0], draining, "cli"); err != nil {
				return err
			}
			p.Err.Status("the node %s was told", args[0])
			return nil
		}),
	}
}

// newSelf returns this process as a node.
func (p *program) newSelf() *node.Self {
	return &node.Self{ID: "node-" + uuid.NewString()[:8], Address: p.Address, Version: setup.ThisBuild().Version}
}

// beNode shows this process among the nodes until leave is called.
func (p *program) beNode(ctx context.Context, e *setup.Env, self *node.Self) (leave func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		node.New(e.Runtime, p.Now).Run(ctx, self)
	}()
	return func() { stop(); <-ended }
}
