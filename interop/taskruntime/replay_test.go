package taskruntime_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/session"
)

func TestRestore_laterEventsAreReplayedOnTop(t *testing.T) {
	t.Parallel()
	base := put(t, v2(t, "begin"), "plan", json.RawMessage(`{"description":"D","steps":[{"id":"1","description":"one","status":"pending"},{"id":"2","description":"two","kind":"verification","status":"pending"}]}`))
	wrapped := func(kind, payload string) taskruntime.ForeignEvent {
		return taskruntime.ForeignEvent{Type: "timeline", LegacyType: kind, Payload: json.RawMessage(payload)}
	}
	events := []taskruntime.ForeignEvent{
		said("user_message", `{"message":"covered"}`), snapshot(base),
		said("step_started", `{"step":{"id":"1","description":"one"}}`),
		said("user_message", `{"message":"USER UPDATE: use tabs"}`),
		wrapped("assistant_message", `{"message":"I will"}`),
		said("tool_call", `{"callId":"x","tool":"write","input":{"a":1}}`), said("tool_call", `{"callId":"y","tool":"read"}`),
		said("tool_result", `{"callId":"y","tool":"read","result":{"b":2}}`), said("tool_error", `{"callId":"x","tool":"write","error":"no ink"}`),
		said("tool_call", `{"tool":"lonely"}`), said("tool_result", `{"callId":"z","tool":"ghost","result":"boo"}`),
		said("llm_usage", `{"totals":{"inputTokens":500,"outputTokens":60,"cost":1.5}}`),
		said("step_completed", `{"step":{"id":"1","description":"one","completedAt":9}}`), said("step_started", `{"step":{"id":"2"}}`),
		wrapped("assistant_message", `{"message":"checked"}`),
		said("task_list_updated", `{"checklist":{"items":[{"id":"n","title":"New","kind":"other","status":"pending"}],"updatedAt":77}}`),
		said("step_feedback", `{"stepId":"2","action":"drift"}`), said("context_compaction_completed", `{"tokensBefore":90,"tokensAfter":30}`),
		said("auto_continuation_started", `{"continuationCount":2,"continuationWindow":3}`), said("budget_reset_for_continuation", `{"continuationCount":2,"continuationWindow":3}`),
		said("no_such_event", `{}`), said("user_message", `"no object"`),
	}
	out := restore(t, taskruntime.RestoreInput{Events: events})
	want := []string{
		"user:begin", "user:USER UPDATE: use tabs", "assistant:I will", "assistant: call:x", "result:x:no ink", "assistant: call:y", `result:y:{"b":2}`,
		"user:[Used tool: lonely]\n[Tool result from ghost: boo]", "assistant:checked",
	}
	if have := texts(out.Messages); !slices.Equal(have, want) {
		t.Errorf("messages\nhave %q\nwant %q", have, want)
	}
	s, l := out.State, out.State.Loop
	if s.Plan.Steps[0].Status != "completed" || s.Plan.Steps[1].Status != "in_progress" || s.Plan.Steps[1].Description != "two" || *s.Steps.Current != "2" {
		t.Errorf("plan %+v at %v", s.Plan, s.Steps.Current)
	}
	if u := s.Usage; u.Input != 0 || u.EarlierInput != 500 || u.EarlierCost != 1.5 {
		t.Errorf("usage %+v", u)
	}
	if l.Turns != 0 || l.LifetimeTurns != 10 || l.Continuations != 2 || l.Window != 3 || l.Compactions != 1 || l.TokensAfter != 30 {
		t.Errorf("loop %+v", l)
	}
	if s.Checklist.UpdatedAt != 77 || len(s.Checklist.Items) != 1 {
		t.Errorf("checklist %+v", s.Checklist)
	}
	if q := s.Queues; len(q.FollowUps) != 1 || q.FollowUps[0].Message != "more please" || len(q.Feedback) != 0 {
		t.Errorf("queues %+v", q)
	}
	tr := s.Said
	if tr.User != "USER UPDATE: use tabs" || *tr.Shown != "checked" || *tr.Result != "I will" {
		t.Errorf("transcript %+v %s %s", tr, *tr.Shown, *tr.Result)
	}
	if out.Report.Replayed != len(events)-4 {
		t.Errorf("replayed %d of %d", out.Report.Replayed, len(events))
	}
}

// Only what lies strictly after the snapshot is replayed, wherever that is.
func TestRestore_replayBeginsAfterThePosition(t *testing.T) {
	t.Parallel()
	var events []taskruntime.ForeignEvent
	for i := range 5 {
		events = append(events, taskruntime.ForeignEvent{
			ID: fmt.Sprint("e", i+1), Seq: int64(i + 1), Timestamp: int64(10 * (i + 1)), Type: "user_message", Payload: json.RawMessage(fmt.Sprintf(`{"message":"%d"}`, i+1)),
		})
	}
	without := slices.Clone(events)
	for i := range without {
		without[i].Seq = 0
	}
	shuffled := slices.Clone(events)
	slices.Reverse(shuffled)
	base := put(t, v2(t, "s"), "timestamp", json.RawMessage("30"))
	for name, in := range map[string]taskruntime.RestoreInput{
		"by number":           {Checkpoint: put(t, put(t, base, "seq", json.RawMessage("3")), "timestamp", json.RawMessage("1")), Events: shuffled},
		"by event":            {Checkpoint: put(t, put(t, base, "sourceEventId", quote("e3")), "timestamp", json.RawMessage("1")), Events: without},
		"by time":             {Checkpoint: base, Events: without},
		"by the event itself": {Events: slices.Insert(slices.Clone(without), 3, snapshot(put(t, base, "timestamp", json.RawMessage("999"))))},
	} {
		out := restore(t, in)
		if have := texts(out.Messages); !slices.Equal(have, []string{"user:s", "user:4", "user:5"}) || out.Report.Replayed != 2 {
			t.Errorf("%s: %q, %d replayed", name, have, out.Report.Replayed)
		}
	}
}

func TestRestore_usageAndChecklistFromEventsOnlyWhereTheSnapshotIsSilent(t *testing.T) {
	t.Parallel()
	usage := said("llm_usage", `{"totals":{"inputTokens":1,"outputTokens":2,"cost":3}}`)
	list := said("anything", `{"checklist":{"items":[{"id":"e","title":"E","kind":"other","status":"pending"}],"updatedAt":5}}`)
	base := v2(t, "s")
	for name, tt := range map[string]struct {
		base    json.RawMessage
		tokens  int64
		checked string
	}{
		"both there": {base, 100, "i1"},
		"absent":     {put(t, put(t, base, "usageTotals", nil), "checklist", nil), 1, "e"},
		"zero":       {put(t, put(t, base, "usageTotals", json.RawMessage(`{"inputTokens":0,"outputTokens":0,"cost":0}`)), "checklist", json.RawMessage(`{"items":[],"updatedAt":0}`)), 1, "e"},
		"emptied":    {put(t, base, "checklist", json.RawMessage(`{"items":[],"updatedAt":9}`)), 100, ""},
	} {
		out := restore(t, taskruntime.RestoreInput{Events: []taskruntime.ForeignEvent{usage, list, snapshot(tt.base)}})
		id := ""
		if items := out.State.Checklist.Items; len(items) > 0 {
			id = items[0].ID
		}
		if out.State.Usage.Input != tt.tokens || id != tt.checked {
			t.Errorf("%s: %d tokens, item %q", name, out.State.Usage.Input, id)
		}
	}
}

func TestRestore_outputsOfTheSnapshotStay(t *testing.T) {
	t.Parallel()
	out := restore(t, taskruntime.RestoreInput{Checkpoint: []byte(foreign)})
	tr := out.State.Said
	if *tr.Answer != "Verification: OK" || *tr.Result != "Mended" || *tr.Shown != "Verification: OK" {
		t.Errorf("%s %s %s", *tr.Answer, *tr.Result, *tr.Shown)
	}
	nulls := put(t, json.RawMessage(foreign), "transcript", json.RawMessage(`{"lastAssistantOutput":"mine","lastNonVerificationOutput":null}`))
	tr = restore(t, taskruntime.RestoreInput{Checkpoint: nulls}).State.Said
	if *tr.Answer != "mine" || *tr.Result != "Mended" || *tr.Shown != "Mended" {
		t.Errorf("%s %s %s", *tr.Answer, *tr.Result, *tr.Shown)
	}
}

func TestRestore_thePlanIsToldOnlyWhereThereIsNone(t *testing.T) {
	t.Parallel()
	summary := json.RawMessage(`{"description":"Tidy","completedSteps":["sweep"],"failedSteps":[{"description":"mop","error":"dry"}]}`)
	told := "PREVIOUS TASK CONTEXT:\nTask plan: Tidy\nCompleted steps:\n  - sweep\nFailed steps:\n  - mop (dry)\n\n"
	text := put(t, v2(t, "hello"), "planSummary", summary)
	if have := restore(t, taskruntime.RestoreInput{Checkpoint: text}).Messages[0].Content.Text(); have != told+"hello" {
		t.Errorf("told %q", have)
	}
	blocks := put(t, text, "conversationHistory", json.RawMessage(`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}]`))
	if parts := restore(t, taskruntime.RestoreInput{Checkpoint: blocks}).Messages[0].Content; len(parts) != 3 || parts[0].Text+"\n" != told || parts[2].Type != session.PartImage {
		t.Errorf("told %+v", parts)
	}
	for name, raw := range map[string]json.RawMessage{
		"a plan": put(t, text, "plan", json.RawMessage(`{"description":"Tidy","steps":[]}`)), "told before": put(t, v2(t, told+"hello"), "planSummary", summary),
		"an assistant first": put(t, text, "conversationHistory", json.RawMessage(`[{"role":"assistant","content":"hi"}]`)),
	} {
		out := restore(t, taskruntime.RestoreInput{Checkpoint: raw})
		if have := out.Messages[0].Content.Text(); strings.Count(have, "PREVIOUS TASK CONTEXT") != map[string]int{"told before": 1}[name] {
			t.Errorf("%s: told %q", name, have)
		}
	}
}

func TestRestore_fromEventsAlone(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 501)
	out := restore(t, taskruntime.RestoreInput{Task: taskruntime.RestoreTask{Title: "T", Prompt: "P"}, Events: []taskruntime.ForeignEvent{
		said("user_message", `{"message":"do it"}`), said("log", `{"message":"User: by log"}`), said("log", `{"message":"note"}`),
		said("assistant_message", string(quote(map[string]any{"message": long}))), said("tool_call", `{"tool":"t"}`),
		said("tool_result", string(quote(map[string]any{"tool": "t", "result": strings.Repeat("r", 1001)}))), said("tool_result", `{"tool":"t","result":{"a":1}}`),
		said("tool_error", `{"tool":"t","error":"bad"}`), said("plan_created", `{"plan":{"description":"D","steps":[{"description":"one"},{"description":"two"}]}}`),
		said("error", `{"message":"oops"}`), said("executing", `{}`), said("llm_usage", `{"totals":{"inputTokens":4}}`),
	}})
	want := strings.Join([]string{
		"Original task: T", "Task details: P", "", "Previous conversation summary:", "User: do it", "User: by log", "System: note", "Assistant: " + strings.Repeat("ä", 500) + "...",
		"[Used tool: t]", "[Tool result from t: " + strings.Repeat("r", 1000) + "...]", `[Tool result from t: {"a":1}]`, "[Tool error from t: bad]", "[Created plan: D]", "[Error: oops]",
	}, "\n")
	if out.Report.Source != taskruntime.SourceEvents || !out.Report.Upgraded || len(out.Messages) != 2 || out.Messages[0].Content.Text() != want || out.Messages[1].Role != session.RoleAssistant {
		t.Errorf("%+v\nhave %q\nwant %q", out.Report, texts(out.Messages), want)
	}
	s := out.State
	if s.Said.User != "do it" || *s.Said.Shown != long || s.Usage.Input != 4 || s.Plan == nil || len(s.Plan.Steps) != 2 || s.Plan.Steps[0].ID == s.Plan.Steps[1].ID {
		t.Errorf("%+v", s)
	}
	empty := restore(t, taskruntime.RestoreInput{Task: taskruntime.RestoreTask{Title: "T", Prompt: "P"}, Events: []taskruntime.ForeignEvent{said("executing", `{}`)}})
	if empty.Report.Source != taskruntime.SourceEmpty || len(empty.Messages) != 0 || empty.State.Said.User != "P" {
		t.Errorf("%+v %v", empty.Report, texts(empty.Messages))
	}
}

func TestRestore_repairsAndSaysSo(t *testing.T) {
	t.Parallel()
	raw := put(t, v2(t, "s"), "checklist", json.RawMessage(`{"items":[{"id":"a","title":" A ","status":"in_progress"},{"id":"a","title":"B","kind":"other","status":"in_progress"},
		{"id":"c","title":"","status":"pending"},{"id":"d","title":"D","status":"odd"},{"id":"e","title":"E","kind":"odd","status":"pending"}],"updatedAt":3}`))
	raw = put(t, raw, "permissions", json.RawMessage(`{"mode":"reckless","sessionRules":[{"source":"profile","effect":"allow","scope":{"kind":"tool","toolName":"x"}},
		{"source":"session","effect":"allow","scope":{"kind":"command_prefix","prefix":""}},{"source":"session","effect":"allow","scope":{"kind":"tool","toolName":"x"}}],
		"temporaryGrants":[["gone",{"grantedAt":1}],["over",{"grantedAt":1,"expiresAt":50,"survivesRestart":true}],["stays",{"grantedAt":1,"expiresAt":500,"survivesRestart":true}]]}`))
	raw = put(t, raw, "approvals", json.RawMessage(`[{"id":"p","status":"pending"},{"id":"q","status":"denied"}]`))
	raw = put(t, raw, "skills", json.RawMessage(`{"apiKey":"sk-1","fine":{"password":"x","n":1}}`))
	in := taskruntime.RestoreInput{Checkpoint: raw, Options: taskruntime.RestoreOptions{Now: 100}}
	out := restore(t, in)
	c := out.State.Checklist.Items
	if len(c) != 2 || c[0].Title != "A" || c[0].Kind != "implementation" || c[0].Status != "in_progress" || c[1].Status != "pending" || c[1].ID == "a" || !strings.HasPrefix(c[1].ID, "task_item_") {
		t.Errorf("items %+v", c)
	}
	p := out.State.Permissions
	if p.Mode != "default" || len(p.SessionRules) != 1 || p.SessionRules[0].Source != session.SourceSession {
		t.Errorf("permissions %+v", p)
	}
	if _, ok := p.TemporaryGrants.Get("stays"); !ok || p.TemporaryGrants.Len() != 1 {
		t.Errorf("grants %s", quote(p.TemporaryGrants))
	}
	if a := out.State.Approvals; a[0].Status != "expired" || a[0].ResolvedAt != 100 || a[1].Status != "denied" {
		t.Errorf("approvals %+v", a)
	}
	if have, _ := out.State.Imported.Get("skills"); string(have) != `{"fine":{"n":1}}` {
		t.Errorf("foreign %s", have)
	}
	for _, about := range []string{
		"checklist.items[1]: the id", "checklist.items[1]: another", "checklist.items[2]", "checklist.items[3]", "checklist.items[4]", "permissions.mode", "sessionRules[1]", "sessionRules[2]",
		`"gone"`, `"over"`, `"p"`, "skills.apiKey", "skills.fine.password",
	} {
		if !warned(out.Report, about) {
			t.Errorf("no warning of %s in %q", about, out.Report.Warnings)
		}
	}
	in.Options.KeepApprovals = true
	if a := restore(t, in).State.Approvals; a[0].Status != "pending" {
		t.Errorf("approvals %+v", a)
	}
	many := put(t, v2(t, "s"), "tooling", quote(map[string]any{"toolResultMemory": make([]map[string]any, 0), "odd": 1}))
	var memory []map[string]any
	for i := range 60 {
		memory = append(memory, map[string]any{"tool": fmt.Sprint(i), "summary": "s", "timestamp": i, "mood": "good"})
	}
	many = put(t, many, "tooling", quote(map[string]any{"toolResultMemory": memory}))
	out = restore(t, taskruntime.RestoreInput{Checkpoint: many})
	if m := out.State.Tools.Results; len(m) != 50 || m[0].Tool != "10" || !warned(out.Report, "toolResultMemory") || !warned(out.Report, "mood") {
		t.Errorf("%d results, warnings %.300q", len(m), out.Report.Warnings)
	}
}
