package holdfast

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// availableTools returns every tool a definition may choose from.
func (rt *Runtime) availableTools(ctx context.Context, def session.Definition) (tool.Set, error) {
	all := rt.config.Tools.All()
	for _, name := range def.Capabilities {
		all = append(all, rt.config.Capabilities[name].Tools...)
	}
	if def.Memory != nil {
		own, err := rt.memoryTools()
		if err != nil {
			return tool.Set{}, err
		}
		all = append(all, own.of(def.Memory)...)
	}
	if rt.config.MCP != nil {
		for _, server := range def.MCP {
			offered, err := rt.servers.tools(ctx, server)
			if err != nil {
				return tool.Set{}, err
			}
			all = append(all, offered...)
		}
	}
	if len(def.Subagents) > 0 && rt.config.Definitions != nil {
		all = append(all, spawnTool{rt: rt, names: def.Subagents})
	}
	return tool.NewSet(all...)
}

// chosenTools lists the tools that an agent may use; nil: all. An agent with
// subagents can call them, whatever other tools it chose.
func chosenTools(def session.Definition) []string {
	if def.Tools == nil || len(def.Subagents) == 0 || slices.Contains(def.Tools, spawnName) {
		return def.Tools
	}
	return append(slices.Clone(def.Tools), spawnName)
}

// tools returns those the agent gets.
func (rt *Runtime) tools(ctx context.Context, def session.Definition) (tool.Set, error) {
	pool, err := rt.availableTools(ctx, def)
	if err != nil {
		return tool.Set{}, err
	}
	return pool.Select(chosenTools(def), def.ToolsDeny), nil
}

// executionTools returns the agent's tools and those that the request of the
// running execution brought with it.
func (rt *Runtime) executionTools(ctx context.Context, s session.Session) (tool.Set, error) {
	if !s.Running() {
		return rt.tools(ctx, s.Definition())
	}
	return rt.toolsWith(ctx, s.Definition(), s.Execution().Tools)
}

// checkClientTools refuses tools of a request that cannot be used beside the
// agent's own.
func (rt *Runtime) checkClientTools(ctx context.Context, s session.Session, brought []session.ClientTool) error {
	if len(brought) == 0 {
		return nil
	}
	_, err := rt.toolsWith(ctx, s.Definition(), brought)
	return err
}

func (rt *Runtime) toolsWith(ctx context.Context, def session.Definition, brought []session.ClientTool) (tool.Set, error) {
	own, err := rt.tools(ctx, def)
	if err != nil || len(brought) == 0 {
		return own, err
	}
	all := own.All()
	for _, t := range brought {
		all = append(all, tool.Client(t))
	}
	return tool.NewSet(all...)
}
