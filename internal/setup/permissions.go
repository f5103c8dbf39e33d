package setup

import (
	"errors"
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
	Write, Shell, Web, mcp bool
	Network                bool   // for the commands of the shell
	Workspace              string // a directory; empty: the working directory
	Mode                   string // empty: default
}

// PermissionModes lists the modes in a sentence.
const PermissionModes = "plan, default, dont_ask, accept_edits, dangerous_only, allow_known or bypass_permissions"

// AddPermissionFlags gives a command on which agents run the flags that offer
// them more tools.
func (p *Setup) AddPermissionFlags(cmd *cobra.Command) *cobra.Command {
	cmd.PreRun = func(*cobra.Command, []string) { p.AgentsRun = true }
	f := cmd.Flags()
	f.BoolVar(&p.Permissions.Write, "allow-write", false, "offer the agent tools that change files in the workspace")
	f.BoolVar(&p.Permissions.Shell, "allow-shell", false, "offer the agent a shell, which runs commands in a sandbox")
	p.AddNetworkFlag(f)
	f.BoolVar(&p.Permissions.Web, "allow-web", false, "offer the agent tools that read and call public web addresses")
	f.BoolVar(&p.Permissions.mcp, "allow-mcp", false, "start and reach the tool servers that the agent's definition lists, as you")
	f.StringVar(&p.Permissions.Workspace, "workspace", "", "the `DIR` that the tools work in (default: this directory)")
	f.StringVar(&p.Permissions.Mode, "permission-mode", "", "which tool calls run without asking: `MODE` is "+PermissionModes+" (default: default)")
	return cmd
}

// AddNetworkFlag adds the flag that gives commands the network.
func (p *Setup) AddNetworkFlag(f *pflag.FlagSet) {
	f.BoolVar(&p.Permissions.Network, "allow-network", false, "let the commands of the agent's shell use the network")
}

// OffersEffects reports a command line that offers tools which do more than
// read.
func (a permissions) OffersEffects() bool { return a.Write || a.Shell || a.Web || a.mcp }

// Dir returns where the tools work.
func (a permissions) Dir() string {
	if a.Workspace == "" {
		return "."
	}
	return a.Workspace
}

// AllowTool offers a tool by the flag that it needs.
func (a *permissions) AllowTool(name string) {
	switch FlagFor(name) {
	case "--allow-write":
		a.Write = true
	case "--allow-shell":
		a.Shell = true
	case "--allow-web":
		a.Web = true
	}
}

// FlagFor names the flag that a tool needs, "" where it needs none.
func FlagFor(tool string) string {
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

// NewPermissions returns what decides about the tool calls of conversations,
// nil where agents only read. The rules follow once there is a runtime: a
// store keeps them.
func (p *Setup) NewPermissions(st store.Store) (*holdfast.Permissions, error) {
	a := p.Permissions
	if a.Mode != "" {
		var wrong *session.InvalidError
		if errors.As(session.CheckPermissionMode(a.Mode), &wrong) {
			return nil, &session.InvalidError{Field: "--permission-mode", Reason: wrong.Reason}
		}
	}
	w, err := WorkspaceAt(a.Dir())
	if err != nil && a.Workspace != "" {
		return nil, err
	}
	if a.Mode == "" && !a.OffersEffects() {
		return nil, nil
	}
	if _, ok := st.(store.Inboxes); !ok {
		if a.Mode != "" {
			return nil, &UnavailableError{What: "--permission-mode needs a store that keeps responses", Remedy: "use sqlite: (the default) or postgres:"}
		}
		if p.AgentsRun {
			p.Err.Warn("this store cannot keep responses: the tools that you offer run without asking")
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.Capabilities = map[string]bool{"shell": a.Shell, "delete": a.Write}
	engine, err := NewEngine()
	if err != nil {
		return nil, err
	}
	return &holdfast.Permissions{Engine: engine, Mode: a.Mode, Workspace: func(session.Session) permission.Workspace { return w }}, nil
}

// NewRules opens the rules of workspaces, which the store keeps, and those of
// the user, which a file keeps.
func (p *Setup) NewRules(rt *holdfast.Runtime) *rules.Store {
	c := rules.Config{Warn: p.WarnEarly}
	if dir, err := UserDir(); err == nil {
		c.Profile, c.Trust = filepath.Join(dir, "permissions.json"), rules.NewTrust(filepath.Join(dir, "trust.json"))
	}
	return rules.New(rt, c)
}

// UserDir is where the user's own rules and trust are, outside every workspace.
func UserDir() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "holdfast"), err
}

// WorkspaceAt returns a folder as a workspace, with a shell.
func WorkspaceAt(dir string) (task.Workspace, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return task.Workspace{}, err
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return task.Workspace{}, &session.InvalidError{Field: "workspace", Reason: fmt.Sprintf("%s is not a folder", dir)}
	}
	return task.Workspace{ID: root, Root: root, Capabilities: map[string]bool{"shell": true, "delete": true}}.Resolved()
}
