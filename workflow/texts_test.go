package workflow

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a text the engine adds with its file, to the letter.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", "texts", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s reads\n%s\nwant\n%s", name, text, want)
	}
}

func TestTexts_areThoseOfTheGoldenFiles(t *testing.T) {
	t.Parallel()
	full := &spec.Spec{
		Name: "Letters", Description: "Writes letters.", Tags: []string{"mail", "tea"},
		Runtime: spec.Runtime{Budgets: &spec.Budgets{MaxSteps: ptr(3), MaxTokens: ptr(900), MaxDurationS: ptr(60)}},
		Skills:  []spec.Skill{{ID: "spell", Path: "skills/spell", Description: "Spelling."}, {ID: "tone", Path: "skills/tone"}},
	}
	full.Tools.HTTPExecutors = []spec.HTTPExecutor{
		{
			ID: "post", BaseURL: "https://post.example", Description: "The post office.", AuthenticationInfo: "a token",
			CommonEndpoints: []spec.Endpoint{{Path: "/send", Method: "POST", Description: "sends"}, {Path: "/list", Description: "lists"}},
		},
		{ID: "bare", BaseURL: "https://bare.example"},
	}
	golden(t, "system", systemText(full, "writer", "You write.", "## a note"))
	golden(t, "system_bare", systemText(&spec.Spec{Name: "Letters"}, "writer", "You write.", ""))
	at := time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)
	golden(t, "note", noteText("markdown", at, "writer", 2, strings.Repeat("é", 201), []string{"look", "grep"}, "done"))
	golden(t, "note_json", noteText("json", at, "writer", 2, "in \"é\"\n", nil, strings.Repeat("x", 200)))
	golden(t, "router", routerText("Where to?", []string{"one", "two"}, false))
	golden(t, "router_again", routerText("Where to?", []string{"one", "two"}, true))
	golden(t, "evaluator", evaluatorText("The draft."))
	golden(t, "evaluator_again", evaluateAgainText("The draft."))
	golden(t, "revise", reviseText("The draft.", evaluation{Score: 40, Issues: []string{"dull", "long"}, Fixes: []string{"cut"}}))
	golden(t, "revise_bare", reviseText("The draft.", evaluation{Score: 40}))
	golden(t, "plan", planText(spec.Map[any]{{Name: "topic", Value: "tée"}, {Name: "n", Value: 1.0}}, ptr(4), nil))
	golden(t, "plan_again", planText(nil, nil, ptr(strings.Repeat("ü", 501))))
	golden(t, "node", nodeText("end", []string{"a", "b"}))
	golden(t, "node_first", nodeText("start", nil))
	golden(t, "summary", memory.SummaryQuestion+"\n"+summarisedText("All is well."))
}
