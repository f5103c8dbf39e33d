package definition_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/session"
)

func ptr[T any](v T) *T { return &v }

// researcher is what the files in testdata/same say.
func researcher() session.Definition {
	return session.Definition{
		Name: "researcher", Label: "Researcher", Description: "Finds things out and says where.",
		SystemPrompt: "You find things out.\n\nSay where you found them.", Model: "openai/gpt-4.1-mini",
		ModelParams: &session.ModelParams{
			MaxOutputTokens: ptr(2048), Temperature: ptr(0.2), TopP: ptr(0.9), Stop: []string{"END", "\n\n"},
			Options: session.Values{"seed": []byte("7"), "logit": []byte(`{"b":[1,2.50],"a":null}`)},
		},
		Tools: []string{"search", "read_file"}, ToolsDeny: []string{}, Skills: []string{"citing"},
		Capabilities: []string{"files", "web"}, Subagents: []string{"reader"},
		MCP: []session.MCPServer{
			{ID: "files", Command: "mcp-files", Args: []string{"--root", "."}, Env: map[string]string{"LOG_LEVEL": "info", "API_TOKEN": "${FILES_TOKEN}"}},
			{ID: "wiki", URL: "https://wiki.example/mcp", Headers: map[string]string{"Authorization": "Bearer ${WIKI_TOKEN}"}},
		},
		ResponseFormat: &session.ResponseFormat{Type: "json_schema", Name: "answer", Strict: true, Schema: []byte(`{"type":"object","properties":{"text":{"type":"string"}}}`)},
		Budget: &session.Budget{
			MaxSteps: ptr(int64(20)), MaxTokens: ptr(int64(100000)), MaxSeconds: ptr(90.5), MaxCost: ptr(session.Dollars(0.25)),
			Deadline: ptr(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
		},
		Memory: &session.MemoryPolicy{
			Strategy: session.PruneSummary, Limit: ptr(40), SummaryPrompt: "Sum up.", SummaryModel: "openai/gpt-4.1-nano", Slack: ptr(4), ToolTrace: "current",
			Recall: &session.Recall{Limit: 5, Threshold: ptr(0.4), Scopes: []string{"session", "user"}}, Tools: true, Scopes: []string{"session", "user"},
			Blocks: []session.MemoryBlock{{Name: "plan", Description: "What to do next.", Limit: 500}, {Name: "human", Scope: "user", Text: "Nothing yet.", ReadOnly: true}},
			Facts:  &session.Facts{Model: "openai/gpt-4.1", Prompt: "Find names.", Scope: "agent"},
		},
		Metadata: session.Values{"team": []byte(`"north"`), "tier": []byte("2"), "tags": []byte(`["a","b"]`), "note": []byte("null")},
	}
}

func TestLoad_allFormatsSayTheSame(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"full.json", "full.yaml", "full.md"} {
		d, err := definition.Load(filepath.Join("testdata", "same", file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if want := researcher(); !reflect.DeepEqual(d, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", file, d, want)
		}
	}
}

func TestParse_keepsNilAndEmptyTools(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"name: a\n":                     nil,
		"name: a\ntools: []\n":          {},
		"name: a\ntools: [b, a, b]\n":   {"b", "a"},
		"name: a\ntools:\n- a\n- '5'\n": {"a", "5"},
	} {
		d := parse(t, "a.yaml", text)
		if !reflect.DeepEqual(d.Tools, want) {
			t.Errorf("%q: tools are %#v, want %#v", text, d.Tools, want)
		}
	}
}

func TestParse_budgetThatIsMissingEmptyOrNull(t *testing.T) {
	t.Parallel()
	if d := parse(t, "a.yaml", "name: a"); d.Budget != nil {
		t.Errorf("a missing budget is %+v, want nil", d.Budget)
	}
	for _, text := range []string{"name: a\nbudget: {}", "name: a\nbudget: {maxSteps: null}"} {
		if d := parse(t, "a.yaml", text); d.Budget == nil || *d.Budget != (session.Budget{}) {
			t.Errorf("%q: budget is %+v, want one without limits", text, d.Budget)
		}
	}
	if d := parse(t, "a.yaml", "name: a\nbudget: {maxSteps: 0}"); d.Budget.MaxSteps == nil || *d.Budget.MaxSteps != 0 {
		t.Error("a limit of zero was lost")
	}
}

func TestParse_markdownEndingsAndMarks(t *testing.T) {
	t.Parallel()
	const want = "Be brief.\n\nBe kind."
	for name, text := range map[string]string{
		"lf":               "---\nname: a\n---\n\nBe brief.\n\nBe kind.\n",
		"crlf":             "---\r\nname: a\r\n---\r\n\r\nBe brief.\r\n\r\nBe kind.\r\n",
		"byte order mark":  "\ufeff---\nname: a\n---\nBe brief.\n\nBe kind.",
		"mark and crlf":    "\ufeff---\r\nname: a\r\n---\r\nBe brief.\r\n\r\nBe kind.",
		"spaces at fences": "--- \nname: a\n---\t\n  \n Be brief.\n\nBe kind.  \n",
	} {
		d := parse(t, "a.MD", text)
		if d.Name != "a" || d.SystemPrompt != want {
			t.Errorf("%s: name %q, prompt %q", name, d.Name, d.SystemPrompt)
		}
	}
	d := parse(t, "a.md", "---\nname: a\n---\nabove\n---\nbelow\n")
	if d.SystemPrompt != "above\n---\nbelow" {
		t.Errorf("a fence in the body ended up as %q", d.SystemPrompt)
	}
}

func TestParse_extensionDecidesAndIsChecked(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"a.JSON", "dir.md/a.Json"} {
		if d := parse(t, source, `{"name":"a"}`); d.Name != "a" {
			t.Errorf("%s: name is %q", source, d.Name)
		}
	}
	for _, source := range []string{"a", "a.txt", "a.yaml.bak", "md"} {
		_, err := definition.Parse(source, []byte("name: a"))
		var invalid *session.InvalidError
		if !errors.As(err, &invalid) {
			t.Errorf("%q: error is %v, want an InvalidError", source, err)
		}
	}
}

func TestParse_refusesWhatWouldTakeLong(t *testing.T) {
	t.Parallel()
	bomb := "name: a\nmetadata:\n  a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'm'; c++ {
		p := string(c - 1)
		bomb += "  " + string(c) + ": &" + string(c) + " [*" + strings.TrimSuffix(strings.Repeat(p+", *", 10), ", *") + "]\n"
	}
	for name, c := range map[string]struct{ source, text, want string }{
		"large":         {"a.yaml", "name: a\n" + strings.Repeat("#", definition.MaxSize), "larger than"},
		"alias bomb":    {"a.yaml", bomb, "aliases are written out"},
		"self alias":    {"a.yaml", "name: a\nmetadata: &m {x: *m}\n", "alias"},
		"many words":    {"a.yaml", "name: a\ntools:\n" + strings.Repeat("- x\n", 20_000), "words and signs"},
		"flow nesting":  {"a.yaml", "name: a\nmetadata: {x: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}\n", "deeper"},
		"block nesting": {"a.yaml", "name: a\nmetadata:\n  x: \n    " + strings.Repeat("- ", 5000) + "x\n", "deeper"},
		"json nesting":  {"a.json", `{"name":"a","metadata":{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}}", "deeper"},
	} {
		_, err := definition.Parse(c.source, []byte(c.text))
		var refused *session.DefinitionError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want a DefinitionError about %q", name, err, c.want)
		}
	}
}

func TestLoad_refusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := definition.Load(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("loading a directory: %v", err)
	}
	if _, err := definition.Load(filepath.Join(dir, "gone.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("loading a missing file: %v", err)
	}
}

func parse(t *testing.T, source, text string) session.Definition {
	t.Helper()
	d, err := definition.Parse(source, []byte(text))
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return d
}
