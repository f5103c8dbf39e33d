package spec_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// eachOf loads a spec for each item of a list, with a file beside it.
func eachOf(t *testing.T, list, name, data string, vars spec.Map[string]) (*spec.Spec, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "spec.yaml")
	text := `{version: 1, name: x, runtime: {provider: x}, agents: {a: {prompt: P}}, inputs: {optional: {towns: array}}, pattern: {type: parallel, config: {for_each: {` +
		list + ` steps: [{agent: a, input: "{{ item }}"}]}}}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return spec.Load(path, vars)
}

func TestForEach_readsItsItems(t *testing.T) {
	t.Parallel()
	towns := func(value string) spec.Map[string] { return spec.Map[string]{{Name: "towns", Value: value}} }
	for name, c := range map[string]struct {
		list, file, data string
		vars             spec.Map[string]
		want             string
	}{
		"in place":        {list: "items: [a, {b: 1.0}, null],", want: `["a",{"b":1.0},null]`},
		"none":            {list: "items: [],", want: `[]`},
		"a variable":      {list: "input: towns,", vars: towns(`["Oslo", {"n": 2}]`), want: `["Oslo",{"n":2}]`},
		"nothing given":   {list: "input: towns,", want: `[]`},
		"JSON":            {list: "file: f.json,", file: "f.json", data: "\ufeff" + `[1, "two"]`, want: `[1,"two"]`},
		"lines":           {list: "file: f.jsonl,", file: "f.jsonl", data: "{\"a\": 1}\n\n\"x\"\r\n3", want: `[{"a":1},"x",3]`},
		"a table":         {list: "file: f.csv,", file: "f.csv", data: "\ufefft,c\r\n\"a,b\",1\nc,\n", want: `[{"t":"a,b","c":"1"},{"t":"c","c":""}]`},
		"an empty table":  {list: "file: f.csv,", file: "f.csv", data: "t\n", want: `[]`},
		"a file of lines": {list: "file: F.NDJSON,", file: "F.NDJSON", data: "", want: `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.file == "" {
				c.file = "unused"
			}
			s, err := eachOf(t, c.list, c.file, c.data, c.vars)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Complete(); err != nil {
				t.Fatal(err)
			}
			items := spec.Map[any]{{Name: "items", Value: []any{}}}
			for i, b := range s.Pattern.Parallel.Branches {
				if b.ID != string(rune('0'+i)) || len(b.Steps) != 1 {
					t.Errorf("branch %d is %+v", i, b)
				}
				items[0].Value = append(items[0].Value.([]any), b.Item)
			}
			if got := jsonOf(t, items); got != `{"items":`+c.want+`}` {
				t.Errorf("the items are %s, want %s", got, c.want)
			}
			// The copy is all that is needed.
			snap, err := s.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Dir(s.Path())); err != nil {
				t.Fatal(err)
			}
			kept, err := spec.Loader{}.Parse(snap.Source(), c.vars)
			if err != nil {
				t.Fatal(err)
			}
			if d := different(s, kept); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestForEach_saysWhatIsWrong(t *testing.T) {
	t.Parallel()
	const each = "/pattern/config/for_each"
	for name, c := range map[string]struct{ list, file, data, pointer, reason string }{
		"no list":        {"", "f", "", each, "has 0 of items, input and file; write one"},
		"two lists":      {"items: [a], file: f.csv,", "f.csv", "", each, "has 2 of items, input and file; write one"},
		"no list at all": {"items: a,", "f", "", each + "/items", "is a string, not a list"},
		"unknown input":  {"input: cities,", "f", "", each + "/input", `names the input "cities", which is not under inputs`},
		"no file":        {"file: g.csv,", "f", "", each + "/file", `refers to "g.csv", which does not exist`},
		"extension":      {"file: f.txt,", "f.txt", "", each + "/file", `has the extension ".txt", not .json, .jsonl, .ndjson or .csv`},
		"no JSON":        {"file: f.json,", "f.json", "[1,", each + "/file", `refers to "f.json", which `},
		"no JSON list":   {"file: f.json,", "f.json", `{"a": 1}`, each + "/file", "which is a map, not a list"},
		"a bad line":     {"file: f.jsonl,", "f.jsonl", "1\n{\n", each + "/file", "in line 2 of the file"},
		"no columns":     {"file: f.csv,", "f.csv", "", each + "/file", "has no first row, which names the columns"},
		"a column twice": {"file: f.csv,", "f.csv", "a,a\n", each + "/file", `names column 2 "a"; give each a name of its own`},
		"a short row":    {"file: f.csv,", "f.csv", "a,b\n1\n", each + "/file", "is no table: record on line 2: wrong number of fields"},
		"no text":        {"file: f.csv,", "f.csv", "a\n\xff\n", each + "/file", "is not valid UTF-8"},
		"too many":       {"file: f.jsonl,", "f.jsonl", strings.Repeat("1\n", spec.MaxItems+1), each + "/file", "has 10001 items, more than 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := eachOf(t, c.list, c.file, c.data, nil)
			var bad *session.SpecError
			if !errors.As(err, &bad) || bad.Pointer != c.pointer || !strings.Contains(bad.Reason, c.reason) {
				t.Errorf("the error is %v, want %s: %s", err, c.pointer, c.reason)
			}
		})
	}
	_, err := parse(yamlOf(config("parallel", "branches: [{id: a, steps: [{agent: a}]}, {id: b, steps: [{agent: a}]}], for_each: {items: [1], steps: [{agent: a}]}")))
	if bad := refused(t, err); bad.Pointer != "/pattern/config" || !strings.Contains(bad.Reason, "has both branches and for_each; keep one") {
		t.Errorf("branches and for_each: %v", err)
	}
}

func TestForEach_refusesAVariableThatIsNoList(t *testing.T) {
	t.Parallel()
	for value, reason := range map[string]string{"Oslo": "write a list in JSON", `{"a": 1}`: "it is a map, not a list"} {
		s, err := eachOf(t, "input: towns,", "f", "", spec.Map[string]{{Name: "towns", Value: value}})
		if err != nil {
			t.Fatal(err)
		}
		var bad *session.InvalidError
		if err := s.Complete(); !errors.As(err, &bad) || bad.Field != "inputs.towns" || !strings.Contains(bad.Reason, reason) {
			t.Errorf("%q: the error is %v, want %s", value, err, reason)
		}
	}
}
