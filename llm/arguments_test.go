package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/holdfast-dev/holdfast/llm"
)

func TestArguments_areAlwaysAnObject(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"": "{}", "  ": "{}", "null": "{}", `{"a":1}`: `{"a":1}`, " {\n} ": "{\n}", `"{\"a\":1}"`: `{"a":1}`, `""`: "{}",
	} {
		got := llm.Arguments(written)
		if _, bad := llm.Malformed(got); bad || string(got) != want {
			t.Errorf("%q: got %s", written, got)
		}
	}
	for _, written := range []string{`{"a":`, `[1]`, `7`, `"text"`, `{"a":1} x`, "bad\xff", `{"a":1}{"b":2}`, "\x00"} {
		got := llm.Arguments(written)
		var object map[string]any
		if err := json.Unmarshal(got, &object); err != nil {
			t.Errorf("%q: %s is no object: %v", written, got, err)
		}
		text, bad := llm.Malformed(got)
		if !bad || text == "" {
			t.Errorf("%q: %s is not known as malformed", written, got)
		}
	}
}

func TestMalformed_isNotWhatAToolMayBeAsked(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{}`, `{"malformed_arguments":1}`, `{"malformed_arguments":"x","a":1}`, `{"note":"malformed_arguments"}`, `{"a":{"malformed_arguments":"x"}}`, ``} {
		if _, bad := llm.Malformed(json.RawMessage(raw)); bad {
			t.Errorf("%s is known as malformed", raw)
		}
	}
}
