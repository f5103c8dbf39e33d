package terminal

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// typed returns what a person sends who presses some keys.
func typed(t *testing.T, history *History, keys string) (string, draftState) {
	t.Helper()
	k := &keyboard{from: &oneByOne{[]byte(keys)}}
	d := &draft{out: NewScreen(&bytes.Buffer{}), prompt: "› ", history: history, commands: []string{"/help", "/history ", "/quit"}, recalled: -1}
	for {
		pressed, err := k.next()
		if err != nil {
			return d.line.text(), draftOpen
		}
		if state := d.press(pressed); state != draftOpen {
			return d.line.text(), state
		}
	}
}

// oneByOne has every byte arrive alone.
type oneByOne struct{ left []byte }

func (o *oneByOne) Read(p []byte) (int, error) {
	if len(o.left) == 0 {
		return 0, os.ErrClosed
	}
	p[0], o.left = o.left[0], o.left[1:]
	return 1, nil
}

func TestDraft_keysEditTheText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ keys, want string }{
		"plain":                       {"hello\r", "hello"},
		"left and right":              {"wrld\x1b[D\x1b[D\x1b[Do\x01hello \x05!\r", "hello world!"},
		"backspace takes all":         {"日本é\u0301x\x7f\x7f\r", "日本"},
		"a flag is one":               {"a🇩🇪\x7fb\r", "ab"},
		"wide before":                 {"日本\x1b[Dx\r", "日x本"},
		"words":                       {"one two three\x17\x17four\r", "one four"},
		"word by word":                {"one two\x1bb\x1b[1;5DX\x1bf-\r", "Xone- two"},
		"to the ends":                 {"one two\x1bb\x0b\x01\x1b[3~\r", "ne "},
		"to the start":                {"one two\x1bb\x15\r", "two"},
		"alt-enter":                   {"one\x1b\rtwo\r", "one\ntwo"},
		"backslash":                   {"one\\\rtwo\r", "one\ntwo"},
		"backslash inside":            {"a\\b\r", `a\b`},
		"up within the text":          {"one\x1b\rtwo\x1b[A!\r", "one!\ntwo"},
		"down within the text":        {"one\x1b\rtwo\x1b[A\x01\x1b[B!\r", "one\n!two"},
		"pasted":                      {"a \x1b[200~b\r\nc\n\td\x1b[31m\r\x1b[201~\r", "a b\nc\n\td\uFFFD[31m\n"},
		"unknown keys":                {"a\x1b[15~\x1bOPb\x1b[<0;1;1Mc\r", "abc"},
		"no text":                     {"a\xff\xc3\rb", "a\uFFFD\uFFFD"},
		"command":                     {"/q\t\r", "/quit"},
		"command with a choice":       {"/h\t\x1b[Cis\t5\r", "/history 5"},
		"dropped":                     {"never\x03said\r", "said"},
		"delete at the end":           {"ab\x04\x1b[D\x04\r", "a"},
		"history":                     {"\x1b[A\x1b[A?\r", "first?"},
		"back from the history":       {"new\x1b[A\x1b[B\r", "new"},
		"search":                      {"\x12FIR\r", "first"},
		"search on":                   {"\x12s\x12\r", "first"},
		"search, then edit":           {"\x12sec\x01the \r", "the second"},
		"search given up":             {"mine\x12sec\x07!\r", "mine!"},
		"search finds nothing":        {"\x12nowhere\r", ""},
		"search with one letter less": {"\x12secx\x7f\r", "second"},
	} {
		history := &History{lines: []string{"first", "second"}}
		if got, state := typed(t, history, c.keys); got != c.want || state != draftSent {
			t.Errorf("%s: %q (state %d), want %q", name, got, state, c.want)
		}
	}
	for name, keys := range map[string]string{"ctrl-d": "\x04", "ctrl-c": "\x03", "ctrl-c twice": "a\x03\x03"} {
		if _, state := typed(t, &History{}, keys); state != draftEnded {
			t.Errorf("%s does not end the input: state %d", name, state)
		}
	}
}

func TestLine_layoutFitsEveryWidth(t *testing.T) {
	t.Parallel()
	var l line
	l.set("one 日本語日本語 two\n\tthree 🙂 four")
	for columns := 6; columns <= 60; columns++ {
		for at := range len(l.characters) + 1 {
			l.moveTo(at)
			rows, row, column := l.layout("\x1b[36m› \x1b[0m", columns)
			for _, text := range rows {
				if visibleWidth(text) >= columns {
					t.Fatalf("%d columns: a row of %d: %q", columns, visibleWidth(text), text)
				}
			}
			if row >= len(rows) || column >= columns {
				t.Fatalf("%d columns: the cursor is at %d, %d of %d rows", columns, row, column, len(rows))
			}
		}
	}
	rows, row, column := l.layout("› ", 12)
	if got := strings.Join(rows, "|"); got != "› one 日本|  語日本語 |  two|    three |  🙂 four" || row != 4 || column != 9 {
		t.Errorf("%q, the cursor at %d, %d", got, row, column)
	}
}

func TestCompleteLine_filesAlsoBehindAnAt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"notes.txt", "notebook.md", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := dir + string(filepath.Separator)
	for before, want := range map[string]string{"see " + at + "not": "e", "see @" + at + "notes": ".txt", "@" + at + "ot": "her", at + "x": "", "": ""} {
		if more, _ := completeLine(before, nil); more != want {
			t.Errorf("%q becomes longer by %q, want %q", before, more, want)
		}
	}
	if _, choices := completeLine("@"+at+"note", nil); len(choices) != 2 {
		t.Errorf("choices %q", choices)
	}
}
