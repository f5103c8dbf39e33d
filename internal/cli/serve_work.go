package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	taskkit "github.com/holdfast-dev/holdfast/task/kit"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/shell"
	"github.com/holdfast-dev/holdfast/tool/web"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// addWork lets a server work on tasks and workflow runs, with the tools that
// the command line offers. A store that cannot hold them leaves it without.
func (p *program) addWork(e *env, c *server.Config) (err error) {
	if e.rt.CheckDurable() != nil { // serve has warned about it
		return nil
	}
	if c.Runs, err = p.servedRuns(e); err != nil {
		return err
	}
	kit := taskkit.Config{Shell: &shell.Config{Sandbox: p.newSandboxConfig()}}
	if p.permissions.web && !p.noWeb {
		kit.Web = &web.Config{}
	}
	registry, err := taskkit.New(kit)
	if err != nil {
		return err
	}
	e.closeLater(registry)
	if c.Tasks, err = p.servedTasks(registry); err == nil {
		c.Tasks.Check = func(model string) error { return p.checkTaskModel(e, model) }
	}
	return err
}

// servedTasks works on tasks of all tenants with one set of tools.
func (p *program) servedTasks(registry *taskkit.Registry) (*server.Tasks, error) {
	decisions, err := newEngine()
	if err != nil {
		return nil, err
	}
	t := &server.Tasks{Executor: func(rt *holdfast.Runtime) (*task.Executor, error) {
		return task.New(rt, task.Config{Registry: registry, Engine: decisions, Rules: p.newRules(rt), Warn: p.warnEarly, Clock: p.now, Snapshot: taskruntime.Snapshot})
	}}
	if a := p.permissions; a.write || a.shell {
		if t.Workspace, err = workspaceAt(a.dir()); err != nil {
			return nil, err
		}
		t.Workspace.Capabilities = map[string]bool{"shell": a.shell, "delete": a.write, "network": a.network && !p.noWeb}
	}
	return t, nil
}

// servedRuns runs specs that come over HTTP. They get the tools that the command
// line offers and nothing of the environment.
func (p *program) servedRuns(e *env) (*server.Runs, error) {
	models := &engine{program: p}
	http, err := tools.HTTPFromEnv(p.getenv)
	if err != nil {
		return nil, err
	}
	return &server.Runs{
		Check: func(s *spec.Spec) error {
			if len(s.Tools.HTTPExecutors) > 0 && !p.servesWeb() {
				return &session.SpecError{File: s.Path(), Pointer: "/tools/http_executors", Reason: "this server reaches no web services; it does with --allow-web"}
			}
			return models.check(s)
		},
		Host: func(rt *holdfast.Runtime) (workflow.Host, error) {
			permissions, err := p.newPermissions(e.store)
			if err != nil {
				return workflow.Host{}, err
			}
			if permissions != nil {
				permissions.Rules = p.newRules(rt)
			}
			return workflow.Host{
				Models: models.model, Env: models.env(), Permissions: permissions, Now: p.now, Warn: p.warnEarly,
				Tools: func(_ context.Context, s *spec.Spec, snap *spec.Snapshot) (workflow.Toolbox, error) {
					box, err := tools.New(tools.Config{
						Spec: s, Snapshot: snap, WorkDir: p.permissions.dir(), HTTP: http, NoWeb: !p.servesWeb(), Providers: []string{offlineProvider},
						Now: p.now, Warn: func(text string) { p.warnEarly("%s", text) },
					})
					return servedTools{box, p.permissions.write}, err
				},
			}, nil
		},
	}, nil
}

func (p *program) servesWeb() bool { return p.permissions.web && !p.noWeb }

// servedTools are the tools of a run over HTTP.
type servedTools struct {
	box   *tools.Box
	write bool
}

// For returns the tools of a unit. One that needs a flag which was not given is
// an error that names the flag.
func (t servedTools) For(names []string, listed bool, loaded func(skill string) bool) ([]tool.Tool, error) {
	found := t.box.Loaded(loaded).For(names, listed)
	if !t.write && slices.ContainsFunc(found, func(t tool.Tool) bool { return flagFor(t.Spec().Name) == "--allow-write" }) {
		return nil, &unavailableError{what: fmt.Sprintf("the spec needs a tool that writes files: %v", names), remedy: "the server offers it with --allow-write"}
	}
	return found, nil
}

// Close has nothing to end.
func (servedTools) Close() error { return nil }
