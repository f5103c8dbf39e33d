package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

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
func (p *program) dial(ctx context.Context, server session.MCPServer) ([]tool.Tool, io.Closer, error) {
	if !p.permissions.mcp {
		return nil, nil, &unavailableError{what: "tool servers are started only when you ask for it", remedy: "start them with --allow-mcp"}
	}
	tools, link, err := mcp.Config{Dir: p.permissions.dir(), LookupEnv: func(name string) (string, bool) {
		value := p.getenv(name)
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
	tools     tool.Set
	workspace *files.Workspace // nil: this directory cannot be read
	others    []io.Closer      // that are closed with it
}

// openTools makes the tools that the command line offers. A directory that
// cannot be opened means agents without files, not a command that fails.
// Agents can ask a person only where the store keeps the answer.
func (p *program) openTools(st store.Store) (_ *toolbox, err error) {
	box := &toolbox{}
	defer func() {
		if err != nil {
			err = errors.Join(err, box.close())
		}
	}()
	all, err := basic.Tools(basic.Config{Now: p.now})
	if err != nil {
		return box, err
	}
	if _, ok := st.(store.Inboxes); ok {
		all = append(all, tool.AskPerson())
	}
	if box.workspace, err = files.Open(files.Config{Dir: p.permissions.dir(), ReadOnly: !p.permissions.write}); err != nil {
		p.err.warn("agents cannot use files: %v", err)
	} else {
		all = append(all, box.workspace.Tools()...)
	}
	if p.permissions.shell {
		c := shell.Config{Sandbox: p.newSandboxConfig()}
		c.Sandbox.Dir = p.permissions.dir()
		if p.agentsRun {
			p.warnUnsandboxed()
		}
		sh, err := shell.New(c)
		if err != nil {
			return box, err
		}
		all = append(all, sh)
	}
	if p.permissions.web && !p.noWeb {
		pages, err := web.Tools(web.Config{})
		if err != nil {
			return box, err
		}
		all = append(all, pages...)
	}
	box.tools, err = tool.NewSet(all...)
	return box, err
}

// closeLater closes something when no agent works any more.
func (b *toolbox) closeLater(c io.Closer) { b.others = append(b.others, c) }

func (b *toolbox) close() error {
	var errs []error
	for _, c := range b.others {
		errs = append(errs, c.Close())
	}
	if b.workspace != nil {
		errs = append(errs, b.workspace.Close())
	}
	return errors.Join(errs...)
}

// spawnTool is the tool that gives work to a subagent.
const spawnTool = "spawn_subagent"

// toolNames returns what an agent can call, for a person to know, of the tools
// that all agents are offered. A tool server that was not reached yet is named
// in place of its tools.
func (p *program) toolNames(offered []string, def session.Definition) string {
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
	if len(def.Subagents) > 0 && !slices.Contains(def.ToolsDeny, spawnTool) {
		names = append(names, spawnTool+" for "+strings.Join(def.Subagents, " and "))
	}
	return strings.Join(names, ", ")
}
