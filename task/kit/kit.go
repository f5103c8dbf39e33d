// Package kit makes the tools of real tasks: files of the workspace, a shell,
// the web, a clock and a calculator, each with what it does to the world.
package kit

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/basic"
	"github.com/holdfast-dev/holdfast/tool/files"
	"github.com/holdfast-dev/holdfast/tool/shell"
	"github.com/holdfast-dev/holdfast/tool/web"
)

// Config says what tasks get beside the files of their workspace.
type Config struct {
	Shell *shell.Config // nil: the defaults; its folder is the workspace's
	Web   *web.Config   // nil: the web cannot be reached
	Basic basic.Config

	// More are tools of the program's own, for every workspace.
	More []tool.Tool
}

// Registry makes the tools of workspaces. Close gives the folders back when no
// task works any more.
type Registry struct {
	c      Config
	common []tool.Tool

	mu   sync.Mutex // guards open
	open map[string]*files.Workspace
}

var (
	_ task.Registry = (*Registry)(nil)
	_ task.Checker  = (*Registry)(nil)
)

// New makes a registry.
func New(c Config) (*Registry, error) {
	list, err := basic.Tools(c.Basic)
	if err != nil {
		return nil, err
	}
	if c.Web != nil {
		more, err := web.Tools(*c.Web)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	r := &Registry{c: c, open: map[string]*files.Workspace{}}
	r.common = slices.Concat(list, c.More)
	return r, nil
}

// Tools are those of a workspace. One without a folder has neither files nor a
// shell; the shell is there where the workspace permits it.
func (r *Registry) Tools(_ context.Context, w task.Workspace) ([]tool.Tool, error) {
	list := append([]tool.Tool{}, r.common...)
	if w.Root == "" {
		return list, nil
	}
	folder, err := r.folder(w.Root)
	if err != nil {
		return nil, err
	}
	list = append(list, folder.Tools()...)
	if !w.Capabilities["shell"] {
		return list, nil
	}
	sh, err := r.shell(w)
	if err != nil {
		return nil, err
	}
	return append(list, sh), nil
}

func (r *Registry) folder(root string) (*files.Workspace, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, ok := r.open[root]; ok {
		return have, nil
	}
	if r.open == nil {
		return nil, session.ErrClosed
	}
	made, err := files.Open(files.Config{Dir: root})
	if err == nil {
		r.open[root] = made
	}
	return made, err
}

func (r *Registry) shell(w task.Workspace) (tool.Tool, error) {
	c := shell.Config{}
	if r.c.Shell != nil {
		c = *r.c.Shell
	}
	c.Sandbox.Dir = w.Root
	return shell.New(c)
}

// Check runs a command that the user set as a criterion of success, in the
// workspace and with what the shell's configuration lets it see.
func (r *Registry) Check(ctx context.Context, w task.Workspace, command string) (output string, ok bool, err error) {
	sh, err := r.shell(w)
	if err != nil {
		return "", false, err
	}
	arguments, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return "", false, err
	}
	result, err := sh.Call(ctx, tool.Call{ID: "check", Arguments: arguments})
	return result.Content, err == nil && !result.IsError, err
}

// Close gives the folders back. It may be called twice.
func (r *Registry) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var failed error
	for _, folder := range r.open {
		failed = errors.Join(failed, folder.Close())
	}
	r.open = nil
	return failed
}
