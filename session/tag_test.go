package session_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

func TestTags_haveOneOfEveryPairThatAFilterCanFind(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	s, err := session.New(session.Identity{ID: "s", AgentID: "a"}, session.Definition{Name: "tester", Model: "test/model"}, session.Seed{}, at)
	if err != nil {
		t.Fatal(err)
	}
	s = session.Seal(s, at)
	if session.MayRetag(s) {
		t.Error("a sealed session may have other tags")
	}
	long := strings.Repeat("x", 5000)
	for key, raw := range map[string]string{"text": `"a\u0062c"`, "empty": `""`, "null": `null`, "number": `7`, "long": `"` + long + `"`} {
		if s, err = s.With(at, session.MetadataWritten{Key: key, Value: json.RawMessage(raw)}); err != nil {
			t.Fatal(err)
		}
	}
	if !session.MayRetag(s) {
		t.Error("changed metadata leaves the tags")
	}
	tags, ok := session.Tags(s)
	if !ok || len(tags) != 3 || !slices.IsSorted(tags) {
		t.Errorf("tags: %v %t, want three", tags, ok)
	}
	has := func(key, value string) bool {
		return slices.ContainsFunc(tags, func(tag int64) bool { of := session.TagsOf(key, value); return slices.Contains(of[:], tag) })
	}
	for _, p := range [][2]string{{"text", "abc"}, {"empty", ""}, {"long", long}} {
		if !has(p[0], p[1]) {
			t.Errorf("%s has no tag", p[0])
		}
	}
	for _, p := range [][2]string{{"text", "ab"}, {"textabc", ""}, {"null", ""}, {"number", "7"}, {"none", ""}} {
		if has(p[0], p[1]) {
			t.Errorf("%q of %s has a tag", p[1], p[0])
		}
	}
	for i := range 300 {
		if s, err = s.With(at, session.MetadataWritten{Key: fmt.Sprint("k", i), Value: json.RawMessage(`"v"`)}); err != nil {
			t.Fatal(err)
		}
	}
	if tags, ok := session.Tags(s); ok || len(tags) != 0 {
		t.Errorf("%d tags of a session with many keys", len(tags))
	}
}

// Tags are stored: the numbers must never change.
func TestTagsOf_areTheStoredNumbers(t *testing.T) {
	t.Parallel()
	if got, want := session.TagsOf("customer", "ann"), [2]int64{-2696164087823646091, 6706252648369756601}; got != want {
		t.Errorf("tags: %v, want %v", got, want)
	}
}
