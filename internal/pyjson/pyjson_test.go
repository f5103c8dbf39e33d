package pyjson_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/pyjson"
)

// The expected texts were printed by CPython.
func TestPrint(t *testing.T) {
	t.Parallel()
	const raw = `{"b":[1,2.50,{}],"é":"\ud83d\ude00\u007f\n<","c":[],"d":[true,null,-0,1e16]}`
	for name, c := range map[string]struct {
		raw, indent string
		ascii       bool
		want        string
	}{
		"in one line": {raw, "", false, `{"b": [1, 2.5, {}], "é": "😀` + "\x7f" + `\n<", "c": [], "d": [true, null, 0, 1e+16]}`},
		"in ASCII":    {raw, "", true, `{"b": [1, 2.5, {}], "\u00e9": "\ud83d\ude00\u007f\n<", "c": [], "d": [true, null, 0, 1e+16]}`},
		"in lines":    {`{"a":[1,{}],"b":[]}`, "  ", true, "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}"},
		"a text":      {` "a" `, "  ", true, `"a"`},
		"no JSON":     {`{"a":`, "  ", true, `{"a":`},
		"nothing":     {"", "", true, ""},
	} {
		if got := string(pyjson.Print([]byte(c.raw), c.indent, c.ascii)); got != c.want {
			t.Errorf("%s: %s is printed\n%s, want\n%s", name, c.raw, got, c.want)
		}
	}
}
