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

// defaultImport is how many bytes an import takes unless told otherwise.
const defaultImport = 64 << 20

// ImportOptions adjust an import. Zero values are useful.
type ImportOptions struct {
	ID            string // empty: a new one
	Title, Prompt string // empty: as what is imported says
	Workspace     task.Workspace
	ExecutionMode string             // empty: as what is imported says, else execute
	Definition    session.Definition // the agent; an empty name is "task"
	KeepApprovals bool               // pending ones stay pending
	MaxBytes      int64              // 0: 64 MiB
	Now           func() time.Time   // nil: the clock
	NewID         func() string      // of messages; nil: random
}

// Imported is a task that was imported, and how.
type Imported struct {
	Row    task.Row `json:"row"`
	Report Report   `json:"report"`
}

// Import makes a task of a snapshot, a checkpoint, or the events of a task as
// a list or as lines of JSON; the content says which. The task has a session
// of its own at version 1 and waits to be resumed; one that had ended stays
// so. What waited in its queues is in its inbox. What was read is not written.
// Its permissions are kept as far as they deny or ask; the report names the rest.
//
// UnsupportedVersionError and SnapshotError say what cannot be read, and
// ErrTooLarge that it is more than MaxBytes; nothing was made then.
func Import(ctx context.Context, x *task.Executor, data []byte, o ImportOptions) (Imported, error) {
	if most := cmp.Or(o.MaxBytes, defaultImport); int64(len(data)) > most {
		return Imported{}, fmt.Errorf("import of %d bytes, at most %d are taken: %w", len(data), most, session.ErrTooLarge)
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
		return Imported{}, &session.SnapshotError{Where: "import", Reason: "says nothing of a task"}
	}
	out.restrict()
	a := out.arrival(o)
	if out.Report.Upgraded {
		a.Snapshot = func(s task.Spec, state session.TaskState, seq int64) (json.RawMessage, error) {
			v := view{sessionID: s.ID, seq: seq, now: now, model: s.Definition.Model, state: out.State}
			v.state.TaskState = state
			v.turns, _ = normalise(turnsOf(out.Messages))
			return v.payload()
		}
	}
	row, err := x.Admit(ctx, a)
	return Imported{Row: row, Report: out.Report}, err
}

// restrict leaves out what the file would let the task do unasked: whoever
// wrote it decides nothing about this machine.
func (out *Restored) restrict() {
	kept, dropped := out.State.Permissions.ofSession().Restricted()
	prompt := out.State.Permissions.LatestPromptContext
	out.State.Permissions = permissionsOf(kept)
	out.State.Permissions.LatestPromptContext = prompt
	for _, what := range dropped {
		out.Report.warn("%s: an import cannot allow anything; it is left out", what)
	}
}

// arrival is the restored task for an executor. What its queues hold that
// cannot be queued is left out with a warning.
func (out *Restored) arrival(o ImportOptions) task.Arrival {
	a := task.Arrival{
		Spec: out.spec(o), State: out.State.TaskState, Permissions: out.State.Permissions.ofSession(), Row: out.Row, Messages: out.Messages, Format: out.Report.Source, Version: SnapshotVersion,
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

// spec is what the imported task is to do.
func (out *Restored) spec(o ImportOptions) task.Spec {
	s := task.Spec{
		ID: o.ID, Title: cmp.Or(o.Title, out.Row.Title), Prompt: cmp.Or(o.Prompt, out.Row.Prompt), Workspace: o.Workspace,
		ExecutionMode: o.ExecutionMode, PermissionMode: out.State.Permissions.Mode, Definition: o.Definition,
	}
	if mode := out.Row.ExecutionMode; s.ExecutionMode == "" && slices.Contains(task.ExecutionModes(), mode) {
		s.ExecutionMode = mode
	}
	for _, m := range out.Messages { // a snapshot does not say what the task was to do, but its first message does
		if strings.TrimSpace(s.Prompt) == "" && m.Role == session.RoleUser {
			s.Prompt = m.Content.Text()
		}
	}
	s.Prompt = cmp.Or(strings.TrimSpace(s.Prompt), strings.TrimSpace(out.State.Said.User), "Go on with the imported task.")
	return s
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

func readLog(values []json.RawMessage) (in RestoreInput, err error) {
	in.Log, err = readEach[session.LogEntry](values, "change")
	return in, err
}

func readEvents(values []json.RawMessage) (in RestoreInput, err error) {
	in.Events, err = readEach[ForeignEvent](values, "event")
	return in, err
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
