package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

func TestWords_foldsCaseAndLeavesPunctuation(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            nil,
		" … — !? ":                    nil,
		"The cat, the CAT & a dog.":   {"a", "cat", "dog", "the"},
		"don't re-read v1.5":          {"don't", "re", "read", "v1.5"},
		"Straße STRASSE":              {"strasse"},
		"東京 です":                       {"す", "で", "京", "東"},
		"100% _x_ a_b":                {"100", "_x_", "a_b"},
		strings.Repeat("x", 70) + "!": {strings.Repeat("x", 64)},
	} {
		if got := store.Words(text); !slices.Equal(got, want) {
			t.Errorf("words of %q are %q, want %q", text, got, want)
		}
	}
}

func TestCovers_wholeSegmentsOnly(t *testing.T) {
	for _, c := range []struct {
		prefix, key string
		want        bool
	}{
		{"", "a", true}, {"a", "a", true}, {"a", "a/b", true}, {"a", "ab", false}, {"a/b", "a/bc", false},
		{"a/b", "a", false}, {"a%", "a%/b", true}, {"a_", "ab/c", false},
	} {
		if got := store.Covers(c.prefix, c.key); got != c.want {
			t.Errorf("%q covers %q: %t", c.prefix, c.key, got)
		}
	}
}

func BenchmarkWords(b *testing.B) {
	text := strings.Repeat("The ferry to Bergen leaves at nine, they said; bring warm clothes. ", 15)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		store.Words(text)
	}
}
