package session_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

// upgradedTask is what became of a sample state that an earlier version wrote
// with every field set.
func upgradedTask() session.TaskState {
	s := sampleTask()
	s.Steps.Counts.Pause = "" // it came later
	for _, kept := range []struct{ key, value string }{
		{"loop.lastPreCompactionFlushAt", `5`}, {"loop.lastPreCompactionFlushTokenCount", `800`},
		{"trackerState.directories", `["."]`}, {"trackerState.readFiles", `["floor.go"]`},
		{"transcript.explicitChatSummaryBlock", `"They swept."`}, {"transcript.explicitChatSummaryCreatedAt", `5`},
		{"transcript.explicitChatSummarySourceMessageCount", `9`},
		{"worker.dispatchedMentionedAgents", `true`}, {"worker.verificationAgentState", `{"seen":1.0}`},
	} {
		s.Imported = s.Imported.With(kept.key, json.RawMessage(kept.value))
	}
	return *s.Clone()
}

func golden(t *testing.T, name ...string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestUpgrade_storedTasksAreRead(t *testing.T) {
	t.Parallel()
	fromDocument, err := session.Decode(golden(t, "task_v1", "document.json"))
	if err != nil {
		t.Fatal(err)
	}
	fromHead, err := session.DecodeHead(golden(t, "task_v1", "head.json"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]session.Session{"document": fromDocument, "head": fromHead} {
		sameBytes(t, name, mustJSON(t, s.Task()), mustJSON(t, upgradedTask()))
		sameBytes(t, name+": permissions", mustJSON(t, s.Permissions()), mustJSON(t, samplePermissions()))
		again, err := session.Decode(document(t, s))
		if err != nil {
			t.Fatal(err)
		}
		sameBytes(t, name+" written and read", mustJSON(t, again.Task()), mustJSON(t, upgradedTask()))
	}
}

func TestUpgrade_changesInLogsAreRead(t *testing.T) {
	t.Parallel()
	var r session.Record
	if err := json.Unmarshal(golden(t, "task_v1", "moves.json"), &r); err != nil {
		t.Fatal(err)
	}
	have, want := *apply(t, taskSession(t), r.Change).Task(), upgradedTask()
	want.Plan = nil // it has events of its own
	want.Imported = want.Imported.Without("skills").Without("permissions.recentSensitiveSources")
	sameBytes(t, "the state", mustJSON(t, have), mustJSON(t, want))

	for _, kind := range []string{"task_state_changed", "task_restored"} {
		var states, permissions [][]byte
		for _, version := range []string{"", "_v2", "_v3"} {
			var r session.Record
			if err := json.Unmarshal(golden(t, "changes", kind+version+".json"), &r); err != nil {
				t.Fatal(err)
			}
			s := apply(t, taskSession(t), r.Change)
			states, permissions = append(states, mustJSON(t, s.Task())), append(permissions, mustJSON(t, s.Permissions()))
		}
		for i := range states {
			sameBytes(t, kind, states[i], states[0])
			if kind == "task_restored" || i < 2 { // permissions have events of their own
				sameBytes(t, kind+": permissions", permissions[i], permissions[0])
			}
		}
	}
}

func TestUpgrade_oldStatesAreReadStrictly(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"unknown bucket": `{"transcript":{},"moods":{}}`, "unknown field": `{"transcript":{"mood":1}}`, "type": `{"transcript":{"lastUserMessage":1}}`,
		"part": `{"transcript":{"stepOutcomeSummaries":[{"mood":1}]}}`, "no bucket": `{"transcript":7}`, "twice": `{"transcript":{},"transcript":{}}`,
		"foreign": `{"transcript":{},"foreign":7}`,
	} {
		var s session.TaskState
		if err := json.Unmarshal([]byte(bad), &s); err == nil {
			t.Errorf("%s: read as %s", name, mustJSON(t, s))
		}
	}
}
