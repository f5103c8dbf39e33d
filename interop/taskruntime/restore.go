package taskruntime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// ForeignEvent is an event of a task that another program wrote.
type ForeignEvent struct {
	ID         string          `json:"id,omitempty"`
	Seq        int64           `json:"seq,omitempty"`
	Timestamp  int64           `json:"timestamp"`
	Type       string          `json:"type"`
	LegacyType string          `json:"legacyType,omitempty"`
	Payload    json.RawMessage `json:"payload"`
}

// Kind is what the event says happened. Wrapped events carry it in legacyType.
func (e ForeignEvent) Kind() string { return cmp.Or(e.LegacyType, e.Type) }

// name says which event it is.
func (e ForeignEvent) name(index int) string {
	if e.ID != "" {
		return "event " + e.ID
	}
	return fmt.Sprintf("event %d", index+1)
}

// RestoreInput is what is left of a task. With a log of Holdfast's nothing
// else is looked at.
type RestoreInput struct {
	Log        []session.LogEntry
	Events     []ForeignEvent // in their order
	Checkpoint []byte
	Task       RestoreTask
	Options    RestoreOptions
}

// RestoreTask is what the task was to do.
type RestoreTask struct{ Title, Prompt string }

// RestoreOptions adjust a restore. Zero values are useful.
type RestoreOptions struct {
	KeepApprovals bool          // pending ones stay pending; else they expire
	Now           int64         // Unix milliseconds; what is over by then goes
	NewID         func() string // of messages, and of items whose id is taken; nil: counted
}

// Where a restored task came from.
const (
	SourceLog              = "log"
	SourceCheckpoint       = "checkpoint_v2"
	SourceSnapshot         = "snapshot_v2"
	SourceLegacyCheckpoint = "checkpoint_legacy"
	SourceLegacySnapshot   = "snapshot_legacy"
	SourceEvents           = "events"
	SourceEmpty            = "empty"
)

// Restored is a task made of what was left of it.
type Restored struct {
	State    State
	Messages []session.Message
	Row      session.TaskRow // what the events say of how it stands
	Report   Report
}

// Report says how a task was restored.
type Report struct {
	Source   string   `json:"source"`
	Seq      int64    `json:"seq"`      // of the last change or event that the source covers
	Replayed int      `json:"replayed"` // events after it
	Upgraded bool     `json:"upgraded"` // the source had an older form
	Repairs  []Repair `json:"repairs,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// RestoreFromEvents makes a task of a checkpoint and events: of the newest
// snapshot that can be read, with everything that happened after it on top. It
// writes nothing.
//
// A snapshot of a form that is not known is an UnsupportedVersionError, one
// that was tampered with a SnapshotError. One that cannot be read is passed
// over with a warning; where nothing else is left it is a SnapshotError.
func RestoreFromEvents(ctx context.Context, in RestoreInput) (Restored, error) {
	if err := ctx.Err(); err != nil {
		return Restored{}, err
	}
	if len(in.Log) > 0 {
		return restoreLog(in)
	}
	if in.Options.NewID == nil {
		in.Options.NewID = counted()
	}
	r := &restorer{RestoreInput: in}
	r.Events = inOrder(in.Events)
	candidates, err := r.candidates()
	if err != nil {
		return Restored{}, err
	}
	for _, c := range candidates {
		if err := checkDigest(c.where, c.object); err != nil {
			return Restored{}, err
		}
		d, err := c.decode()
		var bad *fieldError
		if errors.As(err, &bad) {
			r.failed(&session.SnapshotError{Where: strings.TrimSuffix(c.where+": "+bad.field, ": "), Reason: bad.reason})
			continue
		}
		if err != nil {
			return Restored{}, err
		}
		return r.restored(c, d), nil
	}
	out := r.rebuilt()
	if out.Report.Source == SourceEmpty && r.bad != nil {
		return Restored{}, r.bad
	}
	return out, nil
}

// counted names things message-1, message-2 …
func counted() func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("message-%d", n)
	}
}

// inOrder sorts events by their numbers, where all have one.
func inOrder(events []ForeignEvent) []ForeignEvent {
	events = slices.Clone(events)
	if slices.ContainsFunc(events, func(e ForeignEvent) bool { return e.Seq <= 0 }) {
		return events
	}
	slices.SortStableFunc(events, func(a, b ForeignEvent) int { return int(max(min(a.Seq-b.Seq, 1), -1)) })
	return events
}

// restorer is one restore under way.
type restorer struct {
	RestoreInput
	warnings []string
	bad      error // the first snapshot that could not be read
}

func (r *restorer) failed(err *session.SnapshotError) {
	if r.bad == nil {
		r.bad = err
	}
	r.warnings = append(r.warnings, fmt.Sprintf("%s: %s; it is passed over", err.Where, err.Reason))
}

// candidate is a snapshot that may be restored.
type candidate struct {
	where  string
	index  int // of its event; -1: the checkpoint
	legacy bool
	object object
}

// candidates are the snapshots there are, the best first: those of the present
// form before older ones, and of each form the newest first.
func (r *restorer) candidates() ([]candidate, error) {
	var found []candidate
	for i := len(r.Events) - 1; i >= 0; i-- {
		e := r.Events[i]
		if e.Kind() != task.SnapshotEvent {
			continue
		}
		c, err := r.classified(candidate{where: e.name(i), index: i}, e.Payload)
		var unknown *session.UnsupportedVersionError
		switch {
		case errors.As(err, &unknown) && len(found) > 0: // an older one, which nobody needs
			r.warnings = append(r.warnings, unknown.Error()+"; it is passed over")
		case err != nil:
			return nil, err
		case c.object != nil:
			found = append(found, c)
		}
	}
	if len(r.Checkpoint) > 0 {
		c, err := r.classified(candidate{where: "checkpoint", index: -1}, r.Checkpoint)
		if err != nil {
			return nil, err
		}
		if c.object != nil {
			at := slices.IndexFunc(found, func(other candidate) bool { return other.legacy == c.legacy && !r.newer(other, c) })
			if at < 0 {
				at = len(found)
			}
			found = slices.Insert(found, at, c)
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		switch {
		case a.legacy == b.legacy:
			return 0
		case b.legacy:
			return -1
		}
		return 1
	})
	return found, nil
}

// classified reads which form a snapshot has. One that is no snapshot is
// warned of and has no object.
func (r *restorer) classified(c candidate, value json.RawMessage) (candidate, error) {
	value, err := compactJSON(value)
	var o object
	if err == nil {
		o, err = readObject(value)
	}
	if err != nil {
		r.failed(&session.SnapshotError{Where: c.where, Reason: err.Error()})
		return c, nil
	}
	schema, hasSchema := o.get("schema")
	version, hasVersion := o.get("version")
	switch {
	case jsonText(schema) == SnapshotSchema && isTwo(version):
	case hasSchema || hasVersion:
		return c, &session.UnsupportedVersionError{Schema: jsonText(schema), Version: string(version), Where: c.where}
	default:
		c.legacy = true
		if value, _ := o.get("conversationHistory"); !isArray(value) {
			r.failed(&session.SnapshotError{Where: c.where + ": conversationHistory", Reason: "is not a list"})
			return c, nil
		}
	}
	c.object = o
	return c, nil
}

func isTwo(version json.RawMessage) bool {
	var n *float64
	return json.Unmarshal(version, &n) == nil && n != nil && *n == SnapshotVersion
}

func isArray(value json.RawMessage) bool { return len(value) > 0 && value[0] == '[' }

// newer reports a snapshot event that was written after the checkpoint: by its
// number, by the event the checkpoint names, or by the clock.
func (r *restorer) newer(event, checkpoint candidate) bool {
	a, okA := r.seq(event)
	b, okB := r.seq(checkpoint)
	if okA && okB {
		return a > b
	}
	if at := r.sourceOf(checkpoint); at >= 0 {
		return event.index > at
	}
	return r.time(event) > r.time(checkpoint)
}

func (r *restorer) seq(c candidate) (int64, bool) {
	if n, ok := c.object.number("seq"); ok {
		return n, true
	}
	if c.index >= 0 && r.Events[c.index].Seq > 0 {
		return r.Events[c.index].Seq, true
	}
	return 0, false
}

// sourceOf is the place of the event that a checkpoint was made after, -1
// where it names none that is here.
func (r *restorer) sourceOf(c candidate) int {
	id := c.object.text("sourceEventId")
	if id == "" {
		return -1
	}
	return slices.IndexFunc(r.Events, func(e ForeignEvent) bool { return e.ID == id })
}

func (r *restorer) time(c candidate) int64 {
	if n, ok := c.object.number("timestamp"); ok {
		return n
	}
	if c.index >= 0 {
		return r.Events[c.index].Timestamp
	}
	return 0
}

// after are the events that a snapshot does not cover.
func (r *restorer) after(c candidate) []ForeignEvent {
	numbered := len(r.Events) > 0 && !slices.ContainsFunc(r.Events, func(e ForeignEvent) bool { return e.Seq <= 0 })
	if seq, ok := c.object.number("seq"); ok && numbered && (c.index < 0 || seq <= r.Events[c.index].Seq) {
		return slices.DeleteFunc(slices.Clone(r.Events), func(e ForeignEvent) bool { return e.Seq <= seq })
	}
	if c.index >= 0 {
		return r.Events[c.index+1:]
	}
	if at := r.sourceOf(c); at >= 0 {
		return r.Events[at+1:]
	}
	made := r.time(c)
	if made == 0 && len(r.Events) > 0 {
		r.warnings = append(r.warnings, "the checkpoint does not say when it was made; no event is replayed")
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Events), func(e ForeignEvent) bool { return e.Timestamp <= made })
}

func (c candidate) source() string {
	switch {
	case c.legacy && c.index < 0:
		return SourceLegacyCheckpoint
	case c.legacy:
		return SourceLegacySnapshot
	case c.index < 0:
		return SourceCheckpoint
	}
	return SourceSnapshot
}

// restored is what a snapshot and the events after it make.
func (r *restorer) restored(c candidate, d *decoded) Restored {
	out := Restored{Report: Report{Source: c.source(), Upgraded: c.legacy}}
	out.Report.Seq, _ = r.seq(c)
	d.turns, out.Report.Repairs = normalise(d.turns)
	if d.summary != nil && d.state.Plan == nil {
		d.turns = withContext(d.turns, *d.summary)
	}
	d.fillOutputs(c.legacy)
	if !d.used {
		d.state.Usage = lastUsage(r.Events)
	}
	if d.state.Checklist.UpdatedAt == 0 && len(d.state.Checklist.Items) == 0 {
		if list, ok := lastChecklist(r.Events); ok {
			d.state.Checklist = list
		}
	}
	p := replay{state: &d.state, turns: d.turns, newID: r.Options.NewID, speak: true}
	out.Report.Replayed = p.all(r.after(c))
	return r.finished(out, d, p)
}

// rebuilt is what events alone make.
func (r *restorer) rebuilt() Restored {
	d := &decoded{state: newState()}
	out := Restored{Report: Report{Source: SourceEvents, Upgraded: true}}
	d.state.Usage = lastUsage(r.Events)
	p := replay{state: &d.state, newID: r.Options.NewID}
	out.Report.Replayed = p.all(r.Events)
	if usage := lastUsage(r.Events); usage != (session.TaskUsage{}) {
		d.state.Usage = usage
	}
	p.turns = readable(r.Task, r.Events, &d.state)
	if len(p.turns) == 0 {
		out.Report.Source, out.Report.Upgraded = SourceEmpty, false
	}
	if n := len(r.Events); n > 0 {
		out.Report.Seq = r.Events[n-1].Seq
	}
	return r.finished(out, d, p)
}

// finished repairs what is left to repair.
func (r *restorer) finished(out Restored, d *decoded, p replay) Restored {
	report := &out.Report
	report.Warnings = slices.Concat(r.warnings, d.warnings)
	for _, fix := range report.Repairs {
		report.warn("conversationHistory[%d]: %s %s", fix.Message, fix.Kind, fix.ID)
	}
	repair(&d.state, r.Options, report)
	out.State = d.state.clone()
	out.Messages = messagesOf(p.turns, r.Options.NewID)
	out.Row = rowFrom(r.Task, r.Events)
	return out
}
