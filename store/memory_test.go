package store_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func TestCheckEntryKey_segmentsOfPlainText(t *testing.T) {
	for _, key := range []string{"a", "a/b", "...", "a.", ".a/b.", " ", "%_*'\"\\", "é/東京", "\u200b", strings.Repeat("k", 256)} {
		if err := store.CheckEntryKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{"", "/", "a/", "/a", "a//b", ".", "a/.", "..", "../a", "a\tb", "a\x7fb", "a\u0085b", "\xff", strings.Repeat("k", 257)} {
		var invalid *session.InvalidError
		if err := store.CheckEntryKey(key); !errors.As(err, &invalid) || invalid.Field != "key" {
			t.Errorf("%q: got %v, want an InvalidError about the key", key, err)
		}
	}
}

// Whatever is a user id of a session or the name of an agent can own memory.
func TestOwnerCheck_admitsEveryUserAndAgent(t *testing.T) {
	property.Check(t, func(t *property.T) {
		name := property.OneOf(property.String(), property.StringN(250, 260)).Draw(t, "name")
		identity := session.Identity{ID: "s", AgentID: "a", UserID: name}
		if _, err := session.New(identity, session.Definition{Name: "tester"}, session.Seed{}, time.Unix(0, 0)); err != nil {
			return
		}
		err := store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeUser, Name: name}.Check()
		if (err != nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	})
}

func TestMemoCheck_isACopyAsItIsKept(t *testing.T) {
	given := store.Memo{Key: "k", Value: json.RawMessage(` { "a" : 1.0 } `), At: time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("x", 60))}
	kept, err := given.Check()
	if err != nil {
		t.Fatal(err)
	}
	if string(kept.Value) != `{"a":1.0}` || !kept.At.Equal(session.Instant(given.At)) {
		t.Errorf("kept %s at %s", kept.Value, kept.At)
	}
	given.Value[3] = 'X'
	if string(kept.Value) != `{"a":1.0}` {
		t.Error("the copy shares its value")
	}
	if kept, err = (store.Memo{Key: "k"}).Check(); err != nil || string(kept.Value) != "null" {
		t.Errorf("no value is kept as %s, %v", kept.Value, err)
	}
}

func TestSearchCheck_fillsInAndRefuses(t *testing.T) {
	given := []string{"tea", "cup", "tea"}
	q, err := store.Search{Words: given, User: "ann"}.Check()
	if err != nil || !slices.Equal(q.Words, []string{"cup", "tea"}) || q.Least != 1 || q.Limit != 50 {
		t.Errorf("%+v, %v", q, err)
	}
	if !slices.Equal(given, []string{"tea", "cup", "tea"}) {
		t.Errorf("the caller's words became %q", given)
	}
	for what, q := range map[string]store.Search{
		"no words": {User: "ann"}, "a blank word": {Words: []string{"", "tea"}, User: "ann"}, "no place": {Words: []string{"tea"}},
		"a bad session": {Words: []string{"tea"}, Session: "a/b"}, "a bad user": {Words: []string{"tea"}, User: "a\x00"},
		"a bad agent": {Words: []string{"tea"}, Agent: "\xff"}, "a negative least": {Words: []string{"tea"}, User: "ann", Least: -1},
		"a limit of 1001": {Words: []string{"tea"}, User: "ann", Limit: 1001},
	} {
		if _, err := q.Check(); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: got %v, want an InvalidError", what, err)
		}
	}
}

func TestSearchFound_countsDifferentWords(t *testing.T) {
	q, err := store.Search{Words: store.Words("Hot TEA tea milk"), User: "ann"}.Check()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"": 0, "teapot": 0, "Tea, tea, tea!": 1, "hot milk": 2, "MILK in hot tea": 3} {
		if got := q.Found(text); got != want {
			t.Errorf("%q holds %d of the words, want %d", text, got, want)
		}
	}
}

func passage() property.Generator[store.Passage] {
	return property.Custom(func(t *property.T) store.Passage {
		p := store.Passage{
			Found: property.IntRange(1, 2).Draw(t, "found"),
			At:    time.Unix(property.Int64Range(0, 1).Draw(t, "at"), 0),
		}
		if property.Bool().Draw(t, "message") {
			p.SessionID = property.SampledFrom([]string{"a", "b"}).Draw(t, "session")
			p.Seq = property.SampledFrom([]int64{1, 2, math.MaxInt64}).Draw(t, "seq")
			return p
		}
		p.Owner = store.Owner{
			Scope: property.SampledFrom([]store.Scope{store.ScopeUser, store.ScopeAgent}).Draw(t, "scope"),
			Name:  property.SampledFrom([]string{"a", "ab"}).Draw(t, "name"),
		}
		p.Key = property.SampledFrom([]string{"b", "bb"}).Draw(t, "key")
		return p
	})
}

// Two stores that find the same rank it the same only if no two passages are
// equal that are not one.
func TestPassageCompare_isATotalOrder(t *testing.T) {
	property.Check(t, func(t *property.T) {
		a, b, c := passage().Draw(t, "a"), passage().Draw(t, "b"), passage().Draw(t, "c")
		if a.Compare(b) != -b.Compare(a) {
			t.Errorf("%+v and %+v: %d one way, %d the other", a, b, a.Compare(b), b.Compare(a))
		}
		if (a.Compare(b) == 0) != (a == b) {
			t.Errorf("%+v and %+v compare as %d", a, b, a.Compare(b))
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Errorf("%+v, %+v, %+v go round in a circle", a, b, c)
		}
	})
}

func TestMessageText_textsAndToolResults(t *testing.T) {
	for want, m := range map[string]session.Message{
		"":           {},
		"a":          {Content: session.Text("a")},
		"a\nb":       {Content: session.Content{{Type: session.PartText, Text: "a"}, {Type: session.PartText}, {Type: session.PartText, Text: "b"}}},
		"answer":     {ToolResult: &session.ToolResult{Content: "answer", ToolName: "tool"}},
		"a\nanswer":  {Content: session.Text("a"), ToolResult: &session.ToolResult{Content: "answer"}},
		"only texts": {Content: session.Content{{Type: session.PartReasoning, Text: "thought"}, {Type: session.PartText, Text: "only texts"}}},
	} {
		if got := store.MessageText(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestEntryText_stringsAsTheyAre(t *testing.T) {
	for value, want := range map[string]string{
		`"tea \"hot\"\u00e9"`: `tea "hot"é`, `null`: `null`, `{"a":"b"}`: `{"a":"b"}`, ` "x" `: `x`, `12`: `12`, `""`: ``,
	} {
		if got := store.EntryText(json.RawMessage(value)); got != want {
			t.Errorf("%s is shown as %q, want %q", value, got, want)
		}
	}
	if got := store.Words(store.EntryWords("drinks/tea", json.RawMessage(`"Green"`))); !slices.Equal(got, []string{"drink", "green", "tea"}) {
		t.Errorf("the words are %q", got)
	}
}

func FuzzWords(f *testing.F) {
	for _, text := range []string{"", "The CAT", "Straße", "東京", "a\xffb", strings.Repeat("é", 50), "👩‍👩‍👧", "x\u0301y", "İI"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words := store.Words(text)
		for i, word := range words {
			if word == "" || len(word) > 64 || !utf8.ValidString(word) || !strings.ContainsFunc(word, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.S) }) {
				t.Errorf("%q is a word of %q", word, text)
			}
			if i > 0 && words[i-1] >= word {
				t.Errorf("%q before %q", words[i-1], word)
			}
		}
		if len(words) == 0 {
			return
		}
		q, err := store.Search{Words: words, User: "ann"}.Check()
		if err != nil || q.Found(text) != len(words) {
			t.Errorf("%q holds %d of its %d words (%v)", text, q.Found(text), len(words), err)
		}
	})
}

func TestEntryText_ofAFactIsWhatItSays(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][2]string{
		`"tea"`:                         {"tea", "k\ntea"},
		`{"fact":"tea","validFrom":1}`:  {"tea", "tea"},
		`{"fact":1}`:                    {`{"fact":1}`, "k\n" + `{"fact":1}`},
		`["fact"]`:                      {`["fact"]`, "k\n" + `["fact"]`},
		`{"other":"the \"fact\" here"}`: {`{"other":"the \"fact\" here"}`, "k\n" + `{"other":"the \"fact\" here"}`},
	} {
		if text, words := store.EntryText([]byte(value)), store.EntryWords("k", []byte(value)); text != want[0] || words != want[1] {
			t.Errorf("%s is shown as %q and searched as %q", value, text, words)
		}
	}
}
