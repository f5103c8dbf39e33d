package wire_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/llm/internal/wire"
	"github.com/holdfast-dev/holdfast/session"
)

// How servers are spoken to is tested with both protocols in package llm; here
// are the parts that stand alone.

func TestCallIDs_fitAndOfOneCallOnly(t *testing.T) {
	t.Parallel()
	var ids wire.CallIDs
	var given []string
	for _, id := range []string{"toolu_01", "", "functions.x:0", "toolu_01", "call_1", strings.Repeat("a", 41), "call_5", ""} {
		given = append(given, ids.Call(id))
	}
	seen := map[string]bool{}
	for _, id := range given {
		if seen[id] || id == "" || len(id) > 40 || strings.ContainsAny(id, ".: ") {
			t.Errorf("%q in %q", id, given)
		}
		seen[id] = true
	}
	if given[0] != "toolu_01" {
		t.Errorf("a good id was changed: %q", given)
	}
	var answered []string
	for range given {
		answered = append(answered, ids.Result())
	}
	if !reflect.DeepEqual(answered, given) {
		t.Errorf("called %q, answered %q", given, answered)
	}
	if got := ids.Result(); got != "" {
		t.Errorf("a result without a call answers %q", got)
	}
}

func TestToolName_everyProviderTakesIt(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"look": "look", "a.b c": "a_b_c", "": "unnamed", "é": "unnamed", "§§x": "_x", strings.Repeat("a", 70): strings.Repeat("a", 64),
	} {
		if got := wire.ToolName(name); got != want {
			t.Errorf("%q became %q", name, got)
		}
	}
}

func TestCount_takesNothingThatCannotBe(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]wire.Count{
		"7": 7, "0": 0, "-7": 0, "1e300": 0, "1e9": 1e9, "1000000001": 0, "2.6": 3, `"12"`: 12, `"many"`: 0, "{}": 0, "[1]": 0, "true": 0, "NaN": 5, "null": 5,
	} {
		got := wire.Count(5)
		if err := json.Unmarshal([]byte(raw), &got); err != nil && raw != "NaN" || got != want {
			t.Errorf("%s became %d, %v", raw, got, err)
		}
	}
}

func TestMediaOf_checksWhatItSends(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		part session.Part
		want wire.Media
		ok   bool
	}{
		"typed":          {session.Part{Data: "aGk=", MediaType: "text/plain; charset=utf-8"}, wire.Media{Data: "aGk=", Type: "text/plain"}, true},
		"known by sight": {session.Part{Data: "iVBORw0KGgo="}, wire.Media{Data: "iVBORw0KGgo=", Type: "image/png"}, true},
		"line breaks":    {session.Part{Data: "iVBO\r\nRw0KGgo=\n"}, wire.Media{Data: "iVBORw0KGgo=", Type: "image/png"}, true},
		"data url":       {session.Part{URL: "data:image/gif;base64,R0lGOA=="}, wire.Media{Data: "R0lGOA==", Type: "image/gif"}, true},
		"no base64":      {session.Part{Data: "no base64"}, wire.Media{}, false},
		"empty":          {session.Part{}, wire.Media{}, false},
		"bad type":       {session.Part{Data: "aGk=", MediaType: "/"}, wire.Media{}, false},
		"a link":         {session.Part{URL: "https://example.org/data:;base64,aGk="}, wire.Media{}, false},
	} {
		got, ok := wire.MediaOf(c.part)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: got %+v, %v", name, got, ok)
		}
	}
}
