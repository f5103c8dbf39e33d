package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// quote is a block of a page that must be found elsewhere: a comment that says
// where, then the block.
//
//	<!-- code: FILE FUNCTION -->     the lines are in that function, in that order
//	<!-- shown: STORY FILE -->       the block is a file that a story compares with what was printed
//
// A third mark, <!-- shown: NAME -->, is before what a terminal shows; the tests of
// internal/cli type it and compare.
var quote = regexp.MustCompile("(?s)<!-- (code|shown): (\\S+) (\\S+) -->\n```[a-z]*\n(.*?)```")

var (
	mark        = regexp.MustCompile(`<!-- (?:code|shown): `)
	markedBlock = regexp.MustCompile("<!-- (?:code|shown): [^\n]*-->\n```")
	block       = regexp.MustCompile("(?ms)^(<!-- [^\n]* -->\n)?```[a-z]*\n((?:[^\n]*\n)*?)```")
	transcript  = regexp.MustCompile(`(?m)^(?:\$|›) `) // somebody types at a shell or a chat
)

func TestQuotes_areWhatTheySay(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quote.FindAllStringSubmatch(string(text), -1) {
			found++
			kind, file, name, lines := m[1], m[2], m[3], m[4]
			if page == "../README.md" {
				file = filepath.Join("..", file)
			}
			if kind == "shown" {
				if !strings.Contains(storyFile(t, file, name), lines) {
					t.Errorf("%s: this is not in %s %s:\n%s", page, file, name, lines)
				}
			} else if line := firstMissing(functionIn(t, file, name), lines); line != "" {
				t.Errorf("%s: this line is not in its place in %s %s: %s", page, file, name, line)
			}
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			if mark, lines := m[1], m[2]; transcript.MatchString(lines) && !strings.HasPrefix(mark, "<!-- shown: ") {
				t.Errorf("%s: this needs a mark of a test that produces it:\n%s", page, lines)
			}
		}
		if n, marked := len(mark.FindAllString(string(text), -1)), len(markedBlock.FindAllString(string(text), -1)); n != marked {
			t.Errorf("%s has %d marks, of which %d have a block", page, n, marked)
		}
	}
	if found == 0 {
		t.Error("no block was found")
	}
}

// functionIn returns the source of a function.
func functionIn(t *testing.T, file, name string) string {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name {
			return string(source[set.Position(f.Pos()).Offset:set.Position(f.End()).Offset])
		}
	}
	t.Errorf("there is no function %s in %s", name, file)
	return ""
}

// storyFile returns a file of a story.
func storyFile(t *testing.T, story, name string) string {
	t.Helper()
	archive, err := txtar.ParseFile(story)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if f.Name == name {
			if !strings.Contains(string(archive.Comment), "cmp stdout "+name) {
				t.Errorf("%s does not compare %s with what was printed", story, name)
			}
			return string(f.Data)
		}
	}
	t.Errorf("there is no file %s in %s", name, story)
	return ""
}

// firstMissing returns the first line of a block that does not follow the one
// before it in a source, with any lines between them; "" where all do. White space
// around lines does not count.
func firstMissing(source, block string) string {
	lines := strings.Split(source, "\n")
	for line := range strings.Lines(block) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		at := slices.IndexFunc(lines, func(l string) bool { return strings.TrimSpace(l) == line })
		if at < 0 {
			return line
		}
		lines = lines[at+1:]
	}
	return ""
}
