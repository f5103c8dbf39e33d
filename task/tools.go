package task

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// toolbox keeps what the registry offers in the workspace, so that it is asked
// once. It is dropped when the workspace changes.
type toolbox struct {
	mu    sync.Mutex
	known []tool.Tool                                 // of the registry; nil: to be asked for
	from  Registry                                    // nil: the executor's
	more  func(ctx context.Context) (tool.Set, error) // of the runtime, for the task's definition
	last  []tool.Tool                                 // the newest catalogue
}

// dropTools forgets what the registry offered.
func (r *Run) dropTools() {
	r.box.mu.Lock()
	defer r.box.mu.Unlock()
	r.box.known = nil
}

// catalogue returns every tool there is: those of the workspace, those that the
// runtime has for the definition, and those of the task itself. Of two with one
// name the task's comes first, then the workspace's.
func (r *Run) catalogue(ctx context.Context) ([]tool.Tool, error) {
	r.box.mu.Lock()
	defer r.box.mu.Unlock()
	if r.box.known == nil {
		known := []tool.Tool{}
		from := r.box.from
		if from == nil {
			from = r.x.c.Registry
		}
		if from != nil {
			w := workspaceOf(r.session())
			tools, err := from.Tools(ctx, w)
			if err != nil {
				return nil, fmt.Errorf("find the tools of workspace %q: %w", w.ID, err)
			}
			known = append(known, tools...)
		}
		r.box.known = known
	}
	all := r.ownTools()
	add := func(list []tool.Tool) {
		for _, t := range list {
			if !slices.ContainsFunc(all, func(have tool.Tool) bool { return have.Spec().Name == t.Spec().Name }) {
				all = append(all, t)
			}
		}
	}
	add(r.box.known)
	if r.box.more != nil {
		more, err := r.box.more(ctx)
		if err != nil {
			return nil, err
		}
		add(more.All())
	}
	r.box.last = all
	return all, nil
}

// specOf returns what is known of a tool; nothing of one there is not.
func (r *Run) specOf(name string) tool.Spec {
	r.box.mu.Lock()
	defer r.box.mu.Unlock()
	for _, t := range r.box.last {
		if spec := t.Spec(); spec.Name == name {
			return spec
		}
	}
	return tool.Spec{Name: name}
}

// ofWorkspace reports a tool of the registry.
func (r *Run) ofWorkspace(name string) bool {
	r.box.mu.Lock()
	defer r.box.mu.Unlock()
	return slices.ContainsFunc(r.box.known, func(t tool.Tool) bool { return t.Spec().Name == name })
}

// offers reports a tool that the model is shown: not one that is off for a
// while, nor a deferred one that no search has found, nor what the definition
// leaves out.
func (r *Run) offers(s session.Session, spec tool.Spec, deferred bool) bool {
	state, mode, def := stateOf(s), rowIn(s).ExecutionMode, s.Definition()
	name := spec.Name
	switch {
	case checklistTool(name):
		return checklistMode(mode)
	case name == searchTool:
		return deferred
	case name == tool.AskPersonName:
		return inputMode(mode)
	case !usableIn(mode, spec), spec.Deferred && !state.Tools.Found.Has(name), slices.Contains(def.ToolsDeny, name),
		r.ofWorkspace(name) && def.Tools != nil && !slices.Contains(def.Tools, name):
		return false
	}
	_, off := disabled(state.Tools, spec, "", millis(r.x.c.Clock()))
	return !off
}

// ownTools returns those that work on the task itself.
func (r *Run) ownTools() []tool.Tool {
	r.ownOnce.Do(func() { r.own = append(ChecklistTools(r), r.searchTool(), tool.AskPerson()) })
	return slices.Clone(r.own)
}

func ownTool(name string) bool {
	return checklistTool(name) || name == searchTool || name == tool.AskPersonName
}
