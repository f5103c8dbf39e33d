package task

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// defaultImport is how many bytes an import takes unless told otherwise.
const defaultImport = 64 << 20

// ImportOptions adjust an import. Zero values are useful.
type ImportOptions struct {
	ID            string // empty: a new one
	Title, Prompt string // empty: as what is imported says
	Workspace     Workspace
	ExecutionMode string             // empty: as what is imported says, else execute
	Definition    session.Definition // the agent; an empty name is "task"
	KeepApprovals bool               // pending ones stay pending
	MaxBytes      int64              // 0: 64 MiB
}

// Imported is a task that was taken in, and how.
type Imported struct {
	Row    Row    `json:"row"`
	Report Report `json:"report"`
}

// Import makes a task of a snapshot, a checkpoint, or the events of a task as
// a list or as lines of JSON; which it is the content says. The task has a
// session of its own at version 1 and waits to be resumed; one that had ended
// stays so. What waited in its queues is in its inbox.
//
// UnsupportedVersionError and SnapshotError say what cannot be read, and
// ErrTooLarge that it is more than MaxBytes; nothing was made then.
func (x *Executor) Import(ctx context.Context, data []byte, o ImportOptions) (Imported, error) {
	if most := orNumber(o.MaxBytes, defaultImport); int64(len(data)) > most {
		return Imported{}, fmt.Errorf("import of %d bytes, at most %d are taken: %w", len(data), most, session.ErrTooLarge)
	}
	in, err := readImport(data)
	if err != nil {
		return Imported{}, err
	}
	in.Task = RestoreTask{Title: o.Title, Prompt: o.Prompt}
	in.Options = RestoreOptions{KeepApprovals: o.KeepApprovals, Now: millis(x.c.Clock()), NewID: x.c.NewID}
	out, err := RestoreFromEvents(ctx, in)
	if err != nil {
		return Imported{}, err
	}
	if out.Report.Source == SourceEmpty {
		return Imported{}, &session.SnapshotError{Where: "import", Reason: "says nothing of a task"}
	}
	return x.admit(ctx, out, o)
}

// admit makes the session of a restored task.
func (x *Executor) admit(ctx context.Context, out Restored, o ImportOptions) (Imported, error) {
	spec, err := x.checked(specOf(out, o))
	if err != nil {
		return Imported{}, err
	}
	items, lost := queued(out.State.Queues, x.c.NewID)
	out.Report.Warnings = append(out.Report.Warnings, lost...)
	changes, err := x.admission(&out, spec)
	if err != nil {
		return Imported{}, err
	}
	made, err := x.rt.Create(ctx, spec.Definition, holdfast.WithID(spec.ID), holdfast.WithKind(session.KindTask), holdfast.WithChanges(changes...))
	if err != nil {
		return Imported{}, err
	}
	for _, item := range items {
		if _, err := x.rt.Post(ctx, made.ID(), item); err != nil {
			return Imported{}, errors.Join(err, x.rt.Purge(context.WithoutCancel(ctx), made.ID()))
		}
	}
	row, err := rowOf(made.Info())
	return Imported{Row: row, Report: out.Report}, err
}

// specOf is what the imported task is to do.
func specOf(out Restored, o ImportOptions) Spec {
	s := Spec{
		ID: o.ID, Title: orText(o.Title, out.Row.Title), Prompt: orText(o.Prompt, out.Row.Prompt), Workspace: o.Workspace,
		ExecutionMode: orText(o.ExecutionMode, out.Row.ExecutionMode), PermissionMode: out.State.Permissions.Mode, Definition: o.Definition,
	}
	if !slices.Contains(executionModes, s.ExecutionMode) && o.ExecutionMode == "" {
		s.ExecutionMode = ""
	}
	for _, m := range out.Messages { // a snapshot does not say what the task was to do, but its first message does
		if strings.TrimSpace(s.Prompt) == "" && m.Role == session.RoleUser {
			s.Prompt = m.Content.Text()
		}
	}
	s.Prompt = orText(strings.TrimSpace(s.Prompt), orText(strings.TrimSpace(out.State.Transcript.LastUserMessage), "Go on with the imported task."))
	return s
}

// queued are the items of an inbox that queues make, and what could not be
// taken.
func queued(q session.TaskQueues, newID func() string) (items []store.Item, lost []string) {
	add := func(what string, item store.Item, err error) {
		if err != nil {
			lost = append(lost, fmt.Sprintf("queues.%s: %v; it is left out", what, err))
			return
		}
		items = append(items, item)
	}
	for i, f := range q.PendingFollowUps {
		f.ID = orText(f.ID, newID())
		item, err := followUpItem(f)
		add(fmt.Sprintf("pendingFollowUps[%d]", i), item, err)
	}
	for i, f := range feedbackIn(q) {
		f.ID = orText(f.ID, newID())
		item, err := feedbackItem(f)
		add(fmt.Sprintf("feedback[%d]", i), item, err)
	}
	return items, lost
}

// admission is the first version of an imported task: its messages, its state
// and its row. Of a source of an older form it has a snapshot of the present
// one.
func (x *Executor) admission(out *Restored, spec Spec) ([]session.Change, error) {
	now := x.c.Clock()
	changes := []session.Change{}
	for _, m := range out.Messages {
		m.Seq = 0
		changes = append(changes, session.MessageAdded{Message: m})
	}
	if block := out.State.Transcript.ExplicitChatSummaryBlock; block != nil && len(changes) > 0 {
		const first = 2 // behind the session's creation
		changes = append(changes, session.WindowMoved{Strategy: session.PruneSummary, To: first, Summary: &session.Summary{Text: *block, ToSeq: first - 1, CreatedAt: now}})
	}
	out.State.Queues = session.TaskQueues{}
	out.State.Settings = session.TaskSettings{PlanMode: spec.PlanMode, Capabilities: spec.Workspace.Capabilities}
	changes = append(changes, session.SessionImported{Format: out.Report.Source, Version: SnapshotVersion, UpdatedAt: now, Dropped: []string{}}, session.TaskRestored{State: out.State})
	if out.State.Plan != nil {
		changes = append(changes, event("plan_created", map[string]any{"plan": out.State.Plan}))
	}
	if len(out.State.Checklist.Items) > 0 {
		changes = append(changes, event("task_list_created", map[string]any{"checklist": out.State.Checklist}))
	}
	changes = append(changes, session.TaskRowChanged{Task: out.row(spec)})
	if !out.Report.Upgraded {
		return changes, nil
	}
	v := view{sessionID: spec.ID, seq: int64(len(changes)) + 2, now: millis(now), model: spec.Definition.Model, state: out.State}
	v.turns, _ = normalise(turnsOf(out.Messages))
	payload, err := v.payload()
	if err != nil {
		return nil, err
	}
	return append(changes, session.TaskEvent{Name: snapshotEvent, Data: payload}), nil
}

// row is that of an imported task.
func (out *Restored) row(spec Spec) session.TaskRow {
	row := out.Row
	row.Title, row.Prompt, row.ExecutionMode, row.PermissionMode = spec.Title, spec.Prompt, spec.ExecutionMode, spec.PermissionMode
	row.WorkspaceID, row.WorkspacePath = spec.Workspace.ID, spec.Workspace.Root
	row.Run, row.CurrentAttempt, row.MaxAttempts = max(row.Run, 1), max(row.CurrentAttempt, 1), spec.MaxAttempts
	if !Ended(row) {
		row.Status, row.TerminalStatus = Interrupted, TerminalResumeAvailable
	}
	projected := out.State.Projection()
	row.Projection, row.PendingApprovals = &projected, pending(out.State.Approvals)
	return row
}

// readImport finds out what a file holds.
func readImport(data []byte) (RestoreInput, error) {
	var values []json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	for {
		var value json.RawMessage
		err := dec.Decode(&value)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return RestoreInput{}, &session.SnapshotError{Where: fmt.Sprintf("import: value %d", len(values)+1), Reason: "is no JSON: " + err.Error()}
		}
		values = append(values, value)
	}
	if len(values) == 1 && isArray(values[0]) {
		values, _ = array(values[0])
	}
	if len(values) == 0 {
		return RestoreInput{}, &session.SnapshotError{Where: "import", Reason: "is empty"}
	}
	first, err := readObject(values[0])
	if err != nil {
		return RestoreInput{}, &session.SnapshotError{Where: "import", Reason: "holds neither a snapshot nor events"}
	}
	_, history := first.get("conversationHistory")
	_, schema := first.get("schema")
	switch {
	case (history || schema) && len(values) == 1:
		return RestoreInput{Checkpoint: values[0]}, nil
	case first.has("kind") && first.has("data") && first.has("seq"):
		return readLog(values)
	case first.has("type") || first.has("legacyType"):
		return readEvents(values)
	}
	return RestoreInput{}, &session.SnapshotError{Where: "import", Reason: "holds neither a snapshot nor events"}
}

func readLog(values []json.RawMessage) (RestoreInput, error) {
	in := RestoreInput{Log: make([]session.LogEntry, len(values))}
	for i, value := range values {
		if err := json.Unmarshal(value, &in.Log[i]); err != nil {
			return in, &session.SnapshotError{Where: fmt.Sprintf("import: change %d", i+1), Reason: reasonOf(err)}
		}
	}
	return in, nil
}

func readEvents(values []json.RawMessage) (RestoreInput, error) {
	in := RestoreInput{Events: make([]ForeignEvent, len(values))}
	for i, value := range values {
		if err := json.Unmarshal(value, &in.Events[i]); err != nil {
			return in, &session.SnapshotError{Where: fmt.Sprintf("import: event %d", i+1), Reason: reasonOf(err)}
		}
	}
	return in, nil
}
