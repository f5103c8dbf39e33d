package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/basic"
	"github.com/holdfast-dev/holdfast/tool/files"
	"github.com/holdfast-dev/holdfast/tool/mcp"
	"github.com/holdfast-dev/holdfast/tool/shell"
	"github.com/holdfast-dev/holdfast/tool/web"
)

// dial reaches the tool servers of a definition, where the command line allows
// it: their commands run as whoever runs this one.
func (p *Setup) dial(ctx context.Context, server session.MCPServer) ([]tool.Tool, io.Closer, error) {
	if !p.Permissions.mcp {
		return nil, nil, &UnavailableError{What: "tool servers are started only when you ask for it", Remedy: "start them with --allow-mcp"}
	}
	tools, link, err := mcp.Config{Dir: p.Permissions.Dir(), LookupEnv: func(name string) (string, bool) {
		value := p.Getenv(name)
		return value, value != ""
	}}.Dial(ctx, server)
	if err != nil {
		return nil, nil, err
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Spec().Name
	}
	p.servers.Store(server.ID, names)
	return tools, link, nil
}

// toolbox is the tools of agents, which work in this directory.
type toolbox struct {
	Tools     tool.Set
	workspace *files.Workspace // nil: this directory cannot be read
	others    []io.Closer      // that are closed with it
}

// openTools makes the tools that the command line offers. A directory that
// cannot be opened means agents without files, not a command that fails.
// Agents can ask a person only where the store keeps the answer.
func (p *Setup) openTools(st store.Store) (_ *toolbox, err error) {
	box := &toolbox{}
	defer func() {
		if err != nil {
			err = errors.Join(err, box.Close())
		}
	}()
	all, err := basic.Tools(basic.Config{Now: p.Now})
	if err != nil {
		return box, err
	}
	if _, ok := st.(store.Inboxes); ok {
		all = append(all, tool.AskPerson())
	}
	if _, err := WorkspaceAt(p.Permissions.Dir()); err != nil && p.Permissions.Workspace != "" {
		return box, err
	}
	if box.workspace, err = files.Open(files.Config{Dir: p.Permissions.Dir(), ReadOnly: !p.Permissions.Write}); err != nil {
		p.Err.Warn("agents cannot use files: %v", err)
	} else {
		all = append(all, box.workspace.Tools()...)
	}
	if p.Permissions.Shell {
		c := shell.Config{Sandbox: p.NewSandboxConfig()}
		c.Sandbox.Dir = p.Permissions.Dir()
		if p.AgentsRun {
			p.WarnUnsandboxed()
		}
		sh, err := shell.New(c)
		if err != nil {
			return box, err
		}
		all = append(all, sh)
	}
	if p.Permissions.Web && !p.NoWeb {
		pages, err := web.Tools(web.Config{})
		if err != nil {
			return box, err
		}
		all = append(all, pages...)
	}
	box.Tools, err = tool.NewSet(all...)
	return box, err
}

// CloseLater closes something when no agent works any more.
// Close closes the tools.
func (b *toolbox) CloseLater(c io.Closer) { b.others = append(b.others, c) }

func (b *toolbox) Close() error {
	var errs []error
	for _, c := range b.others {
		errs = append(errs, c.Close())
	}
	if b.workspace != nil {
		errs = append(errs, b.workspace.Close())
	}
	return errors.Join(errs...)
}

// ToolNames returns what an agent can call, for a person to know, of the tools
// that all agents are offered. A tool server that was not reached yet is named
// in place of its tools.
func (p *Setup) ToolNames(offered []string, def session.Definition) string {
	var names []string
	use := func(offered []string) {
		for _, name := range offered {
			if (def.Tools == nil || slices.Contains(def.Tools, name)) && !slices.Contains(def.ToolsDeny, name) {
				names = append(names, name)
			}
		}
	}
	use(offered)
	for _, server := range def.MCP {
		value, _ := p.servers.Load(server.ID)
		served, reached := value.([]string)
		if !reached {
			names = append(names, "those of the server "+server.ID)
			continue
		}
		use(served)
	}
	if own := "memory_"; def.Memory != nil && def.Memory.Tools && (def.Tools == nil || slices.ContainsFunc(def.Tools, func(name string) bool { return strings.HasPrefix(name, own) })) {
		names = append(names, "its memory")
	}
	if len(def.Subagents) > 0 && !slices.Contains(def.ToolsDeny, display.SpawnTool) {
		names = append(names, display.SpawnTool+" for "+strings.Join(def.Subagents, " and "))
	}
	return strings.Join(names, ", ")
}

// StartupTimeout returns how long a tool server has to start.
func (p *Setup) StartupTimeout() (time.Duration, error) {
	text := p.Getenv("MCP_STARTUP_TIMEOUT_S")
	if text == "" {
		return 30 * time.Second, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds <= 0 || seconds > 3600 {
		return 0, &session.InvalidError{Field: "MCP_STARTUP_TIMEOUT_S", Reason: fmt.Sprintf("%q is not a number of seconds up to 3600", text)}
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// ToolList describes the tools that agents get.
func (o *AgentSetup) ToolList() []server.Tool {
	var list []server.Tool
	for _, t := range o.Tools.All() {
		list = append(list, server.Tool{Name: t.Spec().Name, Description: t.Spec().Description})
	}
	return list
}
