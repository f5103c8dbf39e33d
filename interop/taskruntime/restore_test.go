package taskruntime_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/session"
)

func restore(t *testing.T, in taskruntime.RestoreInput) taskruntime.Restored {
	t.Helper()
	out, err := taskruntime.RestoreFromEvents(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// said is a foreign event.
func said(kind, payload string) taskruntime.ForeignEvent {
	return taskruntime.ForeignEvent{Type: kind, Payload: json.RawMessage(payload)}
}

// snapshot is a foreign event that carries a payload.
func snapshot(payload json.RawMessage) taskruntime.ForeignEvent {
	return taskruntime.ForeignEvent{Type: "conversation_snapshot", Payload: payload}
}

// v2 is a snapshot in which the user said a text last.
func v2(t *testing.T, text string) json.RawMessage {
	t.Helper()
	raw := put(t, json.RawMessage(foreign), "conversationHistory", quote([]any{map[string]any{"role": "user", "content": text}}))
	return put(t, raw, "timestamp", json.RawMessage("100"))
}

func legacy(text string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"conversationHistory":[{"role":"user","content":%s}],"timestamp":100}`, quote(text)))
}

func texts(messages []session.Message) []string {
	var list []string
	for _, m := range messages {
		switch {
		case m.ToolResult != nil:
			list = append(list, "result:"+m.ToolResult.CallID+":"+m.ToolResult.Content)
		default:
			line := string(m.Role) + ":" + m.Content.Text()
			for _, c := range m.ToolCalls {
				line += " call:" + c.ID
			}
			list = append(list, line)
		}
	}
	return list
}

func warned(r taskruntime.Report, about string) bool {
	return slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, about) })
}

func TestRestore_theNewestOfTheBestFormWins(t *testing.T) {
	t.Parallel()
	numbered := func(seq int64, e taskruntime.ForeignEvent) taskruntime.ForeignEvent {
		e.Seq = seq
		return e
	}
	named := func(id string, e taskruntime.ForeignEvent) taskruntime.ForeignEvent {
		e.ID = id
		return e
	}
	withSeq := func(seq int, raw json.RawMessage) json.RawMessage { return put(t, raw, "seq", quote(seq)) }
	from := func(id string, raw json.RawMessage) json.RawMessage { return put(t, raw, "sourceEventId", quote(id)) }
	dated := func(at int, raw json.RawMessage) json.RawMessage { return put(t, raw, "timestamp", quote(at)) }
	for name, tt := range map[string]struct {
		checkpoint     json.RawMessage
		events         []taskruntime.ForeignEvent
		source, spoken string
	}{
		"checkpoint alone":           {v2(t, "c"), nil, taskruntime.SourceCheckpoint, "c"},
		"snapshot alone":             {nil, []taskruntime.ForeignEvent{snapshot(v2(t, "old")), snapshot(v2(t, "s"))}, taskruntime.SourceSnapshot, "s"},
		"newer snapshot by number":   {withSeq(3, v2(t, "c")), []taskruntime.ForeignEvent{numbered(5, snapshot(v2(t, "s")))}, taskruntime.SourceSnapshot, "s"},
		"newer checkpoint by number": {withSeq(7, v2(t, "c")), []taskruntime.ForeignEvent{numbered(5, snapshot(v2(t, "s")))}, taskruntime.SourceCheckpoint, "c"},
		"equal numbers":              {withSeq(5, v2(t, "c")), []taskruntime.ForeignEvent{numbered(5, snapshot(v2(t, "s")))}, taskruntime.SourceCheckpoint, "c"},
		"number before time":         {dated(1, withSeq(7, v2(t, "c"))), []taskruntime.ForeignEvent{numbered(5, snapshot(dated(999, v2(t, "s"))))}, taskruntime.SourceCheckpoint, "c"},
		"checkpoint made before the snapshot": {
			from("a", dated(999, v2(t, "c"))), []taskruntime.ForeignEvent{named("a", said("executing", `{}`)), named("b", snapshot(v2(t, "s")))}, taskruntime.SourceSnapshot, "s"},
		"checkpoint made after the snapshot": {
			from("b", dated(1, v2(t, "c"))), []taskruntime.ForeignEvent{named("a", snapshot(v2(t, "s"))), named("b", said("executing", `{}`))}, taskruntime.SourceCheckpoint, "c"},
		"newer snapshot by time":      {dated(5, v2(t, "c")), []taskruntime.ForeignEvent{snapshot(dated(6, v2(t, "s")))}, taskruntime.SourceSnapshot, "s"},
		"newer checkpoint by time":    {dated(7, v2(t, "c")), []taskruntime.ForeignEvent{snapshot(dated(6, v2(t, "s")))}, taskruntime.SourceCheckpoint, "c"},
		"equal times":                 {dated(6, v2(t, "c")), []taskruntime.ForeignEvent{snapshot(dated(6, v2(t, "s")))}, taskruntime.SourceCheckpoint, "c"},
		"old form loses":              {dated(999, legacy("c")), []taskruntime.ForeignEvent{snapshot(dated(1, v2(t, "s")))}, taskruntime.SourceSnapshot, "s"},
		"old form loses at last":      {dated(1, v2(t, "c")), []taskruntime.ForeignEvent{snapshot(dated(999, legacy("s")))}, taskruntime.SourceCheckpoint, "c"},
		"old checkpoint":              {legacy("c"), nil, taskruntime.SourceLegacyCheckpoint, "c"},
		"old snapshot":                {nil, []taskruntime.ForeignEvent{snapshot(legacy("s"))}, taskruntime.SourceLegacySnapshot, "s"},
		"newer of the old":            {dated(1, legacy("c")), []taskruntime.ForeignEvent{snapshot(dated(2, legacy("s")))}, taskruntime.SourceLegacySnapshot, "s"},
		"wrapped snapshot":            {nil, []taskruntime.ForeignEvent{{Type: "timeline", LegacyType: "conversation_snapshot", Payload: v2(t, "s")}}, taskruntime.SourceSnapshot, "s"},
		"bad checkpoint":              {put(t, v2(t, "c"), "loop", json.RawMessage(`[]`)), []taskruntime.ForeignEvent{snapshot(dated(1, v2(t, "s")))}, taskruntime.SourceSnapshot, "s"},
		"bad newest":                  {nil, []taskruntime.ForeignEvent{snapshot(v2(t, "old")), snapshot(put(t, v2(t, "s"), "tooling", nil))}, taskruntime.SourceSnapshot, "old"},
		"bad ones before an old form": {put(t, v2(t, "c"), "queues", json.RawMessage(`1`)), []taskruntime.ForeignEvent{snapshot(legacy("s"))}, taskruntime.SourceLegacySnapshot, "s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := restore(t, taskruntime.RestoreInput{Checkpoint: tt.checkpoint, Events: tt.events})
			if out.Report.Source != tt.source || len(out.Messages) == 0 || out.Messages[0].Content.Text() != tt.spoken {
				t.Errorf("source %s, messages %v; want %s %s", out.Report.Source, texts(out.Messages), tt.source, tt.spoken)
			}
			if bad := strings.HasPrefix(name, "bad"); bad != warned(out.Report, "passed over") {
				t.Errorf("warnings %v", out.Report.Warnings)
			}
			if out.Report.Upgraded != strings.HasSuffix(tt.source, "legacy") {
				t.Errorf("upgraded %t", out.Report.Upgraded)
			}
		})
	}
}

func TestRestore_formsThatAreNotKnownAreRefused(t *testing.T) {
	t.Parallel()
	good := v2(t, "good")
	for name, bad := range map[string]json.RawMessage{
		"version 3": put(t, good, "version", json.RawMessage("3")), "version as text": put(t, good, "version", json.RawMessage(`"2"`)),
		"no version": put(t, good, "version", nil), "version null": put(t, good, "version", json.RawMessage("null")),
		"another schema": put(t, good, "schema", quote("session_runtime_v9")), "version without schema": put(t, legacy("x"), "version", json.RawMessage("2")),
		"schema of no text": put(t, good, "schema", json.RawMessage("7")),
	} {
		for where, in := range map[string]taskruntime.RestoreInput{
			"checkpoint": {Checkpoint: bad, Events: []taskruntime.ForeignEvent{snapshot(good)}},
			"event 2":    {Checkpoint: good, Events: []taskruntime.ForeignEvent{snapshot(good), snapshot(bad), said("user_message", `{"message":"m"}`)}},
		} {
			_, err := taskruntime.RestoreFromEvents(t.Context(), in)
			var unknown *session.UnsupportedVersionError
			if !errors.As(err, &unknown) || unknown.Where != where {
				t.Errorf("%s in %s: %v", name, where, err)
			}
		}
		out := restore(t, taskruntime.RestoreInput{Events: []taskruntime.ForeignEvent{snapshot(bad), snapshot(good)}})
		if out.Report.Source != taskruntime.SourceSnapshot || !warned(out.Report, "passed over") {
			t.Errorf("%s before a good one: %+v", name, out.Report)
		}
	}
	if out := restore(t, taskruntime.RestoreInput{Checkpoint: put(t, good, "version", json.RawMessage("2.0"))}); out.Report.Source != taskruntime.SourceCheckpoint {
		t.Errorf("the number 2 in another form: %+v", out.Report)
	}
}

func TestRestore_aWrongDigestIsRefused(t *testing.T) {
	t.Parallel()
	s := importing(t)
	whole := s.export(s.imported(foreign, taskruntime.ImportOptions{}).Row.ID, taskruntime.ExportOptions{})
	var pretty strings.Builder
	enc := json.NewEncoder(&pretty)
	enc.SetIndent("", "  ")
	if err := enc.Encode(whole); err != nil {
		t.Fatal(err)
	}
	restore(t, taskruntime.RestoreInput{Checkpoint: []byte(pretty.String())}) // spaces do not count
	for name, bad := range map[string]json.RawMessage{
		"changed": json.RawMessage(strings.Replace(string(whole), "Mend the fence", "Burn the fence", 1)),
		"added":   put(t, whole, "more", json.RawMessage("1")), "taken": put(t, whole, "skills", nil), "no digest at all": put(t, whole, "digest", json.RawMessage("1")),
	} {
		_, err := taskruntime.RestoreFromEvents(t.Context(), taskruntime.RestoreInput{Checkpoint: bad, Events: []taskruntime.ForeignEvent{said("user_message", `{"message":"m"}`)}})
		var wrong *session.SnapshotError
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Where, "digest") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRestore_oneBadBucketSpoilsTheSnapshotAndNothingElse(t *testing.T) {
	t.Parallel()
	for where, bad := range map[string]json.RawMessage{
		"transcript": put(t, json.RawMessage(foreign), "transcript", nil), "verification": put(t, json.RawMessage(foreign), "verification", json.RawMessage("null")),
		"loop.globalTurnCount":        put(t, json.RawMessage(foreign), "loop", json.RawMessage(`{"globalTurnCount":"many"}`)),
		"tooling.toolUsageCounts":     put(t, json.RawMessage(foreign), "tooling", json.RawMessage(`{"toolUsageCounts":[["a"]]}`)),
		"permissions":                 put(t, json.RawMessage(foreign), "permissions", json.RawMessage(`[1]`)),
		"checklist.items":             put(t, json.RawMessage(foreign), "checklist", json.RawMessage(`{"items":{"a":1}}`)),
		"conversationHistory":         put(t, json.RawMessage(foreign), "conversationHistory", json.RawMessage(`{}`)),
		"conversationHistory[0].role": put(t, json.RawMessage(foreign), "conversationHistory", json.RawMessage(`[{"role":"ghost","content":""}]`)),
		"conversationHistory[1].content[0]": put(t, json.RawMessage(foreign), "conversationHistory",
			json.RawMessage(`[{"role":"user","content":"x"},{"role":"user","content":[{"text":"no type"}]}]`)),
		"plan.steps[1].id": put(t, json.RawMessage(foreign), "plan", json.RawMessage(`{"description":"d","steps":[{"id":"a"},{"id":"a"}]}`)),
		"usageTotals.cost": put(t, json.RawMessage(foreign), "usageTotals", json.RawMessage(`{"cost":"dear"}`)),
	} {
		_, err := taskruntime.RestoreFromEvents(t.Context(), taskruntime.RestoreInput{Checkpoint: bad})
		var wrong *session.SnapshotError
		if !errors.As(err, &wrong) || wrong.Where != "checkpoint: "+where {
			t.Errorf("%s: %v", where, err)
		}
		out := restore(t, taskruntime.RestoreInput{Checkpoint: bad, Events: []taskruntime.ForeignEvent{said("user_message", `{"message":"still here"}`)}, Task: taskruntime.RestoreTask{Title: "t", Prompt: "p"}})
		if out.Report.Source != taskruntime.SourceEvents || !warned(out.Report, where) {
			t.Errorf("%s: %+v", where, out.Report)
		}
		if out.State.Loop.Turns != 0 || out.State.Tools.Calls.Len() != 0 || out.State.Imported.Len() != 0 || out.State.Permissions.Mode != "default" {
			t.Errorf("%s: something of the bad snapshot remains: %+v", where, out.State)
		}
	}
}

func TestRestore_absentPartsTakeTheirDefaults(t *testing.T) {
	t.Parallel()
	raw := put(t, put(t, put(t, json.RawMessage(foreign), "permissions", nil), "checklist", nil), "loop", json.RawMessage(`{"globalTurnCount":3}`))
	out := restore(t, taskruntime.RestoreInput{Checkpoint: raw})
	l := out.State.Loop
	if out.State.Permissions.Mode != "default" || len(out.State.Checklist.Items) != 0 || l.Turns != 3 || l.Window != 1 || l.LifetimeTurns != 0 {
		t.Errorf("%+v %+v %+v", out.State.Permissions, out.State.Checklist, l)
	}
}

func TestRestore_threeOlderForms(t *testing.T) {
	t.Parallel()
	one := `"conversationHistory":[{"role":"user","content":"hello"},{"role":"assistant","content":[{"type":"text","text":"hi"}]}],"trackerState":{"readFiles":["a"],"createdFiles":[],"directories":[]},
		"timestamp":5,"messageCount":2,"modelId":"m","modelKey":"k","estimatedSizeBytes":10`
	two := one + `,"usageTotals":{"inputTokens":7,"outputTokens":8,"cost":0.5}`
	three := two + `,"explicitChatSummaryBlock":"so far","explicitChatSummaryCreatedAt":4,"explicitChatSummarySourceMessageCount":6,"llmProfileUsed":"p","resolvedModelKey":"r"`
	for name, raw := range map[string]string{"least": `"conversationHistory":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]`, "first": one, "second": two, "third": three} {
		out := restore(t, taskruntime.RestoreInput{Checkpoint: []byte("{" + raw + "}")})
		tr := out.State.Said
		kept := func(key string) string {
			value, _ := out.State.Imported.Get(key)
			return string(value)
		}
		if out.Report.Source != taskruntime.SourceLegacyCheckpoint || !slices.Equal(texts(out.Messages), []string{"user:hello", "assistant:hi"}) {
			t.Errorf("%s: %+v %v", name, out.Report, texts(out.Messages))
		}
		if tr.User != "hello" || tr.Shown == nil || *tr.Shown != "hi" || *tr.Result != "hi" {
			t.Errorf("%s: %+v", name, tr)
		}
		if has := out.State.Usage.Output == 8; has != (name == "second" || name == "third") {
			t.Errorf("%s: usage %+v", name, out.State.Usage)
		}
		if has := kept("transcript.explicitChatSummaryBlock") == `"so far"` && kept("transcript.explicitChatSummarySourceMessageCount") == "6"; has != (name == "third") {
			t.Errorf("%s: summary %+v", name, tr)
		}
		if has := kept("trackerState.readFiles") == `["a"]`; has != (name != "least") {
			t.Errorf("%s: tracker %+v", name, out.State.Imported)
		}
	}
}

// A source of an older form leaves a snapshot of the present one in the same
// version, and that restores to the same task.
func TestRestore_theSecondRestoreEqualsTheFirst(t *testing.T) {
	t.Parallel()
	events := `[{"type":"user_message","timestamp":1,"payload":{"message":"paint it"}},{"type":"tool_call","timestamp":2,"payload":{"tool":"brush"}},
		{"type":"llm_usage","timestamp":3,"payload":{"totals":{"inputTokens":3,"outputTokens":4,"cost":0.25}}},
		{"type":"task_list_created","timestamp":4,"payload":{"checklist":{"items":[{"id":"a","title":"Paint","kind":"other","status":"in_progress"}],"updatedAt":4}}}]`
	withPlan := put(t, legacy("hello"), "planSummary", json.RawMessage(`{"description":"D","completedSteps":["one"],"failedSteps":[{"description":"two","error":"e"}]}`))
	for name, data := range map[string]string{"events": events, "legacy": string(withPlan)} {
		s := importing(t)
		in := s.imported(data, taskruntime.ImportOptions{Title: "T", Prompt: "P"})
		if !in.Report.Upgraded || in.Row.Version != 1 {
			t.Fatalf("%s: %+v", name, in)
		}
		saved := s.log(in.Row.ID, "conversation_snapshot")
		if len(saved) != 1 || saved[0].Version != 1 {
			t.Fatalf("%s: %d snapshots", name, len(saved))
		}
		raw := quote(saved[0].Change)
		if string(at(t, raw, "seq")) != fmt.Sprint(saved[0].Seq) {
			t.Errorf("%s: the snapshot at %d says %s", name, saved[0].Seq, at(t, raw, "seq"))
		}
		again := restore(t, taskruntime.RestoreInput{Checkpoint: raw})
		have, want := again.State.TaskState, s.state(in.Row.ID)
		have.Settings, have.Imported, want.Imported = want.Settings, session.Pairs[json.RawMessage]{}, session.Pairs[json.RawMessage]{} // model names are made up where there were none
		if again.Report.Source != taskruntime.SourceCheckpoint || !reflect.DeepEqual(have, want) {
			t.Errorf("%s:\nhave %s\nwant %s", name, quote(have), quote(want))
		}
		second := s.imported(string(raw), taskruntime.ImportOptions{})
		samePayload(t, s.export(second.Row.ID, taskruntime.ExportOptions{}), s.export(in.Row.ID, taskruntime.ExportOptions{}), "sessionId", "seq")
	}
}

func (s *site) log(id, kind string) []session.LogEntry {
	s.t.Helper()
	var list []session.LogEntry
	for e, err := range s.rt.Log(s.t.Context(), id, 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if kind == "" || e.Change.Kind() == kind {
			list = append(list, e)
		}
	}
	return list
}
