package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/mcp"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// runTools is the tools of a run: those that come with the program, and those of
// the spec's tool servers.
type runTools struct {
	box    *tools.Box
	served []tool.Tool
	links  []io.Closer
}

// openRunTools makes the tools of a run. A server that does not start is told of, and
// its tools are missing.
func (j *runPass) openRunTools(ctx context.Context, s *spec.Spec, snap *spec.Snapshot) (workflow.Toolbox, error) {
	box, err := tools.New(tools.Config{
		Spec: s, Snapshot: snap, AllowPaths: j.options.paths, HTTP: j.http, NoWeb: j.NoWeb, Getenv: j.Getenv,
		Providers: []string{setup.OfflineProvider}, Now: j.Now, Warn: func(text string) { j.view.Warn("%s", text) },
	})
	if err != nil {
		return nil, err
	}
	k := &runTools{box: box}
	if g := s.Security.Guardrails; g != nil && g.DenyNetwork {
		return k, nil
	}
	patience, err := j.StartupTimeout()
	if err != nil {
		return nil, err
	}
	servers := make([]struct {
		tools []tool.Tool
		link  io.Closer
		err   error
	}, len(s.Tools.MCP))
	var all sync.WaitGroup
	for i, server := range s.Tools.MCP {
		all.Go(func() {
			at := &servers[i]
			at.tools, at.link, at.err = mcp.Config{Dir: ".", StartTimeout: patience, LookupEnv: func(name string) (string, bool) {
				value := j.Getenv(setup.SecretVariable(s, name))
				return value, value != ""
			}}.Dial(ctx, session.MCPServer{
				ID: server.ID, Command: server.Command, Args: server.Args, Env: asMap(server.Env), URL: server.URL, Headers: asMap(server.Headers),
			})
		})
	}
	all.Wait()
	for i, at := range servers {
		if at.err != nil {
			j.view.Warn("the tool server %s is not there: %v", s.Tools.MCP[i].ID, at.err)
			continue
		}
		k.served, k.links = append(k.served, box.FromServer(s.Tools.MCP[i].ID, at.tools)...), append(k.links, at.link)
	}
	return k, nil
}

// For returns the tools of a unit.
func (k *runTools) For(names []string, listed bool, loaded func(skill string) bool) ([]tool.Tool, error) {
	return slices.Concat(k.box.Loaded(loaded).For(names, listed), k.served), nil
}

// Close ends the tool servers.
func (k *runTools) Close() error {
	var errs []error
	for _, link := range k.links {
		errs = append(errs, link.Close())
	}
	return errors.Join(errs...)
}
