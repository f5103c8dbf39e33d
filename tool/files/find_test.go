package files_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/tool/files"
)

func TestFind_patterns(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{
		"main.go": "", "docs/a.md": "", "docs/deep/er/b.md": "", "docs/deep/c.go": "", ".git/config": "", "src/.git/x.go": "",
	})
	for pattern, want := range map[string]string{
		"*.go":            "docs/deep/c.go main.go",
		"**/*.go":         "docs/deep/c.go main.go",
		"docs/*.md":       "docs/a.md",
		"docs/**/*.md":    "docs/a.md docs/deep/er/b.md",
		"docs/**":         "docs/ docs/a.md docs/deep/ docs/deep/c.go docs/deep/er/ docs/deep/er/b.md",
		"**/deep/**/b.md": "docs/deep/er/b.md",
		"[am]*.??":        "docs/a.md main.go",
		"config":          "[nothing found]",
	} {
		if got := strings.Join(strings.Fields(d.must("file_find", args{"pattern": pattern})), " "); got != want {
			t.Errorf("%s finds %q, want %q", pattern, got, want)
		}
	}
	if got := d.must("file_find", args{"pattern": "er/*", "path": "docs/deep"}); got != "docs/deep/er/b.md\n" {
		t.Errorf("below a folder: %q", got)
	}
	d.refused("file_find", args{"pattern": "[a"}, "syntax error")
	d.refused("file_find", args{"pattern": ""}, "is empty")
	d.refused("file_find", args{"pattern": "*", "path": "nowhere"}, "nowhere")
}

func TestFind_manyStarsTakeNoTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{strings.Repeat("a/", 60) + "b": ""})
	if got := d.must("file_find", args{"pattern": strings.Repeat("**/a/", 30) + "c"}); got != "[nothing found]\n" {
		t.Errorf("got %q", got)
	}
}

func TestSearch_showsWhereItStands(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{
		"a.txt": "one\ntwo\nThree\nfour\nfive\n", "b/c.go": "two\r\n", "bin": "two\x00", ".git/x": "two\n", "wide": "two " + strings.Repeat("x", 1000),
	})
	for name, c := range map[string]struct {
		in   args
		want string
	}{
		"everywhere":    {args{"pattern": "^two$"}, "a.txt:2:two\nb/c.go:1:two\n[not searched: 1 that are binary, too long or unreadable]\n"},
		"by file name":  {args{"pattern": "two", "files": "*.go"}, "b/c.go:1:two\n"},
		"in one file":   {args{"pattern": "t", "path": "a.txt"}, "a.txt:2:two\n"},
		"any case":      {args{"pattern": "t", "path": "a.txt", "ignoreCase": true}, "a.txt:2:two\na.txt:3:Three\n"},
		"with context":  {args{"pattern": "Three", "path": "a.txt", "context": 1}, "a.txt-2-two\na.txt:3:Three\na.txt-4-four\n"},
		"two in one":    {args{"pattern": "two|Three", "path": "a.txt", "context": 1}, "a.txt-1-one\na.txt:2:two\na.txt:3:Three\na.txt-4-four\n"},
		"a gap between": {args{"pattern": "one|five", "path": "a.txt", "context": 1}, "a.txt:1:one\na.txt-2-two\n--\na.txt-4-four\na.txt:5:five\n"},
		"no more":       {args{"pattern": ".", "path": "a.txt", "max": 2}, "a.txt:1:one\na.txt:2:two\n[stopped after 2 matches]\n"},
		"nothing":       {args{"pattern": "zzz", "path": "a.txt"}, "[nothing found]\n"},
		"a wide line":   {args{"pattern": "two", "path": "wide"}, "wide:1:two " + strings.Repeat("x", 396) + "…\n"},
	} {
		if got := d.must("file_search", c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	d.refused("file_search", args{"pattern": "("}, "missing closing )")
}

func TestSearch_resultsAreCapped(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "hit %d\n", i)
	}
	d := newDesk(t, files.Config{MaxResult: 100, MaxFile: 2000}, map[string]string{"a": text.String(), "big": strings.Repeat("hit\n", 1000)})
	got := d.must("file_search", args{"pattern": "hit"})
	if len(got) > 250 || !strings.Contains(got, "[cut: the first ") || !strings.Contains(got, "[not searched: 1 ") {
		t.Errorf("got %q", got)
	}
}
