package definition_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

func TestSave_loadsBackEqual(t *testing.T) {
	t.Parallel()
	tricky := session.Definition{
		Name: "tricky", Label: "yes", Description: "a: b # c", SystemPrompt: " outer \u2028 \t\r\n\n\x00 'quoted' \"twice\" ",
		Tools: []string{}, Skills: []string{"- x", "null", "0x10", "1.0", "~", "*a", "&b", "!c", "%d", "@e", "`f", "{", "["}, Capabilities: []string{},
		Metadata: session.Values{
			"1":      []byte(`123456789012345678901234567890`),
			"1e5":    []byte(`1E5`),
			"a: b":   []byte(`{"":[[],{},[[1]],{"x":{"y":"z\nz\n"}}]}`),
			"blocks": []byte(`["one\ntwo\n","one\n two","\n"]`),
			"true":   []byte(`"true"`),
			"emoji":  []byte(`"😀\u0000\u2028"`),
		},
		Budget: &session.Budget{},
	}
	for _, d := range []session.Definition{{Name: "bare"}, {Name: "none", Tools: []string{}, ToolsDeny: []string{}}, tricky, researcher()} {
		for _, ext := range definition.Extensions() {
			if ext == ".md" && d.Name != "researcher" {
				continue
			}
			path := filepath.Join(t.TempDir(), "a"+ext)
			if err := definition.Save(path, d, false); err != nil {
				t.Errorf("save %s as %s: %v", d.Name, ext, err)
				continue
			}
			got, err := definition.Load(path)
			if err != nil {
				t.Errorf("load %s as %s: %v", d.Name, ext, err)
				continue
			}
			if !same(t, got, d) || (got.Tools == nil) != (d.Tools == nil) || (got.Skills == nil) != (d.Skills == nil) {
				t.Errorf("%s as %s:\n got %+v\nwant %+v", d.Name, ext, got, d)
			}
		}
	}
}

// same compares by the definition's own JSON, escapes in free values apart.
func same(t *testing.T, a, b session.Definition) bool {
	t.Helper()
	encode := func(d session.Definition) string {
		data, err := definition.Encode(d, ".json")
		if err != nil {
			t.Fatalf("encode %s: %v", d.Name, err)
		}
		return string(data)
	}
	return encode(a) == encode(b)
}

func anything[V any](g property.Generator[V]) property.Generator[any] {
	return property.Map(g, func(v V) any { return v })
}

// Whatever a program puts into a definition, YAML and JSON give it back.
func TestEncode_anyTextReadsBack(t *testing.T) {
	t.Parallel()
	word := property.OneOf(
		property.String(),
		property.StringOf("ab:#-?[]{},&*!|>'\"%@` \t\r\n\\\u0085\u2028\ufeff~01.eE+_=<", 1, 12),
		property.SampledFrom([]string{"---", "...", "null", "true", "1e9", "0x1", "a\n---\nb", "a\n\nb\n", "x\n  y\n z"}),
	)
	var value func(depth int) property.Generator[any]
	value = func(depth int) property.Generator[any] {
		scalars := []property.Generator[any]{anything(word), anything(property.Float64Range(-1e9, 1e9)), anything(property.Int64()), anything(property.Bool()), property.Just[any](nil)}
		if depth == 0 {
			return property.OneOf(scalars...)
		}
		inner := value(depth - 1)
		return property.OneOf(append(scalars, anything(property.SliceOfN(inner, 0, 3)), anything(property.MapOfN(word, inner, 0, 3)))...)
	}
	property.Check(t, func(t *property.T) {
		raw, err := session.JSON(value(3).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		d := session.Definition{Name: "a", Label: word.Draw(t, "label"), SystemPrompt: word.Draw(t, "prompt"), Metadata: session.Values{"value": raw}}
		for _, ext := range []string{".json", ".yaml"} {
			data, err := definition.Encode(d, ext)
			if err != nil {
				t.Fatalf("encode as %s: %v", ext, err)
			}
			got, err := definition.Parse("a"+ext, data)
			if err != nil || got.Label != d.Label || got.SystemPrompt != d.SystemPrompt || !equalJSON(got.Metadata["value"], raw) {
				t.Fatalf("%s: %v\n got %+v\nwant %+v\n%s", ext, err, got, d, data)
			}
		}
	})
}

func equalJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func TestEncode_writesForPeople(t *testing.T) {
	t.Parallel()
	d := session.Definition{
		Name: "helper", Label: "Helper\u2028\x7f", SystemPrompt: "You help.\n\n  Indented.", Tools: []string{}, Skills: []string{"citing", "yes"},
		MCP:    []session.MCPServer{{ID: "files", Command: "mcp-files", Env: map[string]string{"TOKEN": "${T}"}}},
		Budget: &session.Budget{MaxCost: ptr(session.Dollars(0.5)), Deadline: ptr(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))},
	}
	for ext, want := range map[string]string{
		".yaml": `name: helper
label: "Helper\u2028\u007f"
systemPrompt: |-
  You help.

    Indented.
tools: []
skills:
  - citing
  - "yes"
mcp:
  - id: files
    command: mcp-files
    env:
      TOKEN: "${T}"
budget:
  maxCost: 0.5
  deadline: "2030-01-01T00:00:00Z"
`,
		".md": `---
name: helper
label: "Helper\u2028\u007f"
tools: []
skills:
  - citing
  - "yes"
mcp:
  - id: files
    command: mcp-files
    env:
      TOKEN: "${T}"
budget:
  maxCost: 0.5
  deadline: "2030-01-01T00:00:00Z"
---

You help.

  Indented.
`,
	} {
		got, err := definition.Encode(d, ext)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", ext, err, got)
		}
	}
}

func TestEncode_refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		d    session.Definition
		ext  string
		want error
	}{
		"another format":         {session.Definition{Name: "a"}, ".toml", session.ErrInvalid},
		"a bad definition":       {session.Definition{Name: "A"}, ".json", session.ErrDefinition},
		"markdown, no prompt":    {session.Definition{Name: "a"}, ".md", session.ErrInvalid},
		"markdown, outer spaces": {session.Definition{Name: "a", SystemPrompt: " x"}, ".md", session.ErrInvalid},
		"markdown, crlf":         {session.Definition{Name: "a", SystemPrompt: "x\r\ny"}, ".md", session.ErrInvalid},
		"a secret": {session.Definition{Name: "a", ModelParams: &session.ModelParams{
			Options: session.Values{"api_key": []byte(`"sk-live-1"`)}}}, ".json", session.ErrSecret},
		"a number too large": {session.Definition{Name: "a", Metadata: session.Values{"n": []byte("1e999")}}, ".json", session.ErrInvalid},
	} {
		data, err := definition.Encode(c.d, c.ext)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error is %v, want %v", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "sk-live") {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
		if err != nil && data != nil {
			t.Errorf("%s: bytes came with the error", name)
		}
	}
}

func TestSave_overwritesOnlyWhenTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	first, second := session.Definition{Name: "a", Label: "first"}, session.Definition{Name: "a", Label: "second"}
	if err := definition.Save(path, first, false); err != nil {
		t.Fatal(err)
	}
	if err := definition.Save(path, second, false); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("second save: %v, want ErrInvalid", err)
	}
	if d, _ := definition.Load(path); d.Label != "first" {
		t.Errorf("the refused save left label %q", d.Label)
	}
	if err := definition.Save(path, second, true); err != nil {
		t.Fatal(err)
	}
	if d, _ := definition.Load(path); d.Label != "second" {
		t.Errorf("overwriting left label %q", d.Label)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v (%v), want the one file", entries, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o044 == 0 && os.Getuid() == 0 {
		t.Errorf("mode is %v (%v), want readable to all", info.Mode(), err)
	}
}

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"same", "agents"} {
		files, err := filepath.Glob(filepath.Join("testdata", dir, "*.*"))
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds in %s: %v", dir, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(slices.Index(definition.Extensions(), strings.ToLower(filepath.Ext(file))), data)
		}
	}
	f.Add(1, []byte("name: a\nmetadata: {x: &a [*a], y: 1e5, ? z : 'q'}\n"))
	f.Fuzz(func(t *testing.T, format int, data []byte) {
		ext := definition.Extensions()[(format%4+4)%4]
		d, err := definition.Parse("fuzz"+ext, data)
		if err != nil {
			return
		}
		for _, other := range definition.Extensions() {
			written, err := definition.Encode(d, other)
			if err != nil {
				if other == ".md" && errors.Is(err, session.ErrInvalid) {
					continue // a prompt that Markdown cannot hold
				}
				t.Fatalf("%s of %q: %v", other, data, err)
			}
			again, err := definition.Parse("again"+other, written)
			if err != nil || !reflect.DeepEqual(d, again) {
				t.Fatalf("%s of %q: %v\n got %+v\nwant %+v\n%s", other, data, err, again, d, written)
			}
		}
	})
}
