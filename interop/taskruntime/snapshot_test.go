package taskruntime_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

// keysOf are the keys of an object in their order, those inside a dotted path.
func keysOf(t *testing.T, raw json.RawMessage, path ...string) []string {
	t.Helper()
	for _, key := range path {
		raw = at(t, raw, key)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, fmt.Sprint(key))
	}
	return keys
}

// at is the value of a key.
func at(t *testing.T, raw json.RawMessage, key string) json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%v in %.200s", err, raw)
	}
	return m[key]
}

// put sets a key of an object; nil takes it away. The order is kept.
func put(t *testing.T, raw json.RawMessage, key string, value json.RawMessage) json.RawMessage {
	t.Helper()
	out, found := []byte{'{'}, false
	for _, k := range keysOf(t, raw) {
		v := at(t, raw, k)
		if k == key {
			if found = true; value == nil {
				continue
			}
			v = value
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(k)...), ':'), v...)
	}
	if !found && value != nil {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(key)...), ':'), value...)
	}
	return append(out, '}')
}

func quote(v any) json.RawMessage {
	raw, err := session.JSON(v)
	if err != nil {
		panic(err) // a test's own literals
	}
	return raw
}

func compacted(t *testing.T, raw []byte) string {
	t.Helper()
	c, err := session.CompactJSON("test", raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(c)
}

// foreign is a snapshot that another program wrote, with keys nobody here
// knows and every form of message.
const foreign = `{
 "schema": "session_runtime_v2", "version": 2,
 "conversationHistory": [
  {"role": "user", "content": "Mend the fence"},
  {"role": "assistant", "content": [{"type": "text", "text": "Looking"}, {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "fence.go", "n": 1.50}},
   {"type": "tool_use", "id": "c2", "name": "list_files", "input": {}}]},
  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "package fence"}, {"type": "tool_result", "tool_use_id": "c2", "content": "gone", "is_error": true}]},
  {"role": "assistant", "content": "a plain text"},
  {"role": "user", "content": [{"type": "text", "text": "one block"}]},
  {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image", "mimeType": "image/png", "data": "AAAA", "originalSizeBytes": 9000}]},
  {"role": "assistant", "content": [{"type": "tool_use", "id": "c3", "name": "look", "input": {"at": "<&>"}, "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "after the call"}]},
  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c3", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "parts"}], "is_error": false}]},
  {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Mended"}]}
 ],
 "trackerState": {"readFiles": ["fence.go"], "createdFiles": [], "directories": ["."], "colour": "green"},
 "transcript": {"lastUserMessage": "Mend the fence", "lastAssistantOutput": "Verification: OK", "lastNonVerificationOutput": "Mended", "lastAssistantText": "Verification: OK",
  "explicitChatSummaryBlock": null, "explicitChatSummaryCreatedAt": 0, "explicitChatSummarySourceMessageCount": 0,
  "stepOutcomeSummaries": [{"stepId": "1", "description": "d", "status": "completed", "mutatedFiles": ["fence.go"], "outcomeSummary": "ok"}]},
 "tooling": {"toolResultMemory": [{"tool": "read_file", "summary": "s", "timestamp": 5}], "webEvidenceMemory": [{"tool": "web_fetch", "url": "https://example.com", "timestamp": 6}],
  "toolUsageCounts": [["read_file", 2], ["a", 1]], "successfulToolUsageCounts": [], "toolUsageEventsSinceDecay": 3, "toolSelectionEpoch": 1, "discoveredDeferredToolNames": ["z_tool", "a_tool"]},
 "files": {"filesReadTracker": [["fence.go", {"step": "1", "sizeBytes": 9}]]},
 "loop": {"globalTurnCount": 4, "lifetimeTurnCount": 9, "continuationCount": 1, "continuationWindow": 2, "windowStartEventCount": 3, "noProgressStreak": 1, "lastLoopFingerprint": "a::b::c",
  "compactionCount": 0, "lastCompactionAt": 0, "lastCompactionTokensBefore": 0, "lastCompactionTokensAfter": 0, "blockedLoopFingerprintForWindow": null, "pendingLoopStrategySwitchMessage": "",
  "softDeadlineTriggered": false, "wrapUpRequested": false, "turnWindowSoftExhaustedNotified": false, "followUpRecoveryAttemptsInCurrentMessage": 0, "lastFollowUpRecoveryBlockReason": "",
  "iterationCount": 4, "currentStepId": null, "lastPreCompactionFlushAt": 0, "lastPreCompactionFlushTokenCount": 0},
 "recovery": {"recoveryRequestActive": false, "lastRecoveryFailureSignature": "", "recoveredFailureStepIds": ["s9"], "lastRecoveryClass": null, "lastToolDisabledScope": null, "lastRetryReason": null},
 "queues": {"pendingFollowUps": [{"message": "use tabs"}, {"message": "more please", "agentConfigOverride": {"model": "m"}}], "stepFeedbackSignal": {"stepId": "current", "action": "drift", "message": "faster"}},
 "skills": {"pending": null, "b": 1, "a": [1.0]},
 "worker": {"dispatchedMentionedAgents": true, "verificationAgentState": {"z": 1, "a": 2.50}},
 "permissions": {"mode": "accept_edits", "sessionRules": [{"source": "session", "effect": "allow", "scope": {"kind": "command_prefix", "prefix": "git status"}, "createdAt": 7}],
  "temporaryGrants": [["run_command:single_bundle", {"grantedAt": 7}]], "denialTracking": [["tool:x", {"consecutiveDenials": 1, "totalDenials": 2}]], "latestPromptContext": null, "recentSensitiveSources": []},
 "verification": {"verificationEvidenceEntries": [{"kind": "shell_command", "ok": true, "detail": "exit 0", "capturedAt": 1}], "nonBlockingVerificationFailedStepIds": [], "blockingVerificationFailedStepIds": []},
 "checklist": {"items": [{"id": "i1", "title": "Mend", "kind": "implementation", "status": "completed", "createdAt": 1, "updatedAt": 2}, {"id": "i2", "title": "Check", "kind": "verification", "status": "pending", "createdAt": 1, "updatedAt": 1}],
  "updatedAt": 2, "verificationNudgeNeeded": false, "nudgeReason": null},
 "promptCache": {"mode": "off"},
 "timestamp": 100, "messageCount": 9, "modelId": "gpt-test", "modelKey": "key-test", "llmProfileUsed": "strong", "resolvedModelKey": "r-test",
 "usageTotals": {"inputTokens": 100, "outputTokens": 50, "cost": 0.125}, "estimatedSizeBytes": 3774
}`

// additions are keys that Holdfast adds to the format.
var additions = []string{"sessionId", "seq", "plan", "usage", "approvals", "digest", "estimatedSizeBytes"}

// samePayload fails unless an export says what was imported, but for additions,
// the time, sizes and what is named.
func samePayload(t *testing.T, have, want json.RawMessage, repaired ...string) {
	t.Helper()
	for _, key := range keysOf(t, want) {
		if slices.Contains([]string{"timestamp", "estimatedSizeBytes", "digest"}, key) || slices.Contains(repaired, key) {
			continue
		}
		if h, w := compacted(t, at(t, have, key)), compacted(t, at(t, want, key)); h != w {
			t.Errorf("%s:\nhave %s\nwant %s", key, h, w)
		}
	}
	for _, key := range keysOf(t, have) {
		if at(t, want, key) == nil && !slices.Contains(additions, key) {
			t.Errorf("%s was not there", key)
		}
	}
}

func TestImport_exportSaysWhatWasImported(t *testing.T) {
	t.Parallel()
	s := importing(t)
	in := s.imported(foreign, taskruntime.ImportOptions{})
	have := s.export(in.Row.ID, taskruntime.ExportOptions{})
	samePayload(t, have, json.RawMessage(foreign), "permissions", "queues")

	p := at(t, have, "permissions")
	want := at(t, json.RawMessage(foreign), "permissions")
	for key, value := range map[string]string{"mode": `"default"`, "sessionRules": "[]", "temporaryGrants": "[]"} { // what the file allows is not taken over
		want = put(t, want, key, json.RawMessage(value))
	}
	if compacted(t, p) != compacted(t, want) {
		t.Errorf("permissions %s\nwant %s", p, want)
	}
	q := at(t, have, "queues")
	var queues struct {
		PendingFollowUps   []session.FollowUp
		StepFeedbackSignal *session.StepFeedback
	}
	if err := json.Unmarshal(q, &queues); err != nil {
		t.Fatal(err)
	}
	if f := queues.PendingFollowUps; len(f) != 2 || f[0].Message != "use tabs" || f[1].Message != "more please" || string(f[1].AgentConfigOverride) != `{"model":"m"}` {
		t.Errorf("follow-ups %s", q)
	}
	if f := queues.StepFeedbackSignal; f == nil || f.StepID != "current" || f.Action != "drift" || f.Message != "faster" {
		t.Errorf("feedback %s", q)
	}
	if in.Row.Status != task.Interrupted || in.Row.TerminalStatus != task.TerminalResumeAvailable || in.Row.Version != 1 || in.Row.Prompt != "Mend the fence" {
		t.Errorf("row %+v", in.Row)
	}
	if in.Report.Source != taskruntime.SourceCheckpoint || in.Report.Upgraded {
		t.Errorf("report %+v", in.Report)
	}
	again := s.imported(string(have), taskruntime.ImportOptions{})
	samePayload(t, s.export(again.Row.ID, taskruntime.ExportOptions{}), have, "sessionId", "seq")
}

func TestImport_aWholeSnapshot(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("testdata", "snapshot_v2.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := importing(t)
	in := s.imported(string(raw), taskruntime.ImportOptions{})
	samePayload(t, s.export(in.Row.ID, taskruntime.ExportOptions{}), raw, "permissions", "queues")
	if len(in.Report.Repairs) != 0 {
		t.Errorf("repairs %v", in.Report.Repairs)
	}
}

func TestExport_keysAreInTheOrderOfTheFormat(t *testing.T) {
	t.Parallel()
	s := importing(t)
	id := s.create(spec())
	s.with(id, func(r *task.Run) {})
	have := s.export(id, taskruntime.ExportOptions{})
	want := []string{
		"schema", "version", "conversationHistory", "trackerState", "planSummary", "transcript", "tooling", "files", "loop", "recovery", "queues", "worker",
		"permissions", "verification", "checklist", "timestamp", "messageCount", "modelId", "modelKey", "llmProfileUsed", "resolvedModelKey", "usageTotals",
		"sessionId", "seq", "plan", "usage", "digest", "estimatedSizeBytes",
	}
	if keys := keysOf(t, have); !slices.Equal(keys, want) {
		t.Errorf("have %v\nwant %v", keys, want)
	}
	if keys := keysOf(t, have, "loop"); !slices.Equal(keys, keysOf(t, json.RawMessage(foreign), "loop")) {
		t.Errorf("loop %v", keys)
	}
	body := put(t, put(t, have, "digest", nil), "estimatedSizeBytes", nil)
	sum := sha256.Sum256(body)
	if string(at(t, have, "estimatedSizeBytes")) != fmt.Sprint(len(body)) || string(at(t, have, "digest")) != `"sha256:`+hex.EncodeToString(sum[:])+`"` {
		t.Errorf("size %s and digest %s of %d bytes", at(t, have, "estimatedSizeBytes"), at(t, have, "digest"), len(body))
	}

	in := s.imported(foreign, taskruntime.ImportOptions{})
	keys := keysOf(t, s.export(in.Row.ID, taskruntime.ExportOptions{}))
	i := slices.Index(keys, "usageTotals")
	if i < 0 || !slices.Equal(keys[i+1:i+3], []string{"skills", "promptCache"}) {
		t.Errorf("what is not known stands at %v", keys)
	}
}

func TestSaveSnapshot_isTheTaskAfterItsOwnChange(t *testing.T) {
	t.Parallel()
	s := importing(t)
	id := s.create(spec())
	if _, err := s.x.QueueFollowUp(t.Context(), id, session.FollowUp{Message: "and this"}); err != nil {
		t.Fatal(err)
	}
	var first, second int64
	s.with(id, func(r *task.Run) {
		var err error
		if first, err = r.SaveSnapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if second, err = r.SaveSnapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	saved := s.snapshots(id)
	if len(saved) != 2 || saved[0].Seq != first || saved[1].Seq != second || saved[0].Data["seq"] != float64(first) {
		t.Fatalf("saved %d as %d and %d", len(saved), first, second)
	}
	queues, ok := saved[0].Data["queues"].(map[string]any)
	if !ok || len(queues["pendingFollowUps"].([]any)) != 1 {
		t.Errorf("queues %v", saved[0].Data["queues"])
	}
	raw, err := session.JSON(saved[1].Data)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(keysOf(t, raw)); n < 20 {
		t.Errorf("a snapshot of %d keys", n)
	}
}

func TestSaveSnapshot_anEmptyWindowIsSavedToo(t *testing.T) {
	t.Parallel()
	s := importing(t)
	empty := put(t, json.RawMessage(foreign), "conversationHistory", json.RawMessage("[]"))
	in := s.imported(string(empty), taskruntime.ImportOptions{Prompt: "go on"})
	s.with(in.Row.ID, func(r *task.Run) {
		if _, err := r.SaveSnapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	saved := s.snapshots(in.Row.ID)
	if len(saved) != 1 || saved[0].Data["messageCount"] != 0.0 || len(saved[0].Data["checklist"].(map[string]any)["items"].([]any)) != 2 {
		t.Errorf("saved %+v", saved)
	}
}

func TestSaveSnapshot_errorsAreReturned(t *testing.T) {
	t.Parallel()
	s := importing(t)
	id := s.create(spec())
	before := len(s.log(id, ""))
	err := s.x.Open(t.Context(), id, func(r *task.Run) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := r.SaveSnapshot(ctx)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a snapshot that could not be made gave %v", err)
	}
	if n := len(s.log(id, "")); n != before {
		t.Errorf("%d changes were written", n-before)
	}
}
