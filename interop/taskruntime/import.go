package taskruntime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

const defaultMaxBytes = 64 << 20

// ImportOptions adjust an import. The zero value is the default.
type ImportOptions struct {
	ID            string // empty: a new one
	Title, Prompt string // empty: as the source says
	Workspace     task.Workspace
	ExecutionMode string             // empty: as the source says, else execute
	Definition    session.Definition // the agent; an empty name is "task"
	KeepApprovals bool               // pending approvals stay pending; else they expire
	MaxBytes      int64              // 0: 64 MiB
	Now           func() time.Time   // nil: the clock
	NewID         func() string      // of messages; nil: random
}

// Imported is an imported task with a report of how it was read.
type Imported struct {
	Row    task.Row `json:"row"`
	Report Report   `json:"report"`
}

// Import creates a task from a snapshot, a checkpoint, or a task's events as a
// JSON list or one JSON value per line; the content says which. The task gets a
// new session at version 1 and waits to be resumed; an ended task stays ended.
// Its queued follow-ups and feedback go to the inbox.
//
// UnsupportedVersionError and SnapshotError name what cannot be read, and
// ErrTooLarge means more than MaxBytes. After an error nothing was created.
func Import(ctx context.Context, x *task.Executor, data []byte, o ImportOptions) (Imported, error) {
	if most := cmp.Or(o.MaxBytes, defaultMaxBytes); int64(len(data)) > most {
		return Imported{}, fmt.Errorf("import of %d bytes, the limit is %d: %w", len(data), most, session.ErrTooLarge)
	}
	in, err := readImport(data)
	if err != nil {
		return Imported{}, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	now := o.Now().UnixMilli()
	in.Task = RestoreTask{Title: o.Title, Prompt: o.Prompt}
	in.Options = RestoreOptions{KeepApprovals: o.KeepApprovals, Now: now, NewID: o.NewID}
	out, err := RestoreFromEvents(ctx, in)
	if err != nil {
		return Imported{}, err
	}
	if out.Report.Source == SourceEmpty {
		return Imported{}, &session.SnapshotError{Where: "import", Reason: "has no events and no history of a task"}
	}
	a := out.toArrival(o)
	if out.Report.Upgraded {
		a.Snapshot = func(s task.Spec, state session.TaskState, seq int64) (json.RawMessage, error) {
			v := view{sessionID: s.ID, seq: seq, now: now, model: s.Definition.Model, state: state}
			v.history, _ = normalise(historyOf(out.Messages))
			return v.payload()
		}
	}
	row, err := x.Admit(ctx, a)
	return Imported{Row: row, Report: out.Report}, err
}

// toArrival makes the input of Executor.Admit. Invalid entries of the queues are
// left out with a warning.
func (out *Restored) toArrival(o ImportOptions) task.Arrival {
	a := task.Arrival{
		Spec: out.spec(o), State: out.State, Row: out.Row, Messages: out.Messages, Format: out.Report.Source, Version: SnapshotVersion,
	}
	if block, ok := out.State.Imported.Get("transcript.explicitChatSummaryBlock"); ok {
		a.Summary = jsonText(block)
	}
	for i, f := range out.State.Queues.FollowUps {
		if err := task.CheckFollowUp(f); err != nil {
			out.Report.warn("queues.pendingFollowUps[%d]: %v; it is left out", i, err)
			continue
		}
		a.Queues.FollowUps = append(a.Queues.FollowUps, f)
	}
	for i, f := range out.State.Queues.Feedback {
		if err := task.CheckFeedback(f); err != nil {
			out.Report.warn("queues.feedback[%d]: %v; it is left out", i, err)
			continue
		}
		a.Queues.Feedback = append(a.Queues.Feedback, f)
	}
	return a
}

func (out *Restored) spec(o ImportOptions) task.Spec {
	s := task.Spec{
		ID: o.ID, Title: cmp.Or(o.Title, out.Row.Title), Prompt: cmp.Or(o.Prompt, out.Row.Prompt), Workspace: o.Workspace,
		ExecutionMode: o.ExecutionMode, PermissionMode: out.State.Permissions.Mode, Definition: o.Definition,
	}
	if mode := out.Row.ExecutionMode; s.ExecutionMode == "" && slices.Contains(task.ExecutionModes(), mode) {
		s.ExecutionMode = mode
	}
	for _, m := range out.Messages { // a snapshot has no prompt, but its first user message is one
		if strings.TrimSpace(s.Prompt) == "" && m.Role == session.RoleUser {
			s.Prompt = m.Content.Text()
		}
	}
	s.Prompt = cmp.Or(strings.TrimSpace(s.Prompt), strings.TrimSpace(out.State.Said.User), "Go on with the imported task.")
	return s
}

// readImport finds out whether data is a snapshot, a log or events.
func readImport(data []byte) (in RestoreInput, err error) {
	var values []json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	for {
		var value json.RawMessage
		err := dec.Decode(&value)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return RestoreInput{}, &session.SnapshotError{Where: fmt.Sprintf("import: value %d", len(values)+1), Reason: "is not JSON: " + err.Error()}
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
		in.Log, err = readEach[session.LogEntry](values, "change")
		return in, err
	case first.has("type") || first.has("legacyType"):
		in.Events, err = readEach[ForeignEvent](values, "event")
		return in, err
	}
	return RestoreInput{}, &session.SnapshotError{Where: "import", Reason: "holds neither a snapshot nor events"}
}

func readEach[T any](values []json.RawMessage, what string) ([]T, error) {
	list := make([]T, len(values))
	for i, value := range values {
		if err := json.Unmarshal(value, &list[i]); err != nil {
			return nil, &session.SnapshotError{Where: fmt.Sprintf("import: %s %d", what, i+1), Reason: reasonOf(err)}
		}
	}
	return list, nil
}
