package terminal

import (
	"strings"
	"testing"
)

func TestWrapper_linesFitAndLoseNoWord(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"words":       {"one two three four", "one two /three four"},
		"exact":       {"0123456789 a", "0123456789/a"},
		"line ends":   {"one\n\ntwo three four\n", "one\n\ntwo three /four\n"},
		"indentation": {"  - one two three", "  - one /two three"},
		"too long":    {"a 0123456789012345 b", "a /0123456789012345/b"},
		"wide":        {"日本語日本語", "日本語日本/語"},
		"code":        {"```go\nx := a + b + c + d\n```\none two three", "```go\nx := a + b + c + d\n```\none two /three"},
		"table":       {"| one | two | three |\n", "| one | two | three |\n"},
		"end":         {"one ", "one "},
	} {
		for _, size := range []int{1, 3, 100} { // of the pieces, in characters
			var w Wrapper
			got := ""
			for piece := []rune(c.text); len(piece) > 0; piece = piece[min(size, len(piece)):] {
				got += w.Write(string(piece[:min(size, len(piece))]), 10)
			}
			got += w.End(10)
			if got = strings.ReplaceAll(got, string(SoftBreak), "/"); got != c.want {
				t.Errorf("%s in pieces of %d: %q, want %q", name, size, got, c.want)
			}
		}
	}
	var none Wrapper
	if got := none.Write("one two three four", 0) + none.End(0); got != "one two three four" {
		t.Errorf("without a width: %q", got)
	}
}
