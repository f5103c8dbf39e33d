package spec_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

func TestLoad_unquotedScalarsMeanWhatYAML12Says(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]any{
		"no": "no", "NO": "NO", "yes": "yes", "on": "on", "off": "off", "y": "y", "n": "n",
		"true": true, "True": true, "TRUE": true, "false": false, "tRue": "tRue",
		"2025-01-31": "2025-01-31", "2025-01-31T10:00:00Z": "2025-01-31T10:00:00Z", "12:30": "12:30", "1:30:00": "1:30:00",
		"7": int64(7), "+7": int64(7), "-0": int64(0), "010": int64(10), "0777": int64(777), "0o14": int64(12), "0x1F": int64(31),
		"0b11": "0b11", "1_000": "1_000", "1,5": "1,5", "0o8": "0o8", "0x": "0x",
		"1e3": 1000.0, "1.5E-3": 0.0015, ".5": 0.5, "5.": 5.0, "-.5e+3": -500.0, "1.0": 1.0, "1e": "1e",
		"1.2.3": "1.2.3", "v1": "v1", "'5'": "5", `"true"`: "true", "~x": "~x", "nullable": "nullable", "<<": "<<",
		"9007199254740993": int64(9007199254740993), `"\u00e9\U0001F600"`: "é😀",
	} {
		s := load(t, yamlOf("inputs:\n  values:\n    x: "+written))
		if got, _ := s.Inputs.Values.Get("x"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %#v, want %#v", written, got, want)
		}
	}
}

func TestLoad_textsKeepTheirLines(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"|\n      a\n       b\n\n      c\n":         "a\n b\n\nc\n",
		"|-\n      a\n      b\n":                    "a\nb",
		"|-\n      a  \n      b  \n":                "a  \nb  ",
		"|+\n      a\n\n":                           "a\n\n\n",
		"|\n\n\n      a\n\n\n":                      "\n\na\n",
		"|\n      # no comment\n      {{x}}":        "# no comment\n{{x}}\n",
		"| # comment\n      a\n":                    "a\n",
		"|\n      a\n         \n      b":            "a\n   \nb\n",
		"|\n      - k: v\n      *x &y !z @\n":       "- k: v\n*x &y !z @\n",
		"|2\n       a\n      b":                     " a\nb\n",
		"|4-\n         a  ":                         " a  ",
		"|-\n":                                      "",
		">\n      a\n      b\n\n      c\n":          "a b\nc\n",
		">\n      a\n        b\n      c\n      d\n": "a\n  b\nc d\n",
		">-\n      a\n         \n":                  "a\n   ",
		">+\n      a\n\n\n      b\n":                "a\n\nb\n\n",
		">\n\n      a\n      \n      b":             "\na\nb\n",
		"'it''s\n      one'":                        "it's one",
		"\"a\n\n      b \\\n      c\\td\"":          "a\nb c\td",
		"a\n      b\n\n      c":                     "a b\nc",
		"plain # comment\n":                         "plain",
		"d#e":                                       "d#e",
		"|\r\n      a\r\n      b\r\n":               "a\nb\n",
	} {
		s := load(t, yamlOf("inputs:\n  values:\n    x: "+written))
		if got, _ := s.Inputs.Values.Get("x"); got != want {
			t.Errorf("%q is %q, want %q", written, got, want)
		}
	}
}

func TestLoad_refusesWhatIsNoSingleYAMLDocument(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for _, c := range []string{"ba", "cb", "dc", "ed", "fe", "gf"} {
		bomb += string(c[0]) + ": &" + string(c[0]) + " [" + strings.Repeat("*"+string(c[1])+",", 10) + "]\n"
	}
	late := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for _, c := range []string{"ba", "cb", "dc"} {
		late += string(c[0]) + ": &" + string(c[0]) + " [" + strings.Repeat("*"+string(c[1])+",", 10) + "]\n"
	}
	late += "e: [" + strings.Repeat("*d,", 7) + "]\nf: *d\n"
	tower := "a: &a " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\nb: " + strings.Repeat("[", 40) + "*a" + strings.Repeat("]", 40) + "\n"
	for name, c := range map[string]struct{ text, reason string }{
		"empty":              {"", "is empty"},
		"one alias too many": {late, "has more than 100000 values once its aliases are written out"},
		"alias on a tower":   {tower, "nests deeper than 64 levels"},
		"comment only":       {"# nothing\n", "is empty"},
		"list":               {"- a\n", "is a list, not a map"},
		"scalar":             {"hello\n", "is a string, not a map"},
		"two documents":      {yamlOf() + "---\na: 1\n", "has more than one document"},
		"hidden document":    {"---\n---\na: 1\n", "has more than one document"},
		"merge key":          {"base: &b {x: 1}\nother:\n  <<: *b\n", "has a merge key (<<), which is not supported (line 3)"},
		"number as key":      {"1: x\n", "has a key that is not a string; quote it if it is one (line 1)"},
		"boolean as key":     {"true: x\n", "has a key that is not a string; quote it if it is one (line 1)"},
		"float as key":       {"1e3: x\n", "has a key that is not a string; quote it if it is one (line 1)"},
		"tag":                {"a: !!str 5\n", "has a tag, which is not supported (line 1)"},
		"infinity":           {"a: .inf\n", "has a number that is not finite; quote it if it is a text (line 1)"},
		"not a number":       {"a: .NaN\n", "has a number that is not finite; quote it if it is a text (line 1)"},
		"huge integer":       {"a: 12345678901234567890123\n", "has a number that is too large; quote it if it is a text (line 1)"},
		"huge float":         {"a: 1e400\n", "has a number that is too large; quote it if it is a text (line 1)"},
		"tab indent":         {"a:\n\tb: 1\n", "has a tab where YAML takes no tab (line 2); use spaces"},
		"tab in a block":     {"a: |\n  \tb\n", "has a block of text that begins with a tab, which is not supported (line 1)"},
		"unclosed":           {"a: [1, 2\n", "is not YAML: sequence end token ']' not found (line 1)"},
		"alias bomb":         {bomb, "has more than 100000 values once its aliases are written out"},
		"alias to itself":    {"a: &a [*a]\n", "has an alias without an anchor before it (line 1)"},
		"alias to nothing":   {"a: *b\n", "has an alias without an anchor before it (line 1)"},
		"flow nesting":       {"a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "nests deeper than 64 levels"},
		"block nesting":      {"a: \n  " + strings.Repeat("- ", 5000) + "x\n", "nests deeper than 64 levels"},
		"many words":         {"a:\n" + strings.Repeat("- x\n", 30_000), "has more than 40000 words and signs; put long texts in a block"},
		"not UTF-8":          {"a: \xff\n", "is not valid UTF-8"},
		"UTF-16":             {"\xff\xfea\x00:\x00", "is not valid UTF-8"},
		"NUL":                {"a: x\x00\n", "has a NUL character"},
		"larger than 10 MiB": {"a: |\n  " + strings.Repeat("x", spec.MaxSize), "is larger than 10 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse(c.text)
			if wrong := refused(t, err); wrong.Reason != c.reason || wrong.Pointer != "" {
				t.Errorf("got  %q: %s\nwant %s", wrong.Pointer, wrong.Reason, c.reason)
			}
		})
	}
}

// A repeated key is reported with everything else that is wrong.
func TestLoad_refusesAKeyThatIsThereTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"top":    {yamlOf() + "name: again\n", "/name: is there twice (line 6)"},
		"deep":   {yamlOf("runtime: {provider: x, provider: y}"), "/runtime/provider: is there twice (line 3)"},
		"quoted": {yamlOf() + "\"name\": again\nnam: x\n", "/name: is there twice (line 6)\n  /nam: is an unknown key; did you mean \"name\"? (line 7)"},
	} {
		_, err := parse(c.text)
		if wrong := refused(t, err); !strings.HasSuffix(wrong.Error(), " "+c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

func TestLoad_takesMarksAliasesAndDirectives(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"byte order mark": "\ufeff" + yamlOf(),
		"one header":      "---\n" + yamlOf() + "...\n",
		"directive":       "%YAML 1.2\n---\n" + yamlOf(),
		"CRLF":            strings.ReplaceAll(yamlOf(), "\n", "\r\n"),
		"quoted keys":     strings.Replace(yamlOf(), "name:", `"name":`, 1),
	} {
		if s := load(t, text); s.Name != "demo" {
			t.Errorf("%s: name is %q", name, s.Name)
		}
	}
	s := load(t, yamlOf("agents:\n  a: &one {prompt: Hello}\n  b: *one"))
	if b, _ := s.Agents.Get("b"); b.Prompt != "Hello" {
		t.Errorf("alias gave %+v", b)
	}
}

func TestLoad_JSONisAsStrict(t *testing.T) {
	t.Parallel()
	good := `{"version": 1, "name": "j", "runtime": {"provider": "x"}, "agents": {"a": {"prompt": "p"}},
 "inputs": {"values": {"i": 1, "f": 1.0, "e": 1e3}},
 "pattern": {"type": "chain", "config": {"steps": [{"agent": "a"}]}}}`
	s, err := spec.Loader{}.Parse(spec.Source{Path: "A.JSON", Data: []byte(good)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := spec.Map[any]{{Name: "i", Value: int64(1)}, {Name: "f", Value: 1.0}, {Name: "e", Value: 1000.0}}
	if !reflect.DeepEqual(s.Inputs.Values, want) {
		t.Errorf("values are %#v", s.Inputs.Values)
	}
	for name, c := range map[string]struct{ text, reason string }{
		"empty":     {" ", "is empty"},
		"twice":     {strings.Replace(good, `"name"`, "\"version\": 2,\n\"name\"", 1), "is there twice (line 1)"},
		"two":       {"{} {}", "has more than one document"},
		"cut":       {`{"a": `, "is not JSON: it ends too early"},
		"comma":     {"{\"a\": 1,\n}", "is not JSON: invalid character '}' looking for beginning of object key string (line 2)"},
		"yaml":      {"a: 1", "is not JSON: invalid character 'a' looking for beginning of value (line 1)"},
		"deep":      {strings.Repeat("[", 5000), "nests deeper than 64 levels"},
		"number":    {`{"a": 1e999}`, "has a number that is too large; quote it if it is a text (line 1)"},
		"not a map": {"[]", "is a list, not a map"},
	} {
		_, err := spec.Loader{}.Parse(spec.Source{Path: "a.json", Data: []byte(c.text)}, nil)
		if wrong := refused(t, err); wrong.Reason != c.reason {
			t.Errorf("%s: got %q, want %q", name, wrong.Reason, c.reason)
		}
	}
}

func TestLoad_looksAtTheFileBeforeItsText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, name := range []string{"a.yaml", "a.YML", "a.Yaml"} {
		if s, err := (spec.Loader{}).Load(write(name, yamlOf()), nil); err != nil || s.Path() != filepath.Join(dir, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := spec.Loader{}.Load(write("a.txt", yamlOf()), nil)
	if wrong := refused(t, err); wrong.Reason != `has the extension ".txt", not .yaml, .yml or .json` {
		t.Errorf("%v", wrong)
	}
	_, err = spec.Loader{}.Load(write("big.yaml", strings.Repeat("#", spec.MaxSize+1)), nil)
	if wrong := refused(t, err); wrong.Reason != "is larger than 10 MiB" {
		t.Errorf("%v", wrong)
	}
	if _, err = (spec.Loader{}).Load(filepath.Join(dir, "gone.yaml"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = spec.Loader{}.Load(filepath.Join(dir, "d.yaml"), nil)
	if wrong := refused(t, err); wrong.Reason != "is a folder; name a spec in it" {
		t.Errorf("%v", wrong)
	}
}
