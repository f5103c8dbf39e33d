package terminal

import (
	"regexp"
	"strings"
	"testing"
)

// marked returns text with its colours as letters in braces.
func marked(text string) string {
	names := strings.NewReplacer("\x1b[36m", "{k:", "\x1b[32m", "{s:", "\x1b[2m", "{c:", "\x1b[33m", "{n:", "\x1b[31m", "{r:", "\x1b[1m", "{b:", "\x1b[0m", "}")
	return names.Replace(text)
}

func TestMarkdown_codeIsHighlighted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"go", "```go\nfunc f() int { return 42 } // \"no\"\ns := `a\nfunc b` + \"x\\\"y\" /* c\nfor */ x1\n```\nend",
			"{c:```}{c:go}\n{k:func} f() {k:int} { {k:return} {n:42} } {c:// \"no\"}\ns := {s:`a}\n{s:func b`} + {s:\"x\\\"y\"} {c:/* c}\n{c:for */} x1\n{c:```}\nend"},
		{"python", "```python\ndef f(): # def\n  return '''a\n'''\n```", "{c:```}{c:python}\n{k:def} f(): {c:# def}\n  {k:return} {s:'''a}\n{s:'''}\n{c:```}"},
		{"a word in any case", "```sql\nSelect x From y -- from\n```", "{c:```}{c:sql}\n{k:Select} x {k:From} y {c:-- from}\n{c:```}"},
		{"keys", "```json\n{\"a\": [1.5, true, \"b:\"]}\n```", "{c:```}{c:json}\n{{k:\"a\"}: [{n:1}.{n:5}, {k:true}, {s:\"b:\"}]}\n{c:```}"},
		{"changes", "```diff\n@@ 1\n-a\n+b\n c\n```", "{c:```}{c:diff}\n{k:@@ 1}\n{r:-a}\n{s:+b}\n c\n{c:```}"},
		{"no language", "```\nfunc **x**\n```", "{c:```}\n{c:func **x**}\n{c:```}"},
		{"another language", "```cobol\nfunc\n```\n**b**", "{c:```}{c:cobol}\n{c:func}\n{c:```}\n{b:**}{b:b}{b:**}"},
		{"no end", "```go\nfunc", "{c:```}{c:go}\n{k:func}"},
	} {
		for _, size := range []int{1, 3, len(c.text)} { // it arrives in pieces
			m := Markdown{Screen: &Screen{Colour: true}}
			var b strings.Builder
			for rest := c.text; rest != ""; {
				n := min(size, len(rest))
				b.WriteString(m.Write(rest[:n]))
				rest = rest[n:]
			}
			b.WriteString(m.End())
			got := marked(b.String())
			if size == len(c.text) && got != c.want {
				t.Errorf("%s: shown is\n%s\nwant\n%s", c.name, got, c.want)
			}
			if plain := regexp.MustCompile(`\x1b\[[0-9]*m`).ReplaceAllString(b.String(), ""); plain != c.text {
				t.Errorf("%s in pieces of %d: the text became\n%s", c.name, size, plain)
			}
		}
	}
}

func TestMarkdown_withoutColoursNothingIsKeptBack(t *testing.T) {
	t.Parallel()
	m := Markdown{Screen: &Screen{}}
	if got := m.Write("```go\nfunc"); got != "```go\nfunc" || m.End() != "" {
		t.Errorf("shown is %q", got)
	}
}
