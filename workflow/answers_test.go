package workflow

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/internal/pyjson"
)

func TestReadRoute(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"route": "a"}`:                                            "a",
		"  \n{\"route\": \"a\", \"why\": {}}\t":                     "a",
		"Sure!\n```json\n{\"route\": \"a\"}\n```\nBye.":             "a",
		"```\n{\"route\": \"a\"}```":                                "a",
		"```json\n[1]\n```\n```json\n{\"route\": \"b\"}\n```":       "b", // the first fence that opens with a brace
		"```json\n{\"x\": {\"y\": 1}, \"route\": \"a\"}\n```":       "a", // to the bracket before the closing fence
		"I choose {\"route\": \"a\"} because {} is empty":           "a",
		"{ \"why\": \"x\",\n \"route\" : \"a b\" } and {\"route\"}": "a b",
		`{"route": ""}`:                 "",
		`{"route": "a"} {"route": "b"}`: "a", // not one JSON: the span is
	} {
		got, err := readRoute(answer)
		if err != nil || got != want {
			t.Errorf("%q is read as %q (%v), want %q", answer, got, err, want)
		}
	}
	for _, answer := range []string{"", "a", `"a"`, `["route"]`, `{"route": 1}`, `{"route": null}`, `{"Route": "a"}`, `{"route": ["a"]}`, "null", "```json\n{\"route\": \"a\"\n```", `{"route": "a"`, "{{}"} {
		if got, err := readRoute(answer); err == nil {
			t.Errorf("%q is read as %q", answer, got)
		}
	}
}

func TestReadEvaluation(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"score": 85}`: "85 [] []",
		`{"score": 85.0, "issues": null, "fixes": ["x"]}`:  "85 [] [x]",
		`{"score": "85", "issues": ["a", "b"], "more": 1}`: "85 [a b] []",
		`{"score": 0}`:                        "0 [] []",
		`{"score": 100}`:                      "100 [] []",
		`{"score": 1e1}`:                      "10 [] []",
		"Well.\n```json\n{\"score\": 7}\n```": "7 [] []",
		`It gets {"score": 7, "issues": ["x"]}, I think.`: "7 [x] []",
	} {
		got, err := readEvaluation(answer)
		if err != nil || fmt.Sprint(got.Score, got.Issues, got.Fixes) != want {
			t.Errorf("%q is read as %v (%v), want %s", answer, got, err, want)
		}
	}
	for _, answer := range []string{
		`{"score": 101} or rather {"score": 9}`, // the first span is out of range
		"", "85", `{"score": 85.5}`, `{"score": -1}`, `{"score": 101}`, `{"score": true}`, `{"score": "high"}`, `{"score": "NaN"}`, `{"score": null}`, `{"issues": []}`,
		`{"score": 1, "issues": "x"}`, `{"score": 1, "fixes": [1]}`, `{"score": 1, "issues": [null]}`, `{"score": "0x10"}`,
	} {
		if got, err := readEvaluation(answer); err == nil {
			t.Errorf("%q is read as %v", answer, got)
		}
	}
}

func TestReadPlan(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`[]`:                           "",
		`[{"task": "a"}, {"task": 2}]`: "a|2",
		`{"task": "only"}`:             "only",
		`["a", "b c"]`:                 "a|b c",
		`[{"name": "x", "n": [1, 2.5, true, null]}]`:          "{'name': 'x', 'n': [1, 2.5, True, None]}",
		`[{"task": {"deep": "it's"}}]`:                        `{'deep': "it's"}`,
		"Plan:\n```json\n[{\"task\": \"a\"}]\n```":            "a",
		"```\n{\"task\": \"a\"}\n```":                         "a",
		"So: [{\"task\": \"a\"},\n {\"task\": \"b\"}] is all": "a|b",
		"[1] and [ {\"task\": \"c\"} ]":                       "c",
		`[{"task": ""}]`:                                      "",
		`[{"task": "{{ x }}"}]`:                               "{{ x }}", // never rendered
	} {
		raw, err := readPlan(answer)
		if err != nil {
			t.Errorf("%q: %v", answer, err)
			continue
		}
		tasks, err := planTasks(raw)
		if err != nil || strings.Join(tasks, "|") != want {
			t.Errorf("%q is read as %q (%v), want %q", answer, tasks, err, want)
		}
	}
	for _, answer := range []string{"", "none", "null", `"a"`, "3", "[1]", "[null]", "[[]]", `[{"task": "a"}`, `[{"task": "a"}, 1]`} {
		if got, err := readPlan(answer); err == nil {
			t.Errorf("%q is read as %s", answer, got)
		}
	}
}

func TestRead_anythingIsReadOrRefused(t *testing.T) {
	t.Parallel()
	pieces := property.SliceOfN(property.SampledFrom([]string{
		"{", "}", "[", "]", "```", "json", "\n", `"score"`, `"task"`, `"route"`, ":", ",", "1e400", "85", `"x"`, `"\ud800"`, "null", "true", "é", "\xff", " ",
	}), 0, 40)
	property.Check(t, func(t *property.T) {
		answer := strings.Join(pieces.Draw(t, "pieces"), "")
		_, _ = readRoute(answer)
		if e, err := readEvaluation(answer); err == nil && (e.Score < 0 || e.Score > 100 || e.Issues == nil || e.Fixes == nil) {
			t.Errorf("%q is read as %+v", answer, e)
		}
		if raw, err := readPlan(answer); err == nil {
			if _, err := planTasks(raw); err != nil {
				t.Errorf("the plan of %q: %v", answer, err)
			}
			pyjson.Print(raw, "  ", true)
		}
	})
}
