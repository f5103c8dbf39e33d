package workflow_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/workflow"
)

func noted(format string, last string) string {
	return head + `
agents: {a: {prompt: A}, b: {prompt: B}, c: {prompt: C}}
context_policy: {notes: {file: notes/n.txt, include_last: ` + last + `, format: ` + format + `}}
pattern: {type: chain, config: {steps: [{agent: a, input: one}, {agent: b, input: two}, {agent: c, input: three}, {agent: a, input: four}]}}
`
}

func TestNotes_areWrittenAndShownToAgentsThatComeLater(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(r llm.Request) (llm.Response, error) {
		return said("## heading of " + input(r) + "\n## " + strings.Repeat("x", 300)), nil
	})
	s.host.WorkDir = t.TempDir()
	if _, err := s.start(noted("markdown", "1")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(s.host.WorkDir, "notes", "n.txt"))
	if err != nil {
		t.Fatal(err)
	}
	entry := regexp.MustCompile(`(?m)^## \d{4}-\d\d-\d\dT[0-9:.]+\+00:00, (\w), step (\d)\n\n- Input: (\w+)\n- Tools: none\n- Outcome: ## heading of \w+\n## x+\.\.\.\n\n`)
	var got []string
	for _, m := range entry.FindAllStringSubmatch(string(data), -1) {
		got = append(got, strings.Join(m[1:], " "))
	}
	if strings.Join(got, ", ") != "a 1 one, b 2 two, c 3 three, a 4 four" {
		t.Errorf("noted: %q\n%s", got, data)
	}
	if system := s.asked[0].System; strings.Contains(system, "Notes") {
		t.Errorf("the first agent was told %q", system)
	}
	if system := s.asked[2].System; !strings.Contains(system, "# Notes from earlier work\n\n## ") || !strings.Contains(system, ", b, step 2") || strings.Contains(system, ", a, step 1") {
		t.Errorf("the third agent was told %q", system)
	}
	if s.asked[3].System != s.asked[0].System {
		t.Error("the prompt of a conversation changed")
	}
}

func TestNotes_areNotWrittenThroughALink(t *testing.T) {
	t.Parallel()
	s, elsewhere := newScene(t, echo), t.TempDir()
	s.host.WorkDir = t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(s.host.WorkDir, "notes")); err != nil {
		t.Skip(err)
	}
	if _, err := s.start(noted("markdown", "1")); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) != 0 {
		t.Errorf("%v was written elsewhere (%v)", left, err)
	}
	if !strings.Contains(s.warnings(), "leads out of") {
		t.Errorf("warned: %s", s.warnings())
	}
}

func TestNotes_asJSON(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.host.WorkDir = t.TempDir()
	s.completes("re: four")(s.start(noted("json", "2")))
	data, err := os.ReadFile(filepath.Join(s.host.WorkDir, "notes", "n.txt"))
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(list) != 4 {
		t.Fatalf("noted: %s", data)
	}
	var entry struct {
		Timestamp, Agent, Input, Outcome string
		Step                             int
		Tools                            []string `json:"tools_used"`
	}
	if err := json.Unmarshal([]byte(list[1]), &entry); err != nil || entry.Agent != "b" || entry.Step != 2 || entry.Input != "two" || entry.Outcome != "re: two" ||
		entry.Tools == nil || entry.Timestamp == "" {
		t.Errorf("noted: %s (%v)", list[1], err)
	}
	if system := s.asked[2].System; !strings.Contains(system, list[0]+"\n"+list[1]) {
		t.Errorf("the third agent was told %q", system)
	}
}

func TestNotes_resumeAddsWhatTheFileLacks(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.host.WorkDir = t.TempDir()
	s.actor.answer = func(r llm.Request) (llm.Response, error) {
		if input(r) == "three" {
			return llm.Response{}, errors.New("no")
		}
		return echo(r)
	}
	s.fails(workflow.KindProvider, "step/2")(s.start(noted("markdown", "12")))
	path := filepath.Join(s.host.WorkDir, "notes", "n.txt")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := strings.LastIndex(string(whole), "## ")
	if err := os.WriteFile(path, []byte("## 2020-01-01T00:00:00+00:00, z, step 9\n\n"+string(whole[:second])), 0o600); err != nil {
		t.Fatal(err)
	}
	s.actor.answer = echo
	s.completes("re: four")(s.resume(workflow.ResumeOptions{}))
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), "\n- Input: ") != 4 || strings.Count(string(data), "- Input: two\n") != 1 {
		t.Errorf("noted: %s (%v)", data, err)
	}
}

func TestNotes_aFailingFileWarns(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	s.host.WorkDir = t.TempDir()
	if err := os.WriteFile(filepath.Join(s.host.WorkDir, "notes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.completes("re: four")(s.start(noted("markdown", "12")))
	if !strings.Contains(s.warnings(), "a note cannot be written") {
		t.Errorf("warned: %s", s.warnings())
	}
}

func TestNotes_ofConcurrentUnitsAreNumberedByCalls(t *testing.T) {
	t.Parallel()
	s := newScene(t, echo)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s.host.Now = func() time.Time { return at }
	s.host.WorkDir = t.TempDir()
	res, err := s.start(head + `
agents: {a: {prompt: A}}
context_policy: {notes: {file: n}}
pattern: {type: parallel, config: {branches: [{id: x, steps: [{agent: a, input: i}, {agent: a, input: i}]}, {id: y, steps: [{agent: a, input: i}]}]}}
`)
	if err != nil {
		t.Fatalf("%+v (%v)", res, err)
	}
	data, err := os.ReadFile(filepath.Join(s.host.WorkDir, "n"))
	for _, step := range []string{"a, step 1\n", "a, step 2\n", "a, step 3\n"} {
		if err != nil || strings.Count(string(data), step) != 1 {
			t.Errorf("noted: %s (%v)", data, err)
		}
	}
}
