package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/rules"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
)

// permissions says which tools a command line offers to agents besides those
// that read, where the tools work, and which calls run without asking.
type permissions struct {
	write, shell, web, mcp bool
	network                bool   // for the commands of the shell
	workspace              string // a directory; empty: the working directory
	mode                   string // empty: default
}

const permissionModes = "plan, default, dont_ask, accept_edits, dangerous_only, allow_known or bypass_permissions"

// addPermissionFlags gives a command on which agents run the flags that offer
// them more tools.
func (p *program) addPermissionFlags(cmd *cobra.Command) *cobra.Command {
	cmd.PreRun = func(*cobra.Command, []string) { p.agentsRun = true }
	f := cmd.Flags()
	f.BoolVar(&p.permissions.write, "allow-write", false, "offer the agent tools that change files in the workspace")
	f.BoolVar(&p.permissions.shell, "allow-shell", false, "offer the agent a shell, which runs commands in a sandbox")
	p.addNetworkFlag(f)
	f.BoolVar(&p.permissions.web, "allow-web", false, "offer the agent tools that read and call public web addresses")
	f.BoolVar(&p.permissions.mcp, "allow-mcp", false, "start and reach the tool servers that the agent's definition lists, as you")
	f.StringVar(&p.permissions.workspace, "workspace", "", "the `DIR` that the tools work in (default: this directory)")
	f.StringVar(&p.permissions.mode, "permission-mode", "", "which tool calls run without asking: `MODE` is "+permissionModes+" (default: default)")
	return cmd
}

func (p *program) addNetworkFlag(f *pflag.FlagSet) {
	f.BoolVar(&p.permissions.network, "allow-network", false, "let the commands of the agent's shell use the network")
}

// offersEffects reports a command line that offers tools which do more than
// read.
func (a permissions) offersEffects() bool { return a.write || a.shell || a.web || a.mcp }

// dir returns where the tools work.
func (a permissions) dir() string {
	if a.workspace == "" {
		return "."
	}
	return a.workspace
}

// allowTool offers a tool by the flag that it needs.
func (a *permissions) allowTool(name string) {
	switch flagFor(name) {
	case "--allow-write":
		a.write = true
	case "--allow-shell":
		a.shell = true
	case "--allow-web":
		a.web = true
	}
}

// flagFor names the flag that a tool needs, "" where it needs none.
func flagFor(tool string) string {
	switch tool {
	case "file_write", "file_edit", "file_move", "file_delete":
		return "--allow-write"
	case "shell":
		return "--allow-shell"
	case "http_get", "http_request":
		return "--allow-web"
	}
	return ""
}

// newPermissions returns what decides about the tool calls of conversations,
// nil where agents only read. The rules follow once there is a runtime: a
// store keeps them.
func (p *program) newPermissions(st store.Store) (*holdfast.Permissions, error) {
	a := p.permissions
	if a.mode != "" {
		if err := session.CheckPermissionMode(a.mode); err != nil {
			return nil, err
		}
	}
	w, err := workspaceAt(a.dir())
	if err != nil && a.workspace != "" {
		return nil, err
	}
	if a.mode == "" && !a.offersEffects() {
		return nil, nil
	}
	if _, ok := st.(store.Inboxes); !ok {
		if a.mode != "" {
			return nil, &unavailableError{what: "--permission-mode needs a store that keeps responses", remedy: "use sqlite: (the default) or postgres:"}
		}
		if p.agentsRun {
			p.err.warn("this store cannot keep responses: the tools that you offer run without asking")
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.Capabilities = map[string]bool{"shell": a.shell, "delete": a.write}
	engine, err := newEngine()
	if err != nil {
		return nil, err
	}
	return &holdfast.Permissions{Engine: engine, Mode: a.mode, Workspace: func(session.Session) permission.Workspace { return w }}, nil
}

// newRules opens the rules of workspaces, which the store keeps, and those of
// the user, which a file keeps.
func (p *program) newRules(rt *holdfast.Runtime) *rules.Store {
	c := rules.Config{Warn: p.warnEarly}
	if dir, err := userDir(); err == nil {
		c.Profile, c.Trust = filepath.Join(dir, "permissions.json"), rules.NewTrust(filepath.Join(dir, "trust.json"))
	}
	return rules.New(rt, c)
}

// userDir is where the user's own rules and trust are, outside every workspace.
func userDir() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "holdfast"), err
}

// workspaceAt returns a folder as a workspace, with a shell.
func workspaceAt(dir string) (task.Workspace, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return task.Workspace{}, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return task.Workspace{}, &session.InvalidError{Field: "workspace", Reason: fmt.Sprintf("%s is not a folder", dir)}
	}
	return task.Workspace{ID: root, Root: root, Capabilities: map[string]bool{"shell": true, "delete": true}}.Resolved()
}
