package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const plainSpec = `
version: 1
name: try
runtime: {provider: openai}
agents: {a: {prompt: Help.}}
pattern: {type: chain, config: {steps: [{agent: a, input: Go.}]}}
`

// parse reads a spec that is plainSpec with more to it.
func parse(t testing.TB, more string) *spec.Spec {
	t.Helper()
	return parseWith(t, more)
}

func newBox(t *testing.T, c tools.Config) *tools.Box {
	t.Helper()
	if c.Spec == nil {
		c.Spec = parse(t, "")
	}
	if c.WorkDir == "" {
		c.WorkDir = t.TempDir()
	}
	b, err := tools.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// use calls a tool of a box by the name a spec has for it.
func use(t *testing.T, b *tools.Box, name string, in map[string]any) tool.Result {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	found := b.For([]string{name}, true)
	if len(found) == 0 {
		t.Fatalf("there is no %s", name)
	}
	got, err := found[0].Call(t.Context(), tool.Call{ID: "c", Arguments: raw})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return got
}

// works and fails hold a call's result against what it must be.
func works(t *testing.T, b *tools.Box, name string, in map[string]any, want string) {
	t.Helper()
	if got := use(t, b, name, in); got != (tool.Result{Content: want}) {
		t.Errorf("%s %v: got %+v, want %q", name, in, got, want)
	}
}

func fails(t *testing.T, b *tools.Box, name string, in map[string]any, want string) {
	t.Helper()
	if got := use(t, b, name, in); !got.IsError || !strings.Contains(got.Content, want) {
		t.Errorf("%s %v: got %+v, want an error with %q", name, in, got, want)
	}
}

func namesOf(list []tool.Tool) []string {
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.Spec().Name
	}
	return names
}

func TestFor_namesOfAUnit(t *testing.T) {
	t.Parallel()
	const section = `
tools:
  python: [strands_cli.tools.grep, {callable: calculator}]
  http_executors: [{id: crm, base_url: "https://crm.example.com"}, {id: "a.b:c", base_url: "https://abc.example.com"}]
`
	odd := tools.ExecutorName("a.b:c")
	b := newBox(t, tools.Config{Spec: parse(t, section)})
	for name, c := range map[string]struct {
		names  []string
		listed bool
		want   []string
	}{
		"no list":                   {nil, false, []string{"grep", "calculator", "crm", odd}},
		"no list, one more":         {[]string{"head", "grep"}, false, []string{"grep", "calculator", "crm", odd, "head"}},
		"an empty list":             {nil, true, nil},
		"native though not in spec": {[]string{"file_read", "strands_cli.tools.tail"}, true, []string{"file_read", "tail"}},
		"a web service":             {[]string{"a.b:c", "crm"}, true, []string{odd, "crm"}},
		"twice":                     {[]string{"grep", "strands_cli.tools.grep"}, true, []string{"grep"}},
		"unknown":                   {[]string{"teleport", "python_exec", "Skill"}, true, nil},
	} {
		if got := namesOf(b.For(c.names, c.listed)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if _, err := tool.NewSet(b.For(nil, false)...); err != nil {
		t.Error(err)
	}
}

func TestFor_noWeb(t *testing.T) {
	t.Parallel()
	all := []string{"calculator", "http_request", "web_fetch", "tavily_search", "crm", "grep"}
	b := newBox(t, tools.Config{NoWeb: true, Spec: parse(t, "tools:\n  http_executors: [{id: crm, base_url: \"https://crm.example.com\"}]\n")})
	if got, want := namesOf(b.For(all, true)), []string{"calculator", "grep"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFor_guardrails(t *testing.T) {
	t.Parallel()
	const section = `
tools:
  http_executors: [{id: crm, base_url: "https://crm.example.com"}]
security: {guardrails: `
	all := []string{"calculator", "http_request", "web_fetch", "tavily_search", "crm", "grep"}
	for rules, want := range map[string][]string{
		`{deny_network: true}`:                                         {"calculator", "grep"},
		`{deny_network: false}`:                                        all,
		`{allow_tools: [crm, strands_cli.tools.grep]}`:                 {"crm", "grep"},
		`{allow_tools: []}`:                                            nil,
		`{deny_network: true, allow_tools: [http_request, crm, grep]}`: {"grep"},
	} {
		b := newBox(t, tools.Config{Spec: parse(t, section+rules+"}\n")})
		if got := namesOf(b.For(all, true)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", rules, got, want)
		}
	}
}

func TestFromServer_guardrails(t *testing.T) {
	t.Parallel()
	offered := []tool.Tool{tool.Fake("git__log", "", ""), tool.Fake("git__push", "", "")}
	for rules, want := range map[string][]string{
		``: {"git__log", "git__push"},
		"security: {guardrails: {deny_network: true}}\n":                nil,
		"security: {guardrails: {allow_tools: [git]}}\n":                {"git__log", "git__push"},
		"security: {guardrails: {allow_tools: [git__log]}}\n":           {"git__log"},
		"security: {guardrails: {allow_tools: [push, calculator]}}\n":   {"git__push"},
		"security: {guardrails: {allow_tools: [calculator, github]}}\n": nil,
	} {
		b := newBox(t, tools.Config{Spec: parse(t, rules)})
		if got := namesOf(b.FromServer("git", offered)); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", rules, got, want)
		}
	}
	if len(offered) != 2 || offered[0].Spec().Name != "git__log" {
		t.Error("the list of the caller was changed")
	}
}

func TestFor_natures(t *testing.T) {
	t.Parallel()
	b := newBox(t, tools.Config{Spec: parse(t, `
tools:
  http_executors: [{id: crm, base_url: "https://crm.example.com"}]
`)})
	want := map[string]tool.Nature{
		"calculator": tool.ReadOnly, "current_time": tool.ReadOnly, "file_read": tool.ReadOnly, "grep": tool.ReadOnly, "search": tool.ReadOnly,
		"head": tool.ReadOnly, "tail": tool.ReadOnly, "web_fetch": tool.ReadOnly, "tavily_search": tool.ReadOnly, "spec_verify": tool.ReadOnly,
		"file_write": tool.Idempotent, "http_request": tool.Once, "crm": tool.Once,
	}
	for name, nature := range want {
		if found := b.For([]string{name}, true); len(found) != 1 || found[0].Spec().Nature != nature {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestCall_failuresAreResults(t *testing.T) {
	t.Parallel()
	b := newBox(t, tools.Config{})
	fails(t, b, "calculator", nil, "expression")
	fails(t, b, "calculator", map[string]any{"expression": 1}, "expression")
	fails(t, b, "calculator", map[string]any{"expression": "1", "more": true}, "more")
	for _, raw := range []string{`[]`, `{`, `"x"`} {
		got, err := b.For([]string{"grep"}, true)[0].Call(t.Context(), tool.Call{Arguments: json.RawMessage(raw)})
		if err != nil || !got.IsError {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	// No arguments at all are as an empty object.
	if got, err := b.For([]string{"current_time"}, true)[0].Call(t.Context(), tool.Call{}); err != nil || got.IsError {
		t.Errorf("got %+v, %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.For([]string{"file_read"}, true)[0].Call(ended, tool.Call{Arguments: json.RawMessage(`{"path":"missing"}`)}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestNew_refusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := parse(t, "")
	for field, c := range map[string]tools.Config{
		"Config.Spec":          {WorkDir: dir},
		"Config.WorkDir":       {Spec: plain, WorkDir: dir + "/missing"},
		"Config.AllowPaths":    {Spec: plain, WorkDir: dir, AllowPaths: []string{dir + "/missing"}},
		"Config.Snapshot":      {Spec: parse(t, "skills: [{id: s, path: s}]\n"), WorkDir: dir},
		"HTTP.AllowedDomains":  {Spec: plain, WorkDir: dir, HTTP: tools.HTTP{AllowedDomains: []string{"("}}},
		"HTTP.BlockedPatterns": {Spec: plain, WorkDir: dir, HTTP: tools.HTTP{BlockedPatterns: []string{"a)|(b"}}},
		"Config.Private":       {Spec: plain, WorkDir: dir, HTTP: tools.HTTP{AllowPrivate: []string{"localhost"}}},
	} {
		var invalid *session.InvalidError
		if _, err := tools.New(c); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestNew_warnsOfNamesThatHideOthers(t *testing.T) {
	t.Parallel()
	var warnings []string
	b := newBox(t, tools.Config{Warn: func(text string) { warnings = append(warnings, text) }, Spec: parse(t, `
tools:
  http_executors:
    - {id: search, base_url: "https://one.example.com"}
    - {id: search, base_url: "https://two.example.com"}
`)})
	found := b.For([]string{"search"}, true)
	if len(found) != 1 || !strings.Contains(found[0].Spec().Description, "one.example.com") {
		t.Errorf("got %v", namesOf(found))
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0], "takes its place") || !strings.Contains(warnings[1], "twice") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestExecutorName_fitsEveryProvider(t *testing.T) {
	t.Parallel()
	if got := tools.ExecutorName("my-api_2"); got != "my-api_2" {
		t.Errorf("got %s", got)
	}
	seen := map[string]string{}
	for _, id := range []string{"a.b", "a:b", "a_b", "ä", strings.Repeat("x", 65), strings.Repeat("x", 66), "über.api"} {
		name := tools.ExecutorName(id)
		if _, err := tool.NewSet(tool.Fake(name, "", "")); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s are both %s", id, other, name)
		}
		seen[name] = id
	}
}

func TestCurrentTime_formats(t *testing.T) {
	t.Parallel()
	at := time.Date(2006, 1, 2, 15, 4, 5, 123456789, time.UTC)
	b := newBox(t, tools.Config{Now: func() time.Time { return at }})
	works(t, b, "current_time", nil, "2006-01-02T15:04:05.123456+00:00")
	works(t, b, "current_time", map[string]any{"format": "unix"}, "1136214245")
	works(t, b, "current_time", map[string]any{"format": "human", "timezone": "utc"}, "January 02, 2006 at 03:04:05 PM UTC")
	works(t, b, "current_time", map[string]any{"timezone": "local"}, at.Local().Format("2006-01-02T15:04:05.000000-07:00"))
	whole := newBox(t, tools.Config{Now: func() time.Time { return at.Truncate(time.Second) }})
	works(t, whole, "current_time", map[string]any{"format": "iso"}, "2006-01-02T15:04:05+00:00")
	fails(t, b, "current_time", map[string]any{"format": "roman"}, "roman")
	fails(t, b, "current_time", map[string]any{"timezone": "Europe/Oslo"}, "utc or local")
}
