package session

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Change is one typed fact of a session's log. The set is closed: only this
// package implements it, and each kind's JSON form is for ever.
type Change interface {
	// Kind is the name of the change in JSON.
	Kind() string
	// normal is a deep copy as a log keeps it, or the reason to refuse it.
	normal() (Change, error)
	// fold applies the change to a private copy of a session's body.
	fold(b *body, at recordTime) error
}

// recordTime is where and when a change stands in the log.
type recordTime struct {
	seq int64
	at  time.Time
}

// Record is a change with its place in the log.
type Record struct {
	Seq    int64
	At     time.Time
	Change Change
}

// LogEntry is a record as a log shows it. Version is the version it was
// sealed into, 0 while it is in the open tail. Discarded changes were never
// part of a version's state.
type LogEntry struct {
	Record
	Version   int64
	Discarded bool
}

type wireRecord struct {
	Seq       int64           `json:"seq"`
	At        time.Time       `json:"at"`
	Kind      string          `json:"kind"`
	Data      json.RawMessage `json:"data"`
	Version   *int64          `json:"version,omitempty"`
	Discarded bool            `json:"discarded,omitempty"`
}

// MarshalJSON writes {"seq","at","kind","data"}.
func (r Record) MarshalJSON() ([]byte, error) {
	w := r.written()
	w.close()
	return w.done()
}

// written is the record up to the end of its data.
func (r Record) written() *writer {
	added, isMessage := r.Change.(MessageAdded)
	w := &writer{b: make([]byte, 0, 512+len(added.Message.Content.Text()))}
	w.open()
	w.number("seq", r.Seq)
	w.time("at", r.At)
	w.text("kind", r.Change.Kind())
	if !isMessage {
		w.any("data", r.Change)
		return w
	}
	w.key("data")
	w.open()
	w.key("message")
	w.message(&added.Message)
	w.close()
	return w
}

// UnmarshalJSON refuses unknown kinds as NewerFormatError and unknown fields
// as InvalidError.
func (r *Record) UnmarshalJSON(data []byte) error {
	if scanned, ok := scanRecord(data); ok {
		*r = scanned
		return nil
	}
	return r.decode(data)
}

// decode reads a record in any form of JSON.
func (r *Record) decode(data []byte) error {
	var w wireRecord
	if err := DecodeStrict("record", data, &w); err != nil {
		return err
	}
	if w.Version != nil || w.Discarded {
		return invalid("record", "version and discarded belong to a log entry")
	}
	return r.fromWire(w)
}

// MarshalJSON writes a record with "version" and, where true, "discarded".
func (e LogEntry) MarshalJSON() ([]byte, error) {
	w := e.written()
	w.number("version", e.Version)
	w.flagIf("discarded", e.Discarded)
	w.close()
	return w.done()
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *LogEntry) UnmarshalJSON(data []byte) error {
	var w wireRecord
	if err := DecodeStrict("entry", data, &w); err != nil {
		return err
	}
	if w.Version != nil {
		e.Version = *w.Version
	}
	e.Discarded = w.Discarded
	return e.fromWire(w)
}

func (r *Record) fromWire(w wireRecord) error {
	change, err := decodeChange(w.Kind, w.Data)
	if err != nil {
		return err
	}
	decoded := Record{Seq: w.Seq, At: Instant(w.At), Change: change}
	if err := decoded.check(); err != nil {
		return err
	}
	*r = decoded
	return nil
}

// check refuses a number that no record can have.
func (r Record) check() error {
	if r.Seq < 1 || r.Seq >= maxSeq {
		return invalid("record.seq", "%d is not between 1 and %d", r.Seq, int64(maxSeq)-1)
	}
	if added, ok := r.Change.(MessageAdded); ok && added.Message.Seq != r.Seq {
		return invalid("record.seq", "message %s says seq %d in record %d", quoted(added.Message.ID), added.Message.Seq, r.Seq)
	}
	return nil
}

// decoders has one entry for each kind of change.
var decoders = map[string]func([]byte) (Change, error){
	"session_created":         decoderOf[SessionCreated],
	"session_forked":          decoderOf[SessionForked],
	"session_imported":        decoderOf[SessionImported],
	"session_rewound":         decoderOf[SessionRewound],
	"status_changed":          decoderOf[StatusChanged],
	"name_changed":            decoderOf[NameChanged],
	"session_titled":          decoderOf[SessionTitled],
	"expiry_changed":          decoderOf[ExpiryChanged],
	"metadata_written":        decoderOf[MetadataWritten],
	"metadata_removed":        decoderOf[MetadataRemoved],
	"variable_stored":         decoderOf[VariableStored],
	"variable_deleted":        decoderOf[VariableDeleted],
	"system_prompt_changed":   decoderOf[SystemPromptChanged],
	"model_changed":           decoderOf[ModelChanged],
	"response_format_changed": decoderOf[ResponseFormatChanged],
	"message_added":           decoderOf[MessageAdded],
	"transcript_cleared":      decoderOf[TranscriptCleared],
	"window_moved":            decoderOf[WindowMoved],
	"execution_started":       decoderOf[ExecutionStarted],
	"execution_continued":     decoderOf[ExecutionContinued],
	"inference_answered":      decoderOf[InferenceAnswered],
	"inference_failed":        decoderOf[InferenceFailed],
	"tool_started":            decoderOf[ToolStarted],
	"tool_finished":           decoderOf[ToolFinished],
	"step_finished":           decoderOf[StepFinished],
	"call_pending":            decoderOf[CallPending],
	"call_responded":          decoderOf[CallResponded],
	"execution_waiting":       decoderOf[ExecutionWaiting],
	"permission_noted":        decoderOf[PermissionNoted],
	"execution_finished":      decoderOf[ExecutionFinished],
	"inbox_taken":             decoderOf[InboxTaken],
	"tail_discarded":          decoderOf[TailDiscarded],
	"task_row_changed":        decoderOf[TaskRowChanged],
	"task_state_changed":      decoderOf[TaskStateChanged],
	"task_restored":           decoderOf[TaskRestored],
	"workflow_row_changed":    decoderOf[WorkflowRowChanged],
	"workflow_begun":          decoderOf[WorkflowBegun],
	"workflow_spec_changed":   decoderOf[WorkflowSpecChanged],
	"unit_started":            decoderOf[UnitStarted],
	"unit_advanced":           decoderOf[UnitAdvanced],
	"unit_finished":           decoderOf[UnitFinished],
	"unit_failed":             decoderOf[UnitFailed],
	"units_reset":             decoderOf[UnitsReset],
	"question_put":            decoderOf[QuestionPut],
	"question_answered":       decoderOf[QuestionAnswered],
	"artifact_written":        decoderOf[ArtifactWritten],
	"budget_warned":           decoderOf[BudgetWarned],
}

// decoder finds how a kind of change is read.
func decoder(kind string) (func([]byte) (Change, error), bool) {
	if decode, ok := decoders[kind]; ok {
		return decode, true
	}
	if _, ok := taskEvents[kind]; ok {
		return func(data []byte) (Change, error) { return TaskEvent{Name: kind, Data: data}.normal() }, true
	}
	return nil, false
}

// ChangeKinds lists every kind of change, sorted.
func ChangeKinds() []string {
	kinds := TaskEventNames()
	for kind := range decoders {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

func decoderOf[T Change](data []byte) (Change, error) {
	var c T
	if err := DecodeStrict(c.Kind(), data, &c); err != nil {
		return nil, err
	}
	return c.normal()
}

func decodeChange(kind string, data []byte) (Change, error) {
	decode, ok := decoder(kind)
	if !ok {
		return nil, &NewerFormatError{What: "change kind", Have: quoted(kind), Know: strings.Join(ChangeKinds(), ", ")}
	}
	if len(data) == 0 || data[0] != '{' {
		return nil, invalid("record.data", "of kind %s is not an object", kind)
	}
	return decode(data)
}
