package taskruntime

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// restoreLog folds a log of Holdfast's. Its newest snapshot is held against
// the fold, which is the truth.
func restoreLog(in RestoreInput) (Restored, error) {
	records := make([]session.Record, len(in.Log))
	newest := -1
	for i, e := range in.Log {
		records[i] = e.Record
		if e.Change.Kind() == task.SnapshotEvent && !e.Discarded {
			newest = i
		}
	}
	s, err := session.Fold(records)
	if err != nil {
		return Restored{}, &session.SnapshotError{Where: "log", Reason: err.Error()}
	}
	info := s.Info()
	if info.Kind != session.KindTask {
		return Restored{}, &session.SnapshotError{Where: "log", Reason: fmt.Sprintf("is that of a %s, no task", info.Kind)}
	}
	out := Restored{State: stateOf(s), Messages: s.WindowMessages(), Report: Report{Source: SourceLog, Seq: s.Seq()}}
	if info.Task != nil {
		out.Row = *info.Task
	}
	if newest >= 0 {
		before, err := session.Fold(records[:newest])
		if err == nil {
			compare(before, records[newest], &out.Report)
		}
	}
	return out, nil
}

// compare warns of buckets in which a snapshot says something else than the
// log before it. Queues are no part of a log, and times and sizes no part of
// the task.
func compare(s session.Session, r session.Record, report *Report) {
	e, ok := r.Change.(session.TaskEvent)
	if !ok {
		return
	}
	have, err := readObject(e.Data)
	if err != nil {
		return
	}
	payload, err := viewOf(task.View{Session: s, Seq: r.Seq}).payload()
	if err != nil {
		return
	}
	want, err := readObject(payload)
	if err != nil {
		return
	}
	for _, m := range want {
		switch m.key {
		case "queues", "timestamp", "digest", "estimatedSizeBytes", "modelId", "modelKey", "resolvedModelKey":
			continue
		}
		if value, _ := have.get(m.key); !bytes.Equal(value, m.value) {
			report.warn("snapshot %d: %s differs from the log, which counts", r.Seq, m.key)
		}
	}
}

// rowFrom is what events say of how a task stands.
func rowFrom(t RestoreTask, events []ForeignEvent) session.TaskRow {
	row := session.TaskRow{Title: t.Title, Prompt: t.Prompt}
	for _, e := range events {
		o, err := readObject(e.Payload)
		if err != nil {
			continue
		}
		switch e.Kind() {
		case "task_created":
			row.Title, row.Prompt = cmp.Or(row.Title, o.text("title")), cmp.Or(row.Prompt, o.text("prompt"))
			row.ExecutionMode = o.text("executionMode")
		case "task_completed":
			row.Status = cmp.Or(o.text("status"), task.Completed)
			row.TerminalStatus, row.FailureClass, row.ResultSummary = cmp.Or(o.text("terminalStatus"), task.TerminalOK), o.text("failureClass"), o.text("resultSummary")
			row.CompletedAt = e.Timestamp
			if n, ok := o.number("completedAt"); ok && n > 0 {
				row.CompletedAt = n
			}
			if value, ok := o.get("stopReasons"); ok {
				_ = json.Unmarshal(value, &row.StopReasons) // what is no list says nothing
			}
		case "task_status":
			if status := o.text("status"); status != "" {
				row.Status, row.TerminalStatus, row.FailureClass, row.Error = status, o.text("terminalStatus"), o.text("failureClass"), o.text("error")
				row.CompletedAt = 0
				if task.Ended(session.TaskRow{Status: status}) {
					row.CompletedAt = e.Timestamp
				}
			}
		case "task_cancelled":
			row.Status, row.TerminalStatus, row.CompletedAt = task.Cancelled, "", e.Timestamp
		case "task_resumed", "executing":
			row.Status, row.TerminalStatus, row.FailureClass, row.Error, row.CompletedAt, row.StopReasons = task.Executing, "", "", "", 0, nil
		}
	}
	return row
}
