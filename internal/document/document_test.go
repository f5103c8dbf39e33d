package document_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/document"
)

func parse(t *testing.T, text string, o document.Options) *document.Node {
	t.Helper()
	n, err := document.Parse([]byte(text), o)
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return n
}

func TestParse_everyValueKnowsItsPlace(t *testing.T) {
	t.Parallel()
	yaml := parse(t, "a: 1\nb:\n  - x\n  - {c: 'y'}\n", document.Options{File: "f"})
	json := parse(t, "{\"a\": 1,\n\"b\":\n [\"x\",\n  {\"c\" : \"y\"}]}", document.Options{File: "f", JSON: true})
	for _, c := range []struct {
		n            *document.Node
		line, column int
	}{
		{yaml.Get("a"), 1, 4}, {yaml.Get("b").Items[0], 3, 5}, {yaml.Get("b").Items[1].Get("c"), 4, 9},
		{json.Get("a"), 1, 7}, {json.Get("b").Items[0], 3, 3}, {json.Get("b").Items[1], 4, 3}, {json.Get("b").Items[1].Get("c"), 4, 10},
	} {
		if c.n.File != "f" || c.n.Line != c.line || c.n.Column != c.column {
			t.Errorf("%s %q is at %s:%d:%d, want %d:%d", c.n.Kind, c.n.Text, c.n.File, c.n.Line, c.n.Column, c.line, c.column)
		}
	}
}

func TestParse_plainNumbersKeepTheirTextAndTheirForm(t *testing.T) {
	t.Parallel()
	plain := document.Options{PlainNumbers: true}
	for _, written := range []string{"7", "-0", "2.50", "1E5", "123456789012345678901234567890"} {
		if n := parse(t, "a: "+written, plain).Get("a"); n.Text != written || n.Float64() == 0 && written != "-0" {
			t.Errorf("%s became %s %q", written, n.Kind, n.Text)
		}
	}
	for _, written := range []string{"0x10", "010", "0o7", "+1", ".5", "5.", "1e999"} {
		if _, err := document.Parse([]byte("a: "+written), plain); err == nil || !strings.Contains(err.Error(), "plain decimal") {
			t.Errorf("%s: error is %v", written, err)
		}
		if n, err := document.Parse([]byte("a: "+written), document.Options{}); written != "1e999" && (err != nil || n.Get("a").Float64() == 0) {
			t.Errorf("%s in YAML 1.2: %v", written, err)
		}
	}
}

func TestParse_errorsShowNoPartOfTheFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"a: !sk-live x", "a: *sk-live", "a: 'sk-live", "sk-live: : x", "{a: sk-live"} {
		if _, err := document.Parse([]byte(text), document.Options{}); err == nil || strings.Contains(err.Error(), "sk-live") {
			t.Errorf("%q: error is %v", text, err)
		}
	}
}

func TestReadFile_takesRegularFilesOfBoundedSize(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	for size, want := range map[int]error{document.MaxSize: nil, document.MaxSize + 1: document.ErrTooLarge} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if data, err := document.ReadFile(path); !errors.Is(err, want) || err == nil && len(data) != size {
			t.Errorf("%d bytes: %d, %v", size, len(data), err)
		}
	}
	if _, err := document.ReadFile(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
}

type level string

// settings has a field of every kind.
type settings struct {
	Name    string
	Level   level
	Wait    time.Duration
	Workers int
	Ratio   *float64
	Quiet   bool
	Hosts   []string
	Labels  map[string]string
}

func (s *settings) field() document.Field {
	return document.Keys(
		document.Must("name", document.Filled(&s.Name)),
		document.May("level", document.OneOf[level]("low", "high")(&s.Level)),
		document.May("wait", document.Duration(&s.Wait)),
		document.May("workers", document.Int(1, 8)(&s.Workers)),
		document.May("ratio", document.Ptr(&s.Ratio, document.Float(0, 1))),
		document.May("quiet", document.Flag(&s.Quiet)),
		document.May("hosts", document.MinItems(1, document.ListOf(&s.Hosts, document.Text[string]))),
		document.May("labels", document.Entries(func(key string, v document.Value) {
			if s.Labels == nil {
				s.Labels = map[string]string{}
			}
			text := ""
			document.Text(&text)(v)
			s.Labels[key] = text
		})),
	)
}

func TestReader_fillsEveryKindOfField(t *testing.T) {
	t.Parallel()
	half := 0.5
	want := settings{
		Name: "a", Level: "high", Wait: 90 * time.Second, Workers: 2, Ratio: &half, Quiet: true,
		Hosts: []string{"x"}, Labels: map[string]string{"k": "v"},
	}
	var got settings
	r := &document.Reader{}
	got.field()(r.Root(parse(t, "{name: a, level: high, wait: 1m30s, workers: 2.0, ratio: 0.5, quiet: true, hosts: [x], labels: {k: v}}", document.Options{})))
	if r.Problems() != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, problems %v", got, r.Problems())
	}
}

func TestReader_reportsEverythingInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	text := `level: middle
wait: soon
workers: 9
ratio: high
quiet: no
hosts: []
labels: {a/b: 1, c.d: [x]}
wokers: 3
level: low
`
	want := []string{
		`level: is "middle", not one of low, high (line 1)`,
		`name: is missing (line 1)`,
		`wait: is "soon", not a duration such as 90s or 1h30m (line 2)`,
		`workers: is 9, more than 8 (line 3)`,
		`ratio: is a string, not a number (line 4)`,
		`quiet: is a string, not a boolean (line 5)`,
		`hosts: has 0 of at least 1 (line 6)`,
		`labels.a/b: is an integer, not a string; put it in quotes (line 7)`,
		`labels.c.d: is a list, not a string (line 7)`,
		`wokers: is an unknown key; did you mean "workers"? (line 8)`,
		`level: is there twice (line 9)`,
	}
	for _, dotted := range []bool{true, false} {
		r := &document.Reader{Dotted: dotted}
		new(settings).field()(r.Root(parse(t, text, document.Options{})))
		var got []string
		for _, p := range r.Problems() {
			path := strings.Replace(p.Path, "a~1b", "a/b", 1)
			if !dotted {
				path = strings.Replace(strings.TrimPrefix(path, "/"), "labels/", "labels.", 1)
			}
			got = append(got, path+": "+p.Message())
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("dotted %v: got\n%s", dotted, strings.Join(got, "\n"))
		}
	}
}

func TestReader_boundsWhatItReports(t *testing.T) {
	t.Parallel()
	r := &document.Reader{}
	document.Keys()(r.Root(parse(t, "a"+strings.Repeat(": 1\nb", 60)+": 1", document.Options{})))
	if all := r.Problems(); len(all) != 51 || !strings.HasPrefix(all[50].Reason, "and ") {
		t.Errorf("%d problems, the last is %v", len(all), all[len(all)-1])
	}
}

// Whatever the bytes are: no panic, a bounded tree, and what was read is read
// again from its YAML and its JSON.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"a: 1\nb: [x, {c: 'y'}]\n", "a: |\n  x\n   y\n\nb: >-\n  z\n", "a: &a [*a, !!x y, ? z]\n--- \n%TAG", "---\n---\na: 1\n",
		"a: {b: 1, b: 2}", "x: &x {y: 0x10, z: 1e5}\nw: [*x, *x]", "\ufeffa: \"\\u0000\\ud800\"\r\n", "a:\n\t- b", "- - - -", "? a\n: b",
	} {
		f.Add([]byte(text), false, false)
	}
	f.Add([]byte(`{"a": [1, 2.50, null, true, "x"], "a": {}}`), true, true)
	f.Fuzz(func(t *testing.T, data []byte, json, plain bool) {
		n, err := document.Parse(data, document.Options{JSON: json, PlainNumbers: plain})
		if err != nil {
			return
		}
		r := &document.Reader{}
		r.Root(n)
		if got := len(r.Problems()); got > 51 {
			t.Fatalf("%d problems", got)
		}
		again, err := document.Parse(n.JSON(), document.Options{JSON: true, PlainNumbers: true})
		if err != nil || !bytes.Equal(again.JSON(), n.JSON()) {
			t.Fatalf("JSON of %q: %v\n%s", data, err, n.JSON())
		}
		if n.Kind != document.Map || len(n.Entries) == 0 {
			return
		}
		again, err = document.Parse(n.YAML(), document.Options{PlainNumbers: true})
		if err != nil && !strings.Contains(err.Error(), "words and signs") || err == nil && !bytes.Equal(again.JSON(), n.JSON()) {
			t.Fatalf("YAML of %q: %v\n%s", data, err, n.YAML())
		}
	})
}

// Long keys and many mistakes cost no more than the file is large.
func TestReader_staysSmallWhateverTheDocument(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 4096)
	deep := strings.Repeat(`{"`+long+`":`, 60) + "[" + strings.Repeat(`{"a":1,"a":2},`, 20_000) + "1]" + strings.Repeat("}", 60)
	r := &document.Reader{}
	r.Root(parse(t, deep, document.Options{JSON: true}))
	if all := r.Problems(); len(all) != 51 {
		t.Errorf("%d problems", len(all))
	}
	_, err := document.Parse([]byte("a:\n  "+long+"k: 1\n"), document.Options{})
	if err == nil || err.Error() != "has a key of more than 4096 bytes (line 2)" {
		t.Errorf("a long key: %.100v", err)
	}
}
