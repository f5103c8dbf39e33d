package taskruntime_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
)

// nothingMade fails unless the store is as empty as it was.
func (s *site) nothingMade() {
	s.t.Helper()
	page, err := s.rt.List(s.t.Context(), store.Query{Kinds: session.Kinds(), IncludeDeleted: true})
	if err != nil || len(page.Items) != 0 {
		s.t.Errorf("%d sessions were made (%v)", len(page.Items), err)
	}
}

func TestImport_badFilesMakeNothing(t *testing.T) {
	t.Parallel()
	s := importing(t)
	for name, data := range map[string]string{
		"empty": "", "no JSON": "{", "a number": "7", "an empty list": "[]", "another object": `{"hello":1}`, "a list of numbers": "[1]", "lines of which one is broken": `{"type":"log","payload":{}}` + "\n{",
		"a bad bucket": string(put(t, json.RawMessage(foreign), "files", json.RawMessage(`{"filesReadTracker":{}}`))), "cut in the middle": foreign[:len(foreign)/2],
		"two snapshots": foreign + foreign, "events that say nothing": `[{"type":"executing","payload":{}}]`, "a log without a beginning": `{"seq":5,"at":"2026-01-01T00:00:00Z","kind":"executing","data":{},"version":1}`,
		"deep nesting": string(put(t, json.RawMessage(foreign), "skills", json.RawMessage(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)))),
	} {
		_, err := s.importData([]byte(data), taskruntime.ImportOptions{})
		if !errors.Is(err, session.ErrSnapshot) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := s.importData(put(t, json.RawMessage(foreign), "version", json.RawMessage("3")), taskruntime.ImportOptions{})
	if !errors.Is(err, session.ErrUnsupportedVersion) {
		t.Errorf("version 3: %v", err)
	}
	s.nothingMade()
	s.imported(foreign, taskruntime.ImportOptions{}) // the rest still works
}

func TestImport_moreThanIsTakenIsRefused(t *testing.T) {
	t.Parallel()
	s := importing(t)
	big := make([]byte, 100<<20) // as large as a model's window never is
	if _, err := s.importData(big, taskruntime.ImportOptions{}); !errors.Is(err, session.ErrTooLarge) {
		t.Errorf("100 MB: %v", err)
	}
	if _, err := s.importData([]byte(foreign), taskruntime.ImportOptions{MaxBytes: 100}); !errors.Is(err, session.ErrTooLarge) {
		t.Errorf("a small limit: %v", err)
	}
	s.nothingMade()
	text := strings.Repeat("0123456789abcdef", 1<<16)
	large := withHistory(t, fmt.Sprintf(`[{"role":"user","content":%q}]`, text))
	in := s.imported(string(large), taskruntime.ImportOptions{MaxBytes: 4 << 20})
	if have := s.export(in.Row.ID, taskruntime.ExportOptions{}); compacted(t, at(t, have, "conversationHistory")) != compacted(t, at(t, large, "conversationHistory")) {
		t.Errorf("a history of %d bytes came back with %d", len(large), len(have))
	}
}

func TestImport_queuesEnterTheInboxInOrder(t *testing.T) {
	t.Parallel()
	s := importing(t)
	queues := `{"pendingFollowUps":[{"message":"one"},{"message":""},{"message":"two","id":"mine","queuedAt":5}],"stepFeedbackSignal":{"stepId":"1","action":"skip"},"feedback":[{"stepId":"2","action":"retry","message":"again"},{"stepId":"2","action":"odd"}]}`
	in := s.imported(string(put(t, json.RawMessage(foreign), "queues", json.RawMessage(queues))), taskruntime.ImportOptions{ID: "taken-in"})
	items, err := s.rt.Inbox(t.Context(), "taken-in")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, item := range items {
		have = append(have, string(item.Kind))
	}
	if !slices.Equal(have, []string{"follow_up", "follow_up", "step_feedback", "step_feedback"}) || items[1].ID != "mine" {
		t.Errorf("items %v", items)
	}
	q := s.state("taken-in").Queues
	if q.FollowUps[0].Message != "one" || q.FollowUps[1].Message != "two" || q.Feedback[0].Action != "skip" || q.Feedback[1].Message != "again" {
		t.Errorf("queues %s", quote(q))
	}
	if !warned(in.Report, "pendingFollowUps[1]") || !warned(in.Report, "feedback[2]") {
		t.Errorf("warnings %q", in.Report.Warnings)
	}
}

func TestImport_whatHadEndedStaysSo(t *testing.T) {
	t.Parallel()
	begun := `{"type":"task_created","timestamp":1,"payload":{"title":"T","prompt":"P","executionMode":"debug"}},{"type":"user_message","timestamp":2,"payload":{"message":"m"}}`
	for name, tt := range map[string]struct {
		events           string
		status, terminal string
	}{
		"running":   {`{"type":"executing","timestamp":3,"payload":{}}`, task.Interrupted, task.TerminalResumeAvailable},
		"completed": {`{"type":"task_completed","timestamp":3,"payload":{"status":"completed","terminalStatus":"partial_success","completedAt":9,"resultSummary":"S"}}`, task.Completed, "partial_success"},
		"cancelled": {`{"type":"timeline","legacyType":"task_cancelled","timestamp":3,"payload":{}}`, task.Cancelled, ""},
		"failed":    {`{"type":"task_status","timestamp":3,"payload":{"status":"failed","terminalStatus":"failed","failureClass":"unknown"}}`, task.Failed, "failed"},
		"reopened":  {`{"type":"task_completed","timestamp":3,"payload":{}},{"type":"task_resumed","timestamp":4,"payload":{}}`, task.Interrupted, task.TerminalResumeAvailable},
		"paused":    {`{"type":"task_status","timestamp":3,"payload":{"status":"paused","terminalStatus":"needs_user_action"}}`, task.Interrupted, task.TerminalResumeAvailable},
	} {
		s := importing(t)
		in := s.imported("["+begun+","+tt.events+"]", taskruntime.ImportOptions{})
		if in.Row.Status != tt.status || in.Row.TerminalStatus != tt.terminal || in.Row.Title != "T" || in.Row.Prompt != "P" || in.Row.ExecutionMode != "debug" {
			t.Errorf("%s: %+v", name, in.Row)
		}
		if _, err := s.x.Resume(t.Context(), in.Row.ID); (tt.status != task.Interrupted) != errors.Is(err, session.ErrTaskTerminal) {
			t.Errorf("%s: resume %v", name, err)
		}
		if s.state(in.Row.ID).Settings.AutoResume {
			t.Errorf("%s: goes on by itself", name)
		}
	}
}

func TestImport_linesOfJSON(t *testing.T) {
	t.Parallel()
	s := importing(t)
	lines := `{"type":"user_message","payload":{"message":"first"}}` + "\n" + `{"type":"conversation_snapshot","payload":` + compacted(t, []byte(foreign)) + "}\n\n" + `{"type":"user_message","payload":{"message":"later"}}` + "\n"
	in := s.imported("\xef\xbb\xbf"+lines, taskruntime.ImportOptions{})
	if in.Report.Source != taskruntime.SourceSnapshot || in.Report.Replayed != 1 || s.state(in.Row.ID).Said.User != "later" {
		t.Errorf("%+v", in.Report)
	}
}

// A log of Holdfast's own is folded: it is the truth, and a snapshot in it that
// says something else is reported.
func TestRestore_aLogIsTheTruth(t *testing.T) {
	t.Parallel()
	s := importing(t)
	id := s.imported(foreign, taskruntime.ImportOptions{}).Row.ID
	s.with(id, func(r *task.Run) {
		if _, err := r.UpdateChecklist(t.Context(), []task.ItemInput{{ID: "i1", Title: "Mend more", Status: "in_progress"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.SaveSnapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	log := s.log(id, "")
	out := restore(t, taskruntime.RestoreInput{Log: log, Checkpoint: []byte(`{"schema":"ignored"}`)})
	want := s.state(id)
	want.Queues = session.NewTaskState().Queues
	if out.Report.Source != taskruntime.SourceLog || string(quote(out.State.TaskState)) != string(quote(want)) || len(out.Report.Warnings) != 0 || out.Row.Status != task.Interrupted {
		t.Errorf("%+v\nhave %s\nwant %s", out.Report, quote(out.State), quote(want))
	}
	for i, e := range log {
		if e.Change.Kind() == "conversation_snapshot" {
			data := strings.Replace(string(quote(e.Change)), "Mend more", "Mend less", 1)
			log[i].Change = session.TaskEvent{Name: e.Change.Kind(), Data: json.RawMessage(data)}
		}
	}
	out = restore(t, taskruntime.RestoreInput{Log: log})
	if len(out.Report.Warnings) != 1 || !warned(out.Report, "checklist") || out.State.Checklist.Items[0].Title != "Mend more" {
		t.Errorf("%+v", out.Report)
	}
	var lines []string
	for _, e := range s.log(id, "") {
		lines = append(lines, string(quote(e)))
	}
	in := s.imported(strings.Join(lines, "\n"), taskruntime.ImportOptions{ID: "copy"})
	if in.Report.Source != taskruntime.SourceLog {
		t.Errorf("%+v", in.Report)
	}
	samePayload(t, s.export("copy", taskruntime.ExportOptions{}), s.export(id, taskruntime.ExportOptions{}), "sessionId", "seq", "queues")
}

func TestImport_aSummaryIsShownToTheModel(t *testing.T) {
	t.Parallel()
	s := importing(t)
	raw := put(t, json.RawMessage(foreign), "transcript", put(t, at(t, json.RawMessage(foreign), "transcript"), "explicitChatSummaryBlock", quote("what was before")))
	in := s.imported(string(raw), taskruntime.ImportOptions{})
	got, err := s.rt.Get(t.Context(), in.Row.ID)
	if err != nil {
		t.Fatal(err)
	}
	if w := got.Window(); w.Summary == nil || w.Summary.Text != "what was before" || len(got.WindowMessages()) != 10 {
		t.Errorf("window %+v with %d messages", w, len(got.WindowMessages()))
	}
	samePayload(t, s.export(in.Row.ID, taskruntime.ExportOptions{}), raw, "permissions", "queues")
}

// A snapshot says what its task may do unasked. Whoever wrote the file does not
// decide that here.
func TestImport_bringsNoPermission(t *testing.T) {
	t.Parallel()
	s := importing(t)
	in, err := s.importData(put(t, json.RawMessage(foreign), "permissions", json.RawMessage(`{"mode":"bypass_permissions",
		"sessionRules":[{"source":"session","effect":"allow","scope":{"kind":"tool","toolName":"shell"}},{"source":"session","effect":"deny","scope":{"kind":"tool","toolName":"http_get"}}],
		"temporaryGrants":[["tool:shell",{"grantedAt":99999999999999,"survivesRestart":true}]],"denialTracking":[],"latestPromptContext":null}`)), taskruntime.ImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.rt.Get(t.Context(), in.Row.ID)
	if err != nil {
		t.Fatal(err)
	}
	p := got.Permissions()
	if p.Mode != "default" || in.Row.PermissionMode != "default" || len(p.SessionRules) != 1 || p.SessionRules[0].Effect != "deny" || p.TemporaryGrants.Len() != 0 {
		t.Errorf("the task may %+v", p)
	}
	told := strings.Join(in.Report.Warnings, "\n")
	for _, want := range []string{"bypass_permissions", "allow:", "tool:shell"} {
		if !strings.Contains(told, want) {
			t.Errorf("the report does not name %s: %q", want, told)
		}
	}
}
