// Package task gives an agent a job: a plan with steps, a checklist, budgets,
// permissions, questions and recovery, as one session that survives the
// process.
//
// An Executor starts, lists, resumes and ends tasks, from any process. Open
// hands out a Run, the one live owner of a task's state while its lease is
// held. The state is the fold of the session's log; nothing needed to go on
// lives in memory only.
package task

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// Config is what an Executor is made of. Every field has a useful zero value.
type Config struct {
	Clock    func() time.Time
	NewID    func() string
	Planner  Planner // nil: asks the task's model
	Registry Registry
	Engine   permission.Engine
	Rules    RuleStore // rules of workspaces and of the user; nil: none
	Budget   Budget    // for tasks that set none

	// Snapshot writes a task in a format of another program, for SaveSnapshot.
	// nil: none is written.
	Snapshot      func(View) (json.RawMessage, error)
	Snapshots     SnapshotMode // when one is written; empty: on_stop
	MaxConcurrent int          // tasks at work in this process; 0: 4
	// PendingTimeout is how long a call waits for a response. 0: as long as the
	// runtime's Config.PendingTimeout says.
	PendingTimeout time.Duration
	Warn           func(format string, args ...any)
}

// Registry makes the tools that work in a workspace. A tool without effects is
// unknown to permissions.
type Registry interface {
	Tools(ctx context.Context, w Workspace) ([]tool.Tool, error)
}

// Checker is a Registry that can run a command in a workspace on behalf of
// the user who set it as a criterion of success. An error says that the
// command could not be run; ok that it ended well.
type Checker interface {
	Check(ctx context.Context, w Workspace, command string) (output string, ok bool, err error)
}

// RuleStore keeps the rules that outlive a task.
type RuleStore interface {
	holdfast.RuleStore
	// Remove takes one back; false says that there was none.
	Remove(ctx context.Context, w Workspace, r session.Rule) (bool, error)
}

// Workspace is where a task works.
type Workspace = permission.Workspace

// Planner makes the plan of a task.
type Planner interface {
	Plan(ctx context.Context, s Spec, window []session.Message) (session.Plan, error)
}

// SnapshotMode is when a run leaves a snapshot in the log.
type SnapshotMode string

// The modes.
const (
	SnapshotOnStop    SnapshotMode = "on_stop"
	SnapshotNever     SnapshotMode = "never"
	SnapshotEveryStep SnapshotMode = "every_step"
)

// Spec is a job to be done.
type Spec struct {
	ID              string // empty: a new one
	Key             string // an idempotency key, instead of an ID: the same job under it is one task
	Title           string // empty: the beginning of the prompt
	Prompt          string
	Workspace       Workspace
	ExecutionMode   string // empty: execute
	PermissionMode  string // empty: default
	Budget          *Budget
	Plan            *session.Plan // taken as it is
	PlanMode        string        // auto (default) or none, where there is no plan
	SuccessCriteria *SuccessCriteria
	MaxAttempts     int // 0: 3
	AutoResume      *bool
	Deep            bool
	Definition      session.Definition // the agent; an empty name is "task"
}

// SuccessCriteria is what must hold before a task may be completed.
type SuccessCriteria struct {
	Type    string   `json:"type"` // shell_command or file_exists
	Command string   `json:"command,omitempty"`
	Paths   []string `json:"filePaths,omitempty"`
}

// Row is a task as listings show it.
type Row struct {
	ID        string `json:"id"`
	CreatedAt int64  `json:"createdAt"`
	UpdatedAt int64  `json:"updatedAt"`
	Version   int64  `json:"version"`
	session.TaskRow
}

// Executor runs tasks. It is safe for concurrent use.
type Executor struct {
	rt *holdfast.Runtime
	c  Config

	instance string     // names this executor in grants
	gate     agent.Gate // decides by permissions
	line     line       // of those who wait to work
	warned   sync.Map   // texts of warnings that were given
}

func millis(t time.Time) int64 { return t.UnixMilli() }

func raw(v any) json.RawMessage {
	data, err := session.JSON(v)
	if err != nil {
		panic("task: an event is no JSON: " + err.Error()) // they are made of texts, numbers and lists
	}
	return data
}
