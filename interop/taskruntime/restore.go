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

// Kind is the type of the event. Wrapped events carry it in legacyType.
func (e ForeignEvent) Kind() string { return cmp.Or(e.LegacyType, e.Type) }

func (e ForeignEvent) name(index int) string {
	if e.ID != "" {
		return "event " + e.ID
	}
	return fmt.Sprintf("event %d", index+1)
}

// RestoreInput holds the records of a task. Where Log, a log of Holdfast, is
// given, the rest is ignored.
type RestoreInput struct {
	Log        []session.LogEntry
	Events     []ForeignEvent // in their order
	Checkpoint []byte
	Task       RestoreTask
	Options    RestoreOptions
}

// RestoreTask holds what the caller knows of the task's goal.
type RestoreTask struct{ Title, Prompt string }

// RestoreOptions adjust a restore. The zero value is the default.
type RestoreOptions struct {
	KeepApprovals bool          // pending approvals stay pending; else they expire
	Now           int64         // Unix milliseconds; grants that end before are dropped
	NewID         func() string // for messages and for items with a duplicate id; nil: a counter
}

// Values of Report.Source.
const (
	SourceLog              = "log"
	SourceCheckpoint       = "checkpoint_v2"
	SourceSnapshot         = "snapshot_v2"
	SourceLegacyCheckpoint = "checkpoint_legacy"
	SourceLegacySnapshot   = "snapshot_legacy"
	SourceEvents           = "events"
	SourceEmpty            = "empty"
)

// Restored is a task rebuilt from its records.
type Restored struct {
	State    session.TaskState
	Messages []session.Message
	Row      session.TaskRow // title, prompt and status, as the events say
	Report   Report
}

// Report says how a task was restored.
type Report struct {
	Source   string   `json:"source"`
	Seq      int64    `json:"seq"`      // the last change or event that the source covers
	Replayed int      `json:"replayed"` // how many later events were applied
	Upgraded bool     `json:"upgraded"` // the source had an older form
	Repairs  []Repair `json:"repairs,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// RestoreFromEvents rebuilds a task from a checkpoint and events: it takes the
// newest readable snapshot and applies all later events. It writes nothing.
//
// A snapshot with an unknown schema or version is an UnsupportedVersionError, a
// wrong digest a SnapshotError. An unreadable snapshot is skipped with a
// warning; if there is nothing else to restore from, it is a SnapshotError.
func RestoreFromEvents(ctx context.Context, in RestoreInput) (Restored, error) {
	if err := ctx.Err(); err != nil {
		return Restored{}, err
	}
	if len(in.Log) > 0 {
		return restoreLog(in)
	}
	if in.Options.NewID == nil {
		in.Options.NewID = countIDs()
	}
	r := &restorer{RestoreInput: in, events: readEvents(in.Events)}
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
			r.skip(&session.SnapshotError{Where: strings.TrimSuffix(c.where+": "+bad.field, ": "), Reason: bad.reason})
			continue
		}
		if err != nil {
			return Restored{}, err
		}
		return r.restoreSnapshot(c, d), nil
	}
	out := r.rebuild()
	if out.Report.Source == SourceEmpty && r.bad != nil {
		return Restored{}, r.bad
	}
	return out, nil
}

// countIDs returns a source of the ids message-1, message-2 …
func countIDs() func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("message-%d", n)
	}
}

// event is a foreign event with its payload read. An event whose payload is
// not an object has no kind.
type event struct {
	ForeignEvent
	kind string
	data object
}

// readEvents sorts events by their numbers, unless one has no number.
func readEvents(list []ForeignEvent) []event {
	events := make([]event, len(list))
	for i, e := range list {
		events[i] = event{ForeignEvent: e}
		if o, err := readObject(e.Payload); err == nil {
			events[i].kind, events[i].data = e.Kind(), o
		}
	}
	if allNumbered(events) {
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.Seq, b.Seq) })
	}
	return events
}

func allNumbered(events []event) bool {
	return !slices.ContainsFunc(events, func(e event) bool { return e.Seq <= 0 })
}

// restorer is one restore in progress.
type restorer struct {
	RestoreInput
	events   []event
	warnings []string
	bad      error // the first snapshot that could not be read
}

func (r *restorer) skip(err *session.SnapshotError) {
	if r.bad == nil {
		r.bad = err
	}
	r.warnings = append(r.warnings, fmt.Sprintf("%s: %s; the snapshot is skipped", err.Where, err.Reason))
}

// candidate is a snapshot that may be restored.
type candidate struct {
	where  string
	index  int // of its event; -1 for the checkpoint
	legacy bool
	object object
}

// candidates lists the snapshots, the best first: the current format before
// older ones, and the newest first within each.
func (r *restorer) candidates() ([]candidate, error) {
	var found []candidate
	for i, e := range slices.Backward(r.events) {
		if e.Kind() != task.SnapshotEvent {
			continue
		}
		c, err := r.classify(candidate{where: e.name(i), index: i}, e.Payload)
		var unknown *session.UnsupportedVersionError
		switch {
		case errors.As(err, &unknown) && len(found) > 0: // a newer snapshot is there
			r.warnings = append(r.warnings, unknown.Error()+"; the snapshot is skipped")
		case err != nil:
			return nil, err
		case c.object != nil:
			found = append(found, c)
		}
	}
	if len(r.Checkpoint) > 0 {
		c, err := r.classify(candidate{where: "checkpoint", index: -1}, r.Checkpoint)
		if err != nil {
			return nil, err
		}
		if c.object != nil {
			at := slices.IndexFunc(found, func(other candidate) bool { return other.legacy == c.legacy && !r.isNewer(other, c) })
			if at < 0 {
				at = len(found)
			}
			found = slices.Insert(found, at, c)
		}
	}
	isLegacy := func(c candidate) bool { return c.legacy }
	isCurrent := func(c candidate) bool { return !c.legacy }
	return slices.Concat(slices.DeleteFunc(slices.Clone(found), isLegacy), slices.DeleteFunc(found, isCurrent)), nil
}

// classify finds out which format a snapshot has. A value that is no snapshot
// gets a warning and no object.
func (r *restorer) classify(c candidate, value json.RawMessage) (candidate, error) {
	value, err := compactJSON(value)
	var o object
	if err == nil {
		o, err = readObject(value)
	}
	if err != nil {
		r.skip(&session.SnapshotError{Where: c.where, Reason: err.Error()})
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
			r.skip(&session.SnapshotError{Where: c.where + ": conversationHistory", Reason: "is not a list"})
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

// isNewer reports whether a snapshot event was written after the checkpoint: by
// its number, by the event the checkpoint names, or by the clock.
func (r *restorer) isNewer(event, checkpoint candidate) bool {
	a, okA := r.seq(event)
	b, okB := r.seq(checkpoint)
	if okA && okB {
		return a > b
	}
	if at := r.sourceIndex(checkpoint); at >= 0 {
		return event.index > at
	}
	return r.time(event) > r.time(checkpoint)
}

func (r *restorer) seq(c candidate) (int64, bool) {
	if n, ok := c.object.number("seq"); ok {
		return n, true
	}
	if c.index >= 0 {
		n := r.events[c.index].Seq
		return n, n > 0
	}
	return 0, false
}

// sourceIndex finds the event that a checkpoint says it was made after; -1 if
// it names none or an unknown one.
func (r *restorer) sourceIndex(c candidate) int {
	id := c.object.text("sourceEventId")
	if id == "" {
		return -1
	}
	return slices.IndexFunc(r.events, func(e event) bool { return e.ID == id })
}

func (r *restorer) time(c candidate) int64 {
	if n, ok := c.object.number("timestamp"); ok {
		return n
	}
	if c.index >= 0 {
		return r.events[c.index].Timestamp
	}
	return 0
}

// eventsAfter lists the events that a snapshot does not cover.
func (r *restorer) eventsAfter(c candidate) []event {
	if seq, ok := c.object.number("seq"); ok && allNumbered(r.events) && (c.index < 0 || seq <= r.events[c.index].Seq) {
		return slices.DeleteFunc(slices.Clone(r.events), func(e event) bool { return e.Seq <= seq })
	}
	if c.index >= 0 {
		return r.events[c.index+1:]
	}
	if at := r.sourceIndex(c); at >= 0 {
		return r.events[at+1:]
	}
	written := r.time(c)
	if written == 0 && len(r.events) > 0 {
		r.warnings = append(r.warnings, "the checkpoint has neither seq nor timestamp; later events are unknown and none is applied")
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.events), func(e event) bool { return e.Timestamp <= written })
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

// restoreSnapshot builds the task from a snapshot and the events after it.
func (r *restorer) restoreSnapshot(c candidate, d *decoded) Restored {
	out := Restored{Report: Report{Source: c.source(), Upgraded: c.legacy}}
	out.Report.Seq, _ = r.seq(c)
	d.history, out.Report.Repairs = normalise(d.history)
	if d.summary != nil && d.state.Plan == nil {
		d.history = prependPlanSummary(d.history, *d.summary)
	}
	d.fillOutputs(c.legacy)
	if !d.hasUsage {
		d.state.Usage = lastUsage(r.events)
	}
	if d.state.Checklist.UpdatedAt == 0 && len(d.state.Checklist.Items) == 0 {
		if list, ok := lastChecklist(r.events); ok {
			d.state.Checklist = list
		}
	}
	p := replay{state: &d.state, history: d.history, newID: r.Options.NewID, buildsHistory: true}
	out.Report.Replayed = p.apply(r.eventsAfter(c))
	return r.finish(out, d, p)
}

// rebuild builds the task from events alone.
func (r *restorer) rebuild() Restored {
	d := &decoded{state: session.NewTaskState()}
	out := Restored{Report: Report{Source: SourceEvents, Upgraded: true}}
	d.state.Usage = lastUsage(r.events)
	p := replay{state: &d.state, newID: r.Options.NewID}
	out.Report.Replayed = p.apply(r.events)
	d.state.Usage = cmp.Or(lastUsage(r.events), d.state.Usage)
	p.history = summariseEvents(r.Task, r.events, &d.state)
	if len(p.history) == 0 {
		out.Report.Source, out.Report.Upgraded = SourceEmpty, false
	}
	if n := len(r.events); n > 0 {
		out.Report.Seq = r.events[n-1].Seq
	}
	return r.finish(out, d, p)
}

// finish repairs the state and writes the report.
func (r *restorer) finish(out Restored, d *decoded, p replay) Restored {
	report := &out.Report
	report.Warnings = slices.Concat(r.warnings, d.warnings)
	for _, fix := range report.Repairs {
		report.warn("conversationHistory[%d]: %s %s", fix.Message, fix.Kind, fix.ID)
	}
	repair(&d.state, r.Options, report)
	out.State = *d.state.Clone()
	out.Messages = sessionMessages(p.history, r.Options.NewID)
	out.Row = rowFrom(r.Task, r.events)
	return out
}
