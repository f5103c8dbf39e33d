package strands_test

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/strands"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

func TestEncode_isWhatPythonWrites(t *testing.T) {
	t.Parallel()
	sessionJSON, patternJSON, err := chainState(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if string(sessionJSON) != chainSession {
		t.Errorf("session.json is\n%s\nwant\n%s", sessionJSON, chainSession)
	}
	if string(patternJSON) != chainPattern {
		t.Errorf("pattern_state.json is\n%s\nwant\n%s", patternJSON, chainPattern)
	}
}

func TestEncode_emptyStateHasEveryKey(t *testing.T) {
	t.Parallel()
	s := strands.State{Metadata: strands.Metadata{Status: workflow.StatusFailed, Error: "ChainExecutionError: ü"}}
	sessionJSON, patternJSON, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"error": "ChainExecutionError: \u00fc"`, `"variables": {},`, `"by_agent": {}`, `"artifacts_written": []` + "\n}", `"budgets": null`, `"temperature": null`,
	} {
		if !strings.Contains(string(sessionJSON), want) {
			t.Errorf("session.json lacks %s:\n%s", want, sessionJSON)
		}
	}
	if string(patternJSON) != "{}" {
		t.Errorf("pattern_state.json is %q", patternJSON)
	}
}

func TestDecodeState_givesBackWhatWasEncoded(t *testing.T) {
	t.Parallel()
	got, err := strands.DecodeState([]byte(chainSession), []byte(chainPattern))
	if err != nil {
		t.Fatal(err)
	}
	if want := chainState(t); !reflect.DeepEqual(got, want) {
		t.Errorf("state is\n%+v, want\n%+v", got, want)
	}
}

// The table was made with CPython's json.dumps(json.loads(x), indent=2).
func TestEncode_valuesInPythonsForm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`0.7`: `0.7`, `1.0`: `1.0`, `1e5`: `100000.0`, `1E0`: `1.0`, `0.0001`: `0.0001`, `0.000099`: `9.9e-05`, `1e-7`: `1e-07`,
		`1e15`: `1000000000000000.0`, `1e16`: `1e+16`, `123456789012345678.0`: `1.2345678901234568e+17`, `1.5e300`: `1.5e+300`,
		`-0.0`: `-0.0`, `-0`: `0`, `5e-324`: `5e-324`, `0.30000000000000004`: `0.30000000000000004`,
		`123456789012345678901234567890`:        `123456789012345678901234567890`,
		`1e400`:                                 `1e400`, // not Python's Infinity, which is no JSON
		`true`:                                  `true`,
		`null`:                                  `null`,
		`[[],{},[{}]]`:                          "[\n    [],\n    {},\n    [\n      {}\n    ]\n  ]",
		`"\u007f\u0000\u001f\b\f\n\r\t\"\\\/"`:  `"\u007f\u0000\u001f\b\f\n\r\t\"\\/"`,
		`"é€😀` + "\u2028" + `<>&"`:              `"\u00e9\u20ac\ud83d\ude00\u2028<>&"`,
		`"\ud83d\ude00\u00E9\u003c"`:            `"\ud83d\ude00\u00e9<"`,
		`{"b":1,"a":2,"b":3}`:                   "{\n    \"b\": 1,\n    \"a\": 2,\n    \"b\": 3\n  }", // repeated keys further down stay
		` [ 1 ,2 ] `:                            "[\n    1,\n    2\n  ]",
		`{"é":{"k":[1.50]}}`:                    "{\n    \"\\u00e9\": {\n      \"k\": [\n        1.5\n      ]\n    }\n  }",
		`"half a pair \ud800 becomes U+FFFD"`:   `"half a pair \ufffd becomes U+FFFD"`,
		`"a\u0020b"`:                            `"a b"`,
		`{"":{"":""}}`:                          "{\n    \"\": {\n      \"\": \"\"\n    }\n  }",
		`[true,false,null,-1,-1.5,"x",{"y":0}]`: "[\n    true,\n    false,\n    null,\n    -1,\n    -1.5,\n    \"x\",\n    {\n      \"y\": 0\n    }\n  ]",
	} {
		var s strands.State
		s.Pattern.Set("v", json.RawMessage(in))
		_, got, err := s.Encode()
		if want = "{\n  \"v\": " + want + "\n}"; err != nil || string(got) != want {
			t.Errorf("%s is written\n%s (%v), want\n%s", in, got, err, want)
		}
	}
}

func TestDecodeState_ofAKeyThatStandsTwiceTheLastCounts(t *testing.T) {
	t.Parallel()
	s, err := strands.DecodeState([]byte(chainSession), []byte(`{"b":1,"a":2,"b":3}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := asJSON(t, s.Pattern); got != `{"b":3,"a":2}` {
		t.Errorf("pattern state is %s", got)
	}
}

func TestDecodeState_keysOfANewerProgramAreWrittenBack(t *testing.T) {
	t.Parallel()
	text := chainSession
	for _, after := range []string{`"metadata": {}`, `"failure_policy": null`, `"a": 5` + "\n    }", `"/out/report.md"` + "\n  ]"} {
		text = strings.Replace(text, after, after+`, "z_new": {"é": [1.5]}, "a_new": 0`, 1)
	}
	first, err := strands.DecodeState([]byte(text), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	written, _, err := first.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(written), `"z_new": {`); n != 4 {
		t.Errorf("%d of 4 unknown keys are left:\n%s", n, written)
	}
	var want, got any
	if json.Unmarshal([]byte(text), &want) != nil || json.Unmarshal(written, &got) != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("written back is\n%s\nread was\n%s", written, text)
	}
	again, err := strands.DecodeState(written, []byte("{}"))
	if err != nil || !reflect.DeepEqual(again.Extra, first.Extra) {
		t.Errorf("read again: %+v, %v", again.Extra, err)
	}
}

// What the documentation shows: few keys, times with Z.
func TestDecodeState_documentedForm(t *testing.T) {
	t.Parallel()
	s, err := strands.DecodeState([]byte(`{
		"metadata": {"session_id": "a1", "workflow_name": "w", "spec_hash": "h", "pattern_type": "chain", "status": "paused",
			"created_at": "2025-11-09T10:00:00Z", "updated_at": "2025-11-09T12:00:00.5+02:00"},
		"runtime_config": {"provider": "ollama", "host": "http://localhost:11434"}}`), []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	want := strands.State{
		Metadata: strands.Metadata{SessionID: "a1", WorkflowName: "w", SpecHash: "h", PatternType: "chain", Status: workflow.StatusPaused,
			CreatedAt: at(0), UpdatedAt: at(500_000)},
		RuntimeConfig: strands.RuntimeConfig{Provider: "ollama", Host: ptr("http://localhost:11434")},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("state is\n%+v, want\n%+v", s, want)
	}
}

func TestDecodeState_refusesByFileAndField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ session, pattern, path, reason string }{
		"no JSON":          {"{", "{}", "session.json", "not JSON"},
		"empty":            {"", "{}", "session.json", "empty"},
		"not UTF-8":        {"{\"a\":\"\xff\"}", "{}", "session.json", "UTF-8"},
		"no object":        {"[]", "{}", "session.json", "not an object"},
		"null":             {"null", "{}", "session.json", "null"},
		"no metadata":      {"{}", "{}", "session.json", "metadata is missing"},
		"an agent's":       {`{"session_id":"x","session_type":"AGENT"}`, "{}", "session.json", "one agent's session"},
		"unknown status":   {strings.Replace(chainSession, `"running"`, `"sleeping"`, 1), "{}", "session.json", "metadata.status"},
		"no time":          {strings.Replace(chainSession, `"2025-11-09T10:00:00+00:00"`, `"yesterday"`, 1), "{}", "session.json", "metadata.updated_at"},
		"a missing time":   {strings.Replace(chainSession, `"updated_at"`, `"up"`, 1), "{}", "session.json", "metadata.updated_at is missing"},
		"a wrong type":     {strings.Replace(chainSession, `: 8000`, `: "many"`, 1), "{}", "session.json", "runtime_config.max_tokens a JSON string"},
		"a wrong variable": {strings.Replace(chainSession, `"\"all\""`, `7`, 1), "{}", "session.json", "variables.audience a JSON number"},
		"NaN":              {chainSession, `{"score": NaN}`, "pattern_state.json", "not JSON"},
		"a list":           {chainSession, `[]`, "pattern_state.json", "not a JSON object"},
		"two values":       {chainSession, `{}{}`, "pattern_state.json", "not JSON"},
		"a deep one":       {chainSession, `{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, "pattern_state.json", "nested"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := strands.DecodeState([]byte(c.session), []byte(c.pattern))
			var corrupt *session.CorruptError
			if !errors.As(err, &corrupt) || corrupt.Path != c.path || !strings.Contains(corrupt.Reason, c.reason) {
				t.Errorf("error is %v, want %s: …%s…", err, c.path, c.reason)
			}
		})
	}
}

func TestExtension_golden(t *testing.T) {
	t.Parallel()
	s := chainState(t)
	s.Holdfast = &strands.Extension{Version: 7, SpecPath: "/specs/tea.yaml", Usage: dictOf(map[string]session.AgentUse{
		"a": {Input: 3, Output: 2, Calls: 1, Estimated: true},
	})}
	sessionJSON, patternJSON, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSuffix(chainSession, "\n}") + `,
  "holdfast": {
    "format": 1,
    "version": 7,
    "spec_path": "/specs/tea.yaml",
    "pattern_sha256": "570d09ae8b3a64f926994107a609f8b5f0172bbc9083c00d90d032d00a40a084",
    "usage": {
      "a": {
        "input": 3,
        "output": 2,
        "calls": 1,
        "estimated": true
      }
    }
  }
}`
	if string(sessionJSON) != want {
		t.Errorf("session.json is\n%s\nwant\n%s", sessionJSON, want)
	}
	got, err := strands.DecodeState(sessionJSON, patternJSON)
	s.Holdfast.PatternSHA256 = got.Holdfast.PatternSHA256
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("read back: %+v, %v", got, err)
	}
}

func TestExtension_newerFormatIsRefused(t *testing.T) {
	t.Parallel()
	text := strings.TrimSuffix(chainSession, "\n}") + `, "holdfast": {"format": 2, "anything": []}}`
	_, err := strands.DecodeState([]byte(text), []byte(chainPattern))
	var newer *session.NewerFormatError
	if !errors.As(err, &newer) || newer.Have != "2" || newer.Know != "1" {
		t.Errorf("error is %v, want a newer format", err)
	}
}

func TestQuestion_golden(t *testing.T) {
	t.Parallel()
	const golden = `{"active":true,"step_index":1,"task_id":null,"layer_index":null,"branch_id":null,"step_type":null,"node_id":null,` +
		`"iteration_index":null,"phase":null,"worker_count":null,"router_review":null,"prompt":"Gut?","context_display":"",` +
		`"default_response":"","timeout_at":"2025-11-09T10:00:00.000005+00:00","user_response":null}`
	q := workflow.HITLState{Active: true, StepIndex: ptr(1), Prompt: "Gut?", DefaultResponse: ptr(""), TimeoutAt: ptr(strands.FormatTime(at(5)))}
	if got := asJSON(t, q); got != golden {
		t.Errorf("hitl_state is\n%s, want\n%s", got, golden)
	}
	var back workflow.HITLState
	if err := json.Unmarshal([]byte(golden), &back); err != nil || !reflect.DeepEqual(back, q) {
		t.Errorf("question is %+v (%v)", back, err)
	}
	d := foreignDir(t, t.TempDir(), `pattern: {type: chain, config: {steps: [{type: hitl, prompt: x}]}}`, `{"hitl_state": {"active": 1}}`)
	if _, _, err := strands.Import(t.Context(), newRuntime(t, nil), d, strands.ImportOptions{}); !errors.Is(err, session.ErrCorrupt) || !strings.Contains(err.Error(), "hitl_state.active") {
		t.Errorf("error is %v, want corrupt hitl_state.active", err)
	}
}

func TestDict_isAValueInOrder(t *testing.T) {
	t.Parallel()
	var d strands.Dict[int]
	d.Set("z", 1)
	d.Set("a", 2)
	other := d
	other.Set("z", 3)
	other.Set("m", 4)
	other.Delete("a")
	other.Delete("not there")
	for want, dict := range map[string]strands.Dict[int]{`{"z":1,"a":2}`: d, `{"z":3,"m":4}`: other} {
		if got, err := json.Marshal(dict); err != nil || string(got) != want {
			t.Errorf("dict is %s (%v), want %s", got, err, want)
		}
	}
	if v, ok := other.Get("m"); v != 4 || !ok || other.Len() != 2 || !reflect.DeepEqual(maps.Collect(d.All()), map[string]int{"z": 1, "a": 2}) {
		t.Errorf("m is %d, %v; d is %v", v, ok, maps.Collect(d.All()))
	}
}

func TestParseTime_relatives(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2025-11-09T10:15:30.123456+00:00": "2025-11-09T10:15:30.123456+00:00",
		"2025-11-09T10:15:30Z":             "2025-11-09T10:15:30+00:00",
		"2025-11-09T10:15:30.5Z":           "2025-11-09T10:15:30.500000+00:00",
		"2025-11-09T10:15:30":              "2025-11-09T10:15:30+00:00",
		"2025-11-09 10:15:30.1234567":      "2025-11-09T10:15:30.123456+00:00",
		"2025-11-09T10:15:30-01:30":        "2025-11-09T11:45:30+00:00",
	} {
		got, err := strands.ParseTime(text)
		if err != nil || strands.FormatTime(got) != want {
			t.Errorf("%s is %s (%v), want %s", text, strands.FormatTime(got), err, want)
		}
	}
	for _, text := range []string{"", "soon", "2025-11-09", "0000-01-01T00:00:00Z", "2025-13-01T00:00:00Z"} {
		if got, err := strands.ParseTime(text); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q is %v (%v), want an invalid time", text, got, err)
		}
	}
}
