package files_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/tool/files"
)

func TestRead_ranges(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{
		"five": "one\ntwo\nthree\nfour\nfive\n", "open": "one\ntwo", "empty": "", "crlf": "one\r\ntwo\r\n",
	})
	for name, c := range map[string]struct {
		in   args
		want string
	}{
		"whole":        {args{"path": "five"}, "one\ntwo\nthree\nfour\nfive\n"},
		"middle":       {args{"path": "five", "from": 2, "to": 3}, "two\nthree\n"},
		"from":         {args{"path": "five", "from": 5}, "five\n"},
		"to":           {args{"path": "five", "to": 1}, "one\n"},
		"to beyond":    {args{"path": "five", "from": 5, "to": 99}, "five\n"},
		"beyond":       {args{"path": "five", "from": 9}, "[no line: the file has 5]"},
		"no last end":  {args{"path": "open", "from": 2}, "two"},
		"empty":        {args{"path": "empty"}, "[the file is empty]"},
		"numbers":      {args{"path": "five", "from": 2, "to": 3, "numbers": true}, "     2  two\n     3  three\n"},
		"windows ends": {args{"path": "crlf"}, "one\ntwo\n[lines end in CRLF]"},
	} {
		if got := d.must("file_read", c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	for _, in := range []args{{"path": "five", "from": 3, "to": 2}, {"path": "five", "from": -1}, {"path": "five", "lines": 2}, {}} {
		if got, err := d.call("file_read", in); err == nil {
			t.Errorf("%v: %q", in, got)
		}
	}
	d.refused("file_read", args{"path": "nothing"}, "nothing: no such file")
	d.refused("file_read", args{"path": "."}, "is a directory")
}

func TestRead_longFilesAreReadInPieces(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&long, "line %d\n", i+1)
	}
	d := newDesk(t, files.Config{MaxResult: 500}, map[string]string{"long": long.String(), "wide": strings.Repeat("é", 100_000) + "\nlast\n"})
	var all strings.Builder
	from := 1
	for range 100 {
		got := d.must("file_read", args{"path": "long", "from": from})
		text, note, cut := strings.Cut(got, "[cut after line ")
		all.WriteString(text)
		if len(got) > 600 {
			t.Fatalf("a piece of %d bytes", len(got))
		}
		if !cut {
			break
		}
		var after int
		if _, err := fmt.Sscanf(note, "%d; go on with from=%d]", &after, &from); err != nil || from != after+1 {
			t.Fatalf("note %q: %v", note, err)
		}
	}
	if all.String() != long.String() {
		t.Errorf("the pieces make %d bytes, the file has %d", all.Len(), long.Len())
	}
	got := d.must("file_read", args{"path": "wide"})
	if len(got) > 700 || !strings.Contains(got, "line 1 is longer than 500 bytes; go on with from=2]") {
		t.Errorf("a wide line gives %q", got)
	}
	if got := d.must("file_read", args{"path": "wide", "from": 2}); got != "last\n" {
		t.Errorf("after the wide line: %q", got)
	}
}

func TestRead_whatIsNoTextIsHarmless(t *testing.T) {
	t.Parallel()
	d := newDesk(t, files.Config{}, map[string]string{
		"binary": "\x7fELF\x00\x01", "late": strings.Repeat("x", 100) + "\x00", "ansi": "\x1b[2J\x1b]0;owned\x07text", "latin": "caf\xe9", "bidi": "a\u202eb",
	})
	d.refused("file_read", args{"path": "binary"}, "is binary, 6 bytes")
	d.refused("file_read", args{"path": "late"}, "is binary")
	for name, want := range map[string]string{"ansi": "␛[2J␛]0;owned␇text", "latin": "caf\uFFFD", "bidi": "a\uFFFDb"} {
		if got := d.must("file_read", args{"path": name}); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestList_namesKindsAndSizes(t *testing.T) {
	t.Parallel()
	d := hostile(t)
	d.must("file_write", args{"path": "a.txt", "content": "four"})
	got := d.must("file_list", args{})
	for _, want := range []string{"a.txt  4\n", "in/\n", "fine -> in/file\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the list %q has no %q", got, want)
		}
	}
	if strings.Index(got, "a.txt") > strings.Index(got, "in/") {
		t.Errorf("not in order: %q", got)
	}
	d.refused("file_list", args{"path": "a.txt"}, "is no folder")
	d.refused("file_list", args{"path": "zzz"}, "no such file")
}

func TestList_saysHowMuchIsCut(t *testing.T) {
	t.Parallel()
	content := map[string]string{}
	for i := range 50 {
		content[fmt.Sprintf("file%02d", i)] = ""
	}
	d := newDesk(t, files.Config{MaxResult: 100}, content)
	if got := d.must("file_list", args{}); !strings.HasSuffix(got, "[cut: the first 10 of 50 entries]\n") || !strings.HasPrefix(got, "file00  0\n") {
		t.Errorf("got %q", got)
	}
}
