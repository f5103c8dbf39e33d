package strands_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/workflow"
)

const id = "5d0c7c1e-0000-4000-8000-00000000000a"

func at(micro int) time.Time { return time.Date(2025, 11, 9, 10, 0, 0, micro*1000, time.UTC) }

func ptr[T any](v T) *T { return &v }

func object(t testing.TB, text string) strands.Object {
	t.Helper()
	var o strands.Object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return o
}

func dictOf[V any](m map[string]V) strands.Dict[V] {
	var d strands.Dict[V]
	for _, key := range slices.Sorted(maps.Keys(m)) {
		d.Set(key, m[key])
	}
	return d
}

func objects(t testing.TB, texts ...string) []strands.Object {
	t.Helper()
	var list []strands.Object
	for _, text := range texts {
		list = append(list, object(t, text))
	}
	return list
}

// chainState is a state as the other program would write it.
func chainState(t testing.TB) strands.State {
	t.Helper()
	var variables strands.Dict[string]
	variables.Set("topic", "grüner Tee 🍵")
	variables.Set("audience", "\"all\"")
	return strands.State{
		Metadata: strands.Metadata{
			SessionID: id, WorkflowName: "tea", SpecHash: "ab12", PatternType: "chain", Status: workflow.StatusRunning,
			CreatedAt: at(1), UpdatedAt: at(0),
		},
		Variables: variables,
		RuntimeConfig: strands.RuntimeConfig{
			Provider: "openai", ModelID: ptr("m-1"), Temperature: ptr(1.0), TopP: ptr(0.00001), MaxTokens: ptr(int64(8000)),
			Budgets: json.RawMessage(`{"max_tokens":50000}`),
		},
		TokenUsage:       strands.TokenUsage{TotalInput: 3, TotalOutput: 2, ByAgent: dictOf(map[string]int64{"a": 5})},
		ArtifactsWritten: []string{"/out/report.md"},
		Pattern:          object(t, `{"current_step":1,"step_history":[{"index":0,"response":"süß"}],"later":{},"none":[]}`),
	}
}

const chainSession = `{
  "metadata": {
    "session_id": "5d0c7c1e-0000-4000-8000-00000000000a",
    "workflow_name": "tea",
    "spec_hash": "ab12",
    "pattern_type": "chain",
    "status": "running",
    "created_at": "2025-11-09T10:00:00.000001+00:00",
    "updated_at": "2025-11-09T10:00:00+00:00",
    "error": null,
    "metadata": {}
  },
  "variables": {
    "topic": "gr\u00fcner Tee \ud83c\udf75",
    "audience": "\"all\""
  },
  "runtime_config": {
    "provider": "openai",
    "model_id": "m-1",
    "region": null,
    "host": null,
    "temperature": 1.0,
    "top_p": 1e-05,
    "max_tokens": 8000,
    "max_parallel": null,
    "budgets": {
      "max_tokens": 50000
    },
    "failure_policy": null
  },
  "token_usage": {
    "total_input_tokens": 3,
    "total_output_tokens": 2,
    "by_agent": {
      "a": 5
    }
  },
  "artifacts_written": [
    "/out/report.md"
  ]
}`

const chainPattern = `{
  "current_step": 1,
  "step_history": [
    {
      "index": 0,
      "response": "s\u00fc\u00df"
    }
  ],
  "later": {},
  "none": []
}`

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sessionDir is a directory with what the other program writes.
func sessionDir(t testing.TB) strands.Dir {
	t.Helper()
	d := strands.Dir(filepath.Join(t.TempDir(), "session_"+id))
	put(t, filepath.Join(string(d), "session.json"), chainSession)
	put(t, filepath.Join(string(d), "pattern_state.json"), chainPattern)
	put(t, d.SnapshotPath(), "name: tea\r\n")
	return d
}
