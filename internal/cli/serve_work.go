package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/setup"
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
func (p *program) addWork(e *setup.Env, c *server.Config) (err error) {
	if e.Runtime.CheckDurable() != nil { // serve has warned about it
		return nil
	}
	if c.Runs, err = p.servedRuns(e); err != nil {
		return err
	}
	kit := taskkit.Config{Shell: &shell.Config{Sandbox: p.NewSandboxConfig()}}
	if p.Permissions.Web && !p.NoWeb {
		kit.Web = &web.Config{}
	}
	registry, err := taskkit.New(kit)
	if err != nil {
		return err
	}
	e.CloseLater(registry)
	if c.Tasks, err = p.servedTasks(registry); err == nil {
		c.Tasks.Check = func(model string) error { return p.checkTaskModel(e, model) }
	}
	return err
}

// servedTasks works on tasks of all tenants with one set of tools.
func (p *program) servedTasks(registry *taskkit.Registry) (*server.Tasks, error) {
	decisions, err := setup.NewEngine()
	if err != nil {
		return nil, err
	}
	t := &server.Tasks{Executor: func(rt *holdfast.Runtime) (*task.Executor, error) {
		return task.New(rt, task.Config{Registry: registry, Engine: decisions, Rules: p.NewRules(rt), Warn: p.WarnEarly, Clock: p.Now, Snapshot: taskruntime.Snapshot})
	}}
	if a := p.Permissions; a.Write || a.Shell {
		if t.Workspace, err = setup.WorkspaceAt(a.Dir()); err != nil {
			return nil, err
		}
		t.Workspace.Capabilities = map[string]bool{"shell": a.Shell, "delete": a.Write, "network": a.Network && !p.NoWeb, task.CapabilityAgentsFile: p.readsAgentsFile()}
	}
	return t, nil
}

// servedRuns runs specs that come over HTTP. They get the tools that the command
// line offers and nothing of the environment.
func (p *program) servedRuns(e *setup.Env) (*server.Runs, error) {
	models := &setup.SpecModels{Setup: p.Setup}
	http, err := tools.HTTPFromEnv(p.Getenv)
	if err != nil {
		return nil, err
	}
	return &server.Runs{
		Check: func(s *spec.Spec) error {
			if len(s.Tools.HTTPExecutors) > 0 && !p.servesWeb() {
				return &session.SpecError{File: s.Path(), Pointer: "/tools/http_executors", Reason: "this server reaches no web services; it does with --allow-web"}
			}
			return models.Check(s)
		},
		Host: func(rt *holdfast.Runtime) (workflow.Host, error) {
			permissions, err := p.NewPermissions(e.Store)
			if err != nil {
				return workflow.Host{}, err
			}
			if permissions != nil {
				permissions.Rules = p.NewRules(rt)
			}
			return workflow.Host{
				Models: models.Model, Env: models.Env(), Permissions: permissions, Now: p.Now, Warn: p.WarnEarly,
				Tools: func(_ context.Context, s *spec.Spec, snap *spec.Snapshot) (workflow.Toolbox, error) {
					box, err := tools.New(tools.Config{
						Spec: s, Snapshot: snap, WorkDir: p.Permissions.Dir(), HTTP: http, NoWeb: !p.servesWeb(), Providers: []string{setup.OfflineProvider},
						Now: p.Now, Warn: func(text string) { p.WarnEarly("%s", text) },
					})
					return servedTools{box, p.Permissions.Write}, err
				},
			}, nil
		},
	}, nil
}

func (p *program) servesWeb() bool { return p.Permissions.Web && !p.NoWeb }

// servedTools are the tools of a run over HTTP.
type servedTools struct {
	box   *tools.Box
	write bool
}

// For returns the tools of a unit. One that needs a flag which was not given is
// an error that names the flag.
func (t servedTools) For(names []string, listed bool, loaded func(skill string) bool) ([]tool.Tool, error) {
	found := t.box.Loaded(loaded).For(names, listed)
	if !t.write && slices.ContainsFunc(found, func(t tool.Tool) bool { return setup.FlagFor(t.Spec().Name) == "--allow-write" }) {
		return nil, &setup.UnavailableError{What: fmt.Sprintf("the spec needs a tool that writes files: %v", names), Remedy: "the server offers it with --allow-write"}
	}
	return found, nil
}

// Close has nothing to end.
func (servedTools) Close() error { return nil }
