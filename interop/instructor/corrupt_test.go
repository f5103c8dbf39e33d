package instructor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/interop/instructor"
	"github.com/holdfast-dev/holdfast/session"
)

// changed is small.json with one path set to a JSON value; "-" removes it.
func changed(t *testing.T, path, value string) []byte {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(file(t, "small.json"), &root); err != nil {
		t.Fatal(err)
	}
	keys := strings.Split(path, "/")
	inner := root
	for _, key := range keys[:len(keys)-1] {
		next, ok := inner[key].(map[string]any)
		if !ok {
			t.Fatalf("small.json has no object at %s", path)
		}
		inner = next
	}
	last := keys[len(keys)-1]
	if value == "-" {
		delete(inner, last)
	} else {
		inner[last] = json.RawMessage(value)
	}
	data, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestImport_brokenFileIsCorruptWithThePath(t *testing.T) {
	t.Parallel()
	const sections = "state/context/messageStore/sections"
	message := func(fields string) string { return `[{"name":"messages","messages":[{` + fields + `}]}]` }
	for _, c := range []struct{ path, value, at, reason string }{
		{"header", "-", "header", "is missing"},
		{"definition", "-", "definition", "is missing"},
		{"state", "null", "state", "is missing"},
		{"state", "[]", "state", "is a list, not an object"},
		{"header/sessionId", `"../etc"`, "header.sessionId", "is not 1 to 128"},
		{"header/sessionId", `""`, "header.sessionId", "is not 1 to 128"},
		{"header/sessionId", "7", "header.sessionId", "is a number, not a string"},
		{"header/parentId", `"a b"`, "header.parentId", "is not 1 to 128"},
		{"header/status", `"sleeping"`, "header.status", "is not one of active, suspended, completed, failed, deleted"},
		{"header/status", "-", "header.status", "is missing"},
		{"header/version", "-1", "header.version", "is negative"},
		{"header/version", `"3"`, "header.version", "is a string, not a number"},
		{"header/createdAt", `"yesterday"`, "header.createdAt", "is not a time"},
		{"header/createdAt", "-", "header.createdAt", "is missing"},
		{"definition/tools", `"all"`, "definition.tools", "is a string, not a list"},
		{"definition/tools", `[" "]`, "definition.tools[0]", "is blank"},
		{"definition/tools", `[5]`, "definition.tools[0]", "is a number, not a string"},
		{"definition/tools", `{"a":"b"}`, "definition.tools", "is an object, not a list"},
		{"definition/budget", `{"maxSteps":-1}`, "definition.budget.maxSteps", "is negative"},
		{"definition/budget", `{"maxSteps":1.5}`, "definition.budget.maxSteps", "is not a whole number"},
		{"definition/metadata", `"x"`, "definition.metadata", "is a string, not an object"},
		{"state/agentId", "-", "state.agentId", "is missing"},
		{"state/execution", `{"executionId":"e","status":"dreaming"}`, "state.execution.status", "is not one of"},
		{"state/execution", `{"executionId":"","status":"failed"}`, "state.execution.executionId", "is empty"},
		{sections, message(`"id":"a","role":"robot","content":"x"`), "state.context.messageStore.sections[0].messages[0].role", "is not one of"},
		{sections, message(`"id":"a","role":"user","content":5`), "state.context.messageStore.sections[0].messages[0].content", "is a number, not a list"},
		{sections, message(`"id":"a","role":"user","content":"x","tool_calls":[{"id":"c","name":"n","arguments":{}}]`), "state.context.messageStore.sections[0].messages[0].tool_calls", "only an assistant"},
		{sections, message(`"id":"a","role":"assistant","content":"x","tool_calls":[{"id":"c","name":"","arguments":{}}]`), "state.context.messageStore.sections[0].messages[0].tool_calls[0].name", "is empty"},
		{sections, message(`"id":"a","role":"assistant","content":"x","tool_calls":[{"id":"c","name":"n","arguments":"[1"}]`), "state.context.messageStore.sections[0].messages[0].tool_calls[0].arguments", "not a JSON object"},
	} {
		s, report, err := instructor.Import(changed(t, c.path, c.value), foreign.Options{Now: now})
		var corrupt *session.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Path != c.at || !strings.Contains(corrupt.Reason, c.reason) {
			t.Errorf("%s = %s: error is %v, want CorruptError at %s: %s", c.path, c.value, err, c.at, c.reason)
		}
		if !s.IsZero() || !reflect.DeepEqual(report, foreign.Report{}) {
			t.Errorf("%s = %s: something came with the error", c.path, c.value)
		}
	}
}

func TestImport_notOneFileOfThisFormat(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"":                                   session.ErrCorrupt,
		"{":                                  session.ErrCorrupt,
		"[]":                                 session.ErrCorrupt,
		"null":                               session.ErrCorrupt,
		string(file(t, "small.json")) + "{}": session.ErrCorrupt,
		`{"format":"holdfast.session","formatVersion":1,"header":{},"definition":{},"state":{}}`: session.ErrInvalid,
	} {
		if _, _, err := instructor.Import([]byte(text), foreign.Options{Now: now}); !errors.Is(err, want) {
			t.Errorf("%.40q: error is %v, want %v", text, err, want)
		}
	}
}

func TestImport_masksTheLongerOfTwoSecrets(t *testing.T) {
	t.Parallel()
	data := changed(t, "definition/llmConfig", `{"driver":"openai","model":"m","apiKey":"sk-live-1234567","options":{"secret":"sk-live-1234567-and-more"}}`)
	data = []byte(strings.Replace(string(data), `"Hello"`, `"keys sk-live-1234567-and-more, sk-live-1234567"`, 1))
	s, _, err := instructor.Import(data, foreign.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Message(0).Content.Text(); got != "keys [secret:secret], [secret:apiKey]" {
		t.Errorf("the message says %q", got)
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		string(file(t, "small.json")):                                          true,
		"\ufeff" + string(file(t, "tools.json")):                               true,
		`{"header":{},"definition":{},"state":{}}`:                             true,
		`{"format":"holdfast.session","header":{},"definition":{},"state":{}}`: false,
		`{"header":{},"definition":{}}`:                                        false,
		`{"header":[],"definition":{},"state":{}}`:                             false,
		`[]`: false,
		`{`:  false,
	} {
		if got := instructor.Detect([]byte(text)); got != want {
			t.Errorf("%.60q: %v, want %v", text, got, want)
		}
	}
}

// Whatever imports has a log that folds to the same session, no open
// execution, and messages a store can keep.
func FuzzImport(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		f.Add(file(f, filepath.Base(name)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := instructor.Import(data, foreign.Options{Now: now})
		if err != nil {
			if !errors.Is(err, session.ErrCorrupt) && !errors.Is(err, session.ErrInvalid) {
				t.Fatalf("error is %v, want corrupt or invalid", err)
			}
			return
		}
		if s.Running() || s.Version() != 0 || s.Info().Origin != session.OriginImport {
			t.Fatalf("not ready to be created: %+v", s.Info())
		}
		document, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		folded, err := session.Fold(session.Unsaved(s))
		if err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(folded)
		if err != nil || !bytes.Equal(again, document) {
			t.Fatalf("the log folds to another session (%v):\n%s\n%s", err, document, again)
		}
	})
}
