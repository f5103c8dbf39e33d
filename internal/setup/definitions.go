package setup

import (
	"context"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/session"
)

// ProjectAgents is where a project keeps its definitions.
var ProjectAgents = filepath.Join(".holdfast", "agents")

// AgentDirs returns the directories of definitions: the user's, then the
// project's, which wins.
func (p *Setup) AgentDirs() []string {
	dirs := []string{ProjectAgents}
	if user := p.configDir(); user != "" {
		dirs = append([]string{filepath.Join(user, "agents")}, dirs...)
	}
	return dirs
}

// Registry returns the definitions in some directories, those of the user and
// the project where none are given.
func (p *Setup) Registry(dirs ...string) *definition.Registry {
	if len(dirs) == 0 {
		dirs = p.AgentDirs()
	}
	sources := make([]definition.Source, len(dirs))
	for i, dir := range dirs {
		sources[i] = definition.Source{Dir: dir, Recursive: true}
	}
	return definition.NewRegistry(sources...)
}

// Agent returns the agent of a name, where it runs.
func (e *Env) Agent(ctx context.Context, name string) (session.Definition, error) {
	if e.Server != nil {
		return e.Server.Agent(ctx, name)
	}
	return e.Agents.Get(name)
}
