package task

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	defaultConcurrent = 4
	defaultAttempts   = 3
	mostAttempts      = 10
	longestTitle      = 120
)

// New is an executor on a runtime. A store that cannot hold tasks is an
// UnsupportedError.
func New(rt *holdfast.Runtime, c Config) (*Executor, error) {
	if rt == nil {
		return nil, &session.InvalidError{Field: "runtime", Reason: "is required"}
	}
	if err := rt.CheckDurable(); err != nil {
		return nil, err
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.NewID == nil {
		c.NewID = uuid.NewString
	}
	if c.Warn == nil {
		c.Warn = func(string, ...any) {}
	}
	if c.Snapshots == "" {
		c.Snapshots = SnapshotOnStop
	}
	switch {
	case !slices.Contains([]SnapshotMode{SnapshotOnStop, SnapshotNever, SnapshotEveryStep}, c.Snapshots):
		return nil, &session.InvalidError{Field: "Config.Snapshots", Reason: fmt.Sprintf("%q is no mode", c.Snapshots)}
	case c.MaxConcurrent < 0:
		return nil, &session.InvalidError{Field: "Config.MaxConcurrent", Reason: "is negative"}
	case c.MaxConcurrent == 0:
		c.MaxConcurrent = defaultConcurrent
	}
	if err := c.Budget.Check(); err != nil {
		return nil, err
	}
	x := &Executor{rt: rt, c: c, instance: uuid.NewString(), line: line{most: c.MaxConcurrent}}
	p := holdfast.Permissions{Engine: c.Engine, Workspace: workspaceOf, Instance: x.instance, Warn: x.warn}
	if c.Rules != nil {
		p.Rules = c.Rules
	}
	x.gate = rt.NewGate(p)
	return x, nil
}

// Create makes a task that is pending: whoever resumes it begins the work.
// What cannot be meant so is refused, and nothing is made.
func (x *Executor) Create(ctx context.Context, s Spec) (Row, error) {
	asked := s
	s, err := x.checked(s)
	if err != nil {
		return Row{}, err
	}
	opts := []holdfast.Option{holdfast.WithKind(session.KindTask), holdfast.WithChanges(x.beginning(s)...)}
	switch {
	case asked.Key == "":
		opts = append(opts, holdfast.WithID(s.ID))
	case asked.ID != "":
		return Row{}, &session.InvalidError{Field: "id", Reason: "a key chooses the id as well; give one of the two"}
	default:
		opts = append(opts, holdfast.IdempotencyKey(asked.Key), holdfast.KeyedRequest(asked))
	}
	made, err := x.rt.Create(ctx, s.Definition, opts...)
	if err != nil {
		return Row{}, err
	}
	return RowOf(made.Info())
}

// checked is a spec with its defaults.
func (x *Executor) checked(s Spec) (Spec, error) {
	refuse := func(field, reason string) (Spec, error) {
		return s, &session.InvalidError{Field: field, Reason: reason}
	}
	s.Prompt = strings.TrimSpace(s.Prompt)
	if s.Prompt == "" {
		return refuse("prompt", "is empty")
	}
	s.ID, s.Title = cmp.Or(s.ID, x.c.NewID()), cmp.Or(strings.TrimSpace(s.Title), title(s.Prompt))
	s.ExecutionMode, s.PermissionMode = cmp.Or(s.ExecutionMode, "execute"), cmp.Or(s.PermissionMode, session.PermissionDefault)
	s.PlanMode, s.Definition.Name = cmp.Or(s.PlanMode, PlanAuto), cmp.Or(s.Definition.Name, "task")
	if !slices.Contains(executionModes, s.ExecutionMode) {
		return refuse("executionMode", fmt.Sprintf("%q is none of %s", s.ExecutionMode, strings.Join(executionModes, ", ")))
	}
	if s.PlanMode != PlanAuto && s.PlanMode != PlanNone {
		return refuse("planMode", fmt.Sprintf("%q is neither auto nor none", s.PlanMode))
	}
	if err := session.CheckPermissionMode(s.PermissionMode); err != nil {
		return s, err
	}
	if s.MaxAttempts == 0 {
		s.MaxAttempts = defaultAttempts
	}
	if s.MaxAttempts < 1 || s.MaxAttempts > mostAttempts {
		return refuse("maxAttempts", fmt.Sprintf("%d is not 1 to %d", s.MaxAttempts, mostAttempts))
	}
	if s.Budget != nil {
		if err := s.Budget.Check(); err != nil {
			return s, err
		}
	}
	if s.Plan != nil {
		plan, err := normalPlan(*s.Plan, s.Prompt)
		if err != nil {
			return s, err
		}
		s.Plan = &plan
	}
	if err := x.checkCriteria(s.SuccessCriteria); err != nil {
		return s, err
	}
	var err error
	s.Workspace, err = s.Workspace.Resolved()
	return s, err
}

// title is the beginning of a prompt.
func title(prompt string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	return firstChars(strings.TrimSpace(first), longestTitle)
}

// beginning is a task's first version: all that a resume needs.
func (x *Executor) beginning(s Spec) []session.Change {
	now := x.c.Clock()
	row := session.TaskRow{
		Title: s.Title, Prompt: s.Prompt, Status: Pending, WorkspaceID: s.Workspace.ID, WorkspacePath: s.Workspace.Root,
		ExecutionMode: s.ExecutionMode, PermissionMode: s.PermissionMode, Run: 1, CurrentAttempt: 1, MaxAttempts: s.MaxAttempts,
	}
	if s.SuccessCriteria != nil {
		row.SuccessCriteria = raw(s.SuccessCriteria)
	}
	state := session.NewTaskState()
	begun := state
	begun.Settings = session.TaskSettings{
		AutoResume: s.AutoResume == nil || *s.AutoResume, Deep: s.Deep, PlanMode: s.PlanMode, Capabilities: maps.Clone(s.Workspace.Capabilities),
	}
	if s.Budget != nil {
		begun.Settings.Budget = raw(s.Budget)
	}
	begun.Said.User = s.Prompt
	shown := begun
	shown.Plan = s.Plan // the event below brings it into the state
	projected := shown.Projection()
	row.Projection = &projected
	changes := []session.Change{
		event("task_created", taskCreated{Title: s.Title, Prompt: s.Prompt, Workspace: s.Workspace.ID, ExecutionMode: s.ExecutionMode, Run: 1}),
		session.MessageAdded{Message: session.Message{ID: x.c.NewID(), CreatedAt: now, Role: session.RoleUser, Content: session.Text(s.Prompt)}},
	}
	if s.PermissionMode != session.PermissionDefault {
		changes = append(changes, session.PermissionModeChanged(s.PermissionMode))
	}
	if s.Plan != nil {
		changes = append(changes, event("plan_created", planEvent{Plan: *s.Plan}))
	}
	moves, _, err := session.TaskMoves(state, begun)
	if err != nil {
		panic("task: settings are no JSON: " + err.Error()) // they are texts and numbers
	}
	return append(changes, moves, session.TaskRowChanged{Task: row})
}

// Start makes a task and works on it: to its end, or to where a person has to
// decide. The row says which. The end of the context interrupts the task,
// which can then be resumed; it is an InterruptedError.
func (x *Executor) Start(ctx context.Context, s Spec) (Row, error) {
	row, err := x.Create(ctx, s)
	if err != nil {
		return row, err
	}
	err = x.hold(ctx, row.ID, func(ctx context.Context, r *Run) error {
		if r.row().Status != Pending {
			return nil // somebody else was faster, and it is theirs
		}
		return x.goOn(ctx, r)
	})
	if errors.Is(err, session.ErrBusy) {
		err = nil
	}
	return x.after(ctx, row.ID, err)
}

// begin moves a task that waited to work.
func (x *Executor) begin(ctx context.Context, r *Run) error {
	status := Planning
	if r.state().Plan != nil {
		status = Executing
	}
	now := millis(x.c.Clock())
	m := edit{changes: x.dropGrants(r), row: func(row *session.TaskRow) { row.Status, row.StartedAt = status, now }}
	if status == Executing {
		m.changes = append(m.changes, event("executing", note{Message: executingText}))
	}
	return r.seal(ctx, "task.begin", m)
}

// after is the row as it stands now, with an error that came before.
func (x *Executor) after(ctx context.Context, id string, failed error) (Row, error) {
	finishing, done := store.Finish(ctx)
	defer done()
	row, err := x.Get(finishing, id)
	return row, errors.Join(failed, err)
}

// Open takes the task's lease and hands out the live owner of its state. What
// fn left in the open tail becomes a version.
func (x *Executor) Open(ctx context.Context, id string, fn func(*Run) error) error {
	return x.holding(ctx, id, holdfast.Wait, func(ctx context.Context, r *Run) error {
		err := fn(r)
		return errors.Join(err, r.sealed(ctx, "task.open"))
	})
}

// hold takes the lease, or says at once that somebody has it.
func (x *Executor) hold(ctx context.Context, id string, fn func(context.Context, *Run) error) error {
	return x.holding(ctx, id, holdfast.Reject, fn)
}

func (x *Executor) holding(ctx context.Context, id string, busy holdfast.Busy, fn func(context.Context, *Run) error) error {
	return x.rt.Hold(ctx, id, func(ctx context.Context, h *holdfast.Hold) error {
		if info := h.Session().Info(); info.Kind != session.KindTask || info.Task == nil {
			return &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%q is a %s, no task", id, info.Kind)}
		}
		r := &Run{x: x, hold: h}
		err := fn(agent.WithoutWriter(ctx), r)
		if ctx.Err() == nil { // what came after the last look
			err = errors.Join(err, x.takeSettings(ctx, r))
		}
		return err
	}, holdfast.OnBusy(busy))
}

// sealed makes a version of what is in the open tail, if there is anything.
func (r *Run) sealed(ctx context.Context, action string) error {
	if !r.session().HasTail() {
		return nil
	}
	return r.seal(ctx, action, edit{})
}

// load reads a task with its open tail.
func (x *Executor) load(ctx context.Context, id string) (session.Session, error) {
	s, err := x.rt.Get(ctx, id, holdfast.WithTail())
	if err != nil {
		return s, err
	}
	if info := s.Info(); info.Kind != session.KindTask || info.Task == nil {
		return s, &session.InvalidError{Field: "session", Reason: fmt.Sprintf("%q is a %s, no task", id, info.Kind)}
	}
	return s, nil
}

// warn tells what a person should know about rules, each thing once.
func (x *Executor) warn(p *permission.Policy) {
	for _, text := range p.Warnings() {
		if _, given := x.warned.LoadOrStore(text, true); !given {
			x.c.Warn("%s", text)
		}
	}
}

// criteria are those of a row, nil for none.
func criteria(row session.TaskRow) *SuccessCriteria {
	var c SuccessCriteria
	if len(row.SuccessCriteria) == 0 || json.Unmarshal(row.SuccessCriteria, &c) != nil {
		return nil
	}
	return &c
}
