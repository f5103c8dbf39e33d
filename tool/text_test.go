package tool_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/tool"
)

func TestPlain_nothingReachesATerminal(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "",
		"plain é 漢 \t\n":                     "plain é 漢 \t\n",
		"\x1b[31mred\x1b[0m":                 "red",
		"\x1b]0;title\x07text":               "text",
		"\x1b]8;;http://x\x1b\\link":         "link",
		"\x1bP secret device string\x1b\\ok": "ok",
		"\u009b2Jcleared":                    "cleared",
		"\x1b(Bset":                          "set",
		"bell\x07 back\x08 nul\x00":          "bell back nul",
		"one\r\ntwo\rthree":                  "one\ntwo\nthree",
		"bad \xff\xfe utf":                   "bad \uFFFD utf",
		"right\u202eleft":                    "rightleft",
		"ends in \x1b":                       "ends in ",
		"ends in \x1b[":                      "ends in ",
	} {
		if got := tool.Plain(in); got != want {
			t.Errorf("Plain(%q) is %q, want %q", in, got, want)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("\x1b[1;31mx\x1b[m\xff\r")
	f.Fuzz(func(t *testing.T, in string) {
		got := tool.Plain(in)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\r\x00\u009b") {
			t.Errorf("Plain(%q) is %q", in, got)
		}
		if again := tool.Plain(got); again != got {
			t.Errorf("Plain is not settled: %q, then %q", got, again)
		}
	})
}

func TestCuts_sayHowMuchIsGone(t *testing.T) {
	text := strings.Repeat("é", 50)
	for name, c := range map[string]struct{ got, want string }{
		"short head":          {tool.Head("abc", 3), "abc"},
		"head":                {tool.Head("abcdef", 4), "abcd\n[cut: the first 4 of 6 bytes]"},
		"head in a character": {tool.Head(text, 5), "éé\n[cut: the first 4 of 100 bytes]"},
		"short ends":          {tool.Ends("abc", 3), "abc"},
		"ends":                {tool.Ends("abcdefgh", 4), "ab\n[cut: 4 of 8 bytes]\ngh"},
		"ends in a character": {tool.Ends(text, 6), "é\n[cut: 94 of 100 bytes]\néé"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
}
