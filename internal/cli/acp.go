package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/protocol/acp"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/mcp"
)

func (p *program) acpCommand() *cobra.Command {
	var agent, model string
	cmd := &cobra.Command{
		Use: "acp", Short: "be the agent of an editor, by the Agent Client Protocol", Args: cobra.NoArgs,
		Long: `Be the agent of an editor (Zed, JetBrains, neovim and others), which starts this command and
talks to it over standard input and output by the Agent Client Protocol. Sessions are kept in
the store: an editor that was closed or killed loads a session again, and it continues.

A session works in the folder that the editor names. Its agent is told what AGENTS.md of that
folder says, and gets the tool servers of the editor. It may read files there; the --allow
flags offer it more tools, and the editor asks about calls that no rule and no mode allows.
With --server the agents run on the server, in its folder and with its tools.`,
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
			def, err := p.loadAgent(ctx, e, agent)
			if err != nil {
				return err
			}
			if model != "" {
				def.Model = model
			}
			c := acp.Config{In: p.In, Out: p.Out, Sessions: e, Version: setup.ThisBuild().Version}
			if e.Server != nil {
				c.Open = func(_ context.Context, f acp.Folder) (acp.Workspace, error) { return openRemote(e, f, def) }
			} else {
				if def.Model == "" {
					if err := e.CheckDefaultModel(); err != nil {
						return err
					}
				}
				c.Open = func(ctx context.Context, f acp.Folder) (acp.Workspace, error) { return p.openFolder(ctx, e, f, def) }
				c.ContextLength = e.ContextLength
			}
			return acp.Serve(ctx, c)
		}),
	}
	cmd.Flags().StringVar(&agent, "agent", "", "definition `FILE` of the agent, or a name that \"holdfast definitions list\" shows")
	cmd.Flags().StringVar(&model, "model", "", "the `MODEL` that answers, as provider/model (default the agent's, else $HOLDFAST_MODEL, else a built-in one)")
	cmd.Flags().StringVar(&p.User, "user", "", "`NAME` of the user that new sessions belong to (default $HOLDFAST_USER, else no user)")
	p.addAgentsFileFlag(cmd)
	p.AddPermissionFlags(cmd)
	if err := cmd.Flags().MarkHidden("workspace"); err != nil { // the editor says it
		panic(err)
	}
	return cmd
}

// openRemote returns the sessions of a server for an editor. Where its agents
// work is the server's own decision.
func openRemote(e *setup.Env, f acp.Folder, def session.Definition) (acp.Workspace, error) {
	if len(f.Servers) > 0 {
		return acp.Workspace{}, &session.InvalidError{Field: "mcpServers", Reason: "the agents of a server use the tool servers of their definitions; configure none for this agent in the editor"}
	}
	return acp.Workspace{Sessions: e, Definition: def, Modes: true}, nil
}

// openFolder returns a runtime whose tools work in the folder of an editor's
// session. It shares the store with e.
func (p *program) openFolder(ctx context.Context, e *setup.Env, f acp.Folder, def session.Definition) (_ acp.Workspace, err error) {
	settings := *p.Setup
	own := &program{Setup: &settings}
	own.Permissions.Workspace = f.Dir
	given, err := own.NewAgentSetup(e.Store)
	if err != nil {
		return acp.Workspace{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, given.Close())
		}
	}()
	plan, err := acp.NewPlanTool()
	if err != nil {
		return acp.Workspace{}, err
	}
	added, secrets := []tool.Tool{plan}, maps.Clone(given.Models.Providers.Secrets)
	for _, server := range f.Servers {
		tools, err := own.dialForEditor(ctx, given, server, secrets)
		if err != nil {
			return acp.Workspace{}, err
		}
		added = append(added, tools...)
	}
	if given.Tools, err = tool.NewSet(append(given.Tools.All(), added...)...); err != nil {
		return acp.Workspace{}, err
	}
	// The mode on the command line is where sessions begin; each has its own from then on.
	begin := own.Permissions.Mode
	own.Permissions.Mode = session.PermissionDefault
	rt, err := own.Runtime(e.Store, given, secrets, e.Identity)
	if err != nil {
		return acp.Workspace{}, err
	}
	w := acp.Workspace{Sessions: rt, Definition: def, Modes: true, Close: func() error { return errors.Join(rt.Close(), given.Close()) }}
	w.Definition.SystemPrompt += task.DescribeWorkspace(task.Workspace{Root: f.Dir, Capabilities: map[string]bool{task.CapabilityAgentsFile: p.readsAgentsFile()}})
	if begin != "" {
		if err := session.CheckPermissionMode(begin); err != nil {
			return acp.Workspace{}, errors.Join(err, rt.Close())
		}
		w.Options = append(w.Options, holdfast.WithChanges(session.PermissionModeChanged(begin)))
	}
	return w, nil
}

// dialForEditor reaches a tool server of an editor. Values that by their names
// are credentials are added to the secrets.
func (p *program) dialForEditor(ctx context.Context, given *setup.AgentSetup, server session.MCPServer, secrets map[string]string) ([]tool.Tool, error) {
	values := map[string]string{}
	hide := func(in map[string]string) {
		for key, value := range in {
			if !session.SecretKey(key) || len(value) < setup.LeastSecret {
				continue
			}
			name := "EDITOR_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(key))
			values[name], secrets[name], in[key] = value, value, "${"+name+"}"
		}
	}
	hide(server.Env)
	hide(server.Headers)
	tools, link, err := mcp.Config{Dir: p.Permissions.Dir(), LookupEnv: func(name string) (string, bool) {
		value := cmp.Or(values[name], p.Getenv(name))
		return value, value != ""
	}}.Dial(ctx, server)
	if err != nil {
		return nil, err
	}
	given.CloseLater(link)
	return tools, nil
}
