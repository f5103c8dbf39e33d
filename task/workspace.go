package task

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"

	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// workspaceOf returns where a task works.
func workspaceOf(s session.Session) Workspace {
	row := rowIn(s)
	return Workspace{ID: row.WorkspaceID, Root: row.WorkspacePath, Capabilities: maps.Clone(stateOf(s).Settings.Capabilities)}
}

func (r *Run) workspace() Workspace { return workspaceOf(r.session()) }

// ApplyWorkspace makes the task work in another workspace, with the tools that
// a registry makes for it (nil: the executor's). What was said, counted, used,
// planned and queued stays, and so do the session's rules, denials and mode.
// When the tools cannot be made, the old workspace stays in force.
func (r *Run) ApplyWorkspace(ctx context.Context, w Workspace, from Registry) error {
	w, err := w.Resolved()
	if err != nil {
		return err
	}
	if from == nil {
		from = r.x.c.Registry
	}
	if from != nil { // what cannot be had is not changed to
		if _, err := from.Tools(ctx, w); err != nil {
			return err
		}
	}
	before := r.workspace()
	err = r.append(ctx, edit{
		changes: []session.Change{event("workspace_changed", workspaceChanged{ID: w.ID, Path: w.Root, Previous: before.ID})},
		state: func(s *session.TaskState) {
			s.Settings.Capabilities = maps.Clone(w.Capabilities)
			s.Recovery.DisabledScope, s.Tools.PageFailure = nil, nil
			s.Loop.Advice = ""
			s.Loop.Blocked, s.Loop.BlockedText = nil, nil
		},
		row: func(row *session.TaskRow) {
			row.WorkspaceID, row.WorkspacePath, row.ToolDisabledScope = w.ID, w.Root, ""
		},
	})
	if err != nil {
		return err
	}
	r.box.mu.Lock()
	r.box.from, r.box.known = from, nil
	r.box.mu.Unlock()
	return nil
}

// CapabilityAgentsFile is the capability of a workspace whose AGENTS.md is part
// of the prompt.
const CapabilityAgentsFile = "agents_file"

// agentsFile is where a workspace tells agents how to work in it.
const (
	agentsFile    = "AGENTS.md"
	maxAgentsFile = 32 << 10
)

// DescribeWorkspace tells an agent where it works, and what the AGENTS.md of
// that folder asks of agents, unless the capability agents_file is off. A file
// that is none, or leads out of the folder, is not read. Without a folder it is
// empty.
func DescribeWorkspace(w Workspace) string {
	if w.Root == "" {
		return ""
	}
	about := fmt.Sprintf(workspaceText, w.Root, runtime.GOOS)
	if on, set := w.Capabilities[CapabilityAgentsFile]; set && !on {
		return about
	}
	if text := AgentsFile(w.Root); text != "" {
		about += " " + text
	}
	return about
}

// AgentsFile returns what the AGENTS.md of a folder asks of agents, as a part of
// a prompt; "" where there is none, or where it leads out of the folder.
func AgentsFile(dir string) string {
	root, err := os.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return "" // tools say what is wrong with it
	}
	defer root.Close() //nolint:errcheck // nothing was written
	file, _, err := regular.Open(root, agentsFile, agentsFile)
	if err != nil {
		return ""
	}
	defer file.Close() //nolint:errcheck // nothing was written
	text, err := io.ReadAll(io.LimitReader(file, maxAgentsFile+1))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(agentsFileText, tool.Head(string(text), maxAgentsFile))
}
