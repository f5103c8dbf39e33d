package terminal

import "testing"

func TestTables_areAlignedHoweverTheyArrive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"table":           {"see:\n| a | long |\n|---|--:|\n| 日本語 | 1 |\n\nend", "see:\n| a      | long |\n| ------ | ---- |\n| 日本語 |    1 |\n\nend"},
		"at the end":      {"| a | b |\n|---|---|\n| x | y |", "| a   | b   |\n| --- | --- |\n| x   | y   |"},
		"cells missing":   {"| a | b |\n|---|---|\n| x |\n", "| a   | b   |\n| --- | --- |\n| x   |     |\n"},
		"a bar in text":   {"| a |\n|---|\n| x \\| y |\n", "| a      |\n| ------ |\n| x \\| y |\n"},
		"too wide":        {"| a | b |\n|---|---|\n| 0123456789012345678901234567890123456789 | y |\n", "| a | b |\n|---|---|\n| 0123456789012345678901234567890123456789 | y |\n"},
		"no table":        {"| only a line\nnext", "| only a line\nnext"},
		"in a code block": {"```\n| a | b |\n|---|---|\n| longer | y |\n```\n", "```\n| a | b |\n|---|---|\n| longer | y |\n```\n"},
		"bars in a line":  {"a || b\n", "a || b\n"},
	} {
		for _, size := range []int{1, 3, 100} { // of the pieces, in characters
			var tables Tables
			got := ""
			for piece := []rune(c.text); len(piece) > 0; piece = piece[min(size, len(piece)):] {
				got += tables.Write(string(piece[:min(size, len(piece))]), 40)
			}
			if got += tables.End(40); got != c.want {
				t.Errorf("%s in pieces of %d:\n%s\nwant\n%s", name, size, got, c.want)
			}
		}
	}
	var none Tables
	if got := none.Write("| a |\n|---|\n", 0) + none.End(0); got != "| a |\n|---|\n" {
		t.Errorf("without a width: %q", got)
	}
}
