package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

func TestWords_areFoldedAndStemmed(t *testing.T) {
	for text, want := range map[string][]string{
		"":                            nil,
		" … — !? ":                    nil,
		"The cat, the CAT & a dog.":   {"a", "cat", "dog", "the"},
		"don't re-read v1.5":          {"don't", "re", "read", "v1.5"},
		"Straße STRASSE":              {"strass"},
		"東京 です":                       {"す", "で", "です", "京", "東", "東京"},
		"100% _x_ a_b":                {"100", "_x_", "a_b"},
		strings.Repeat("x", 70) + "!": {strings.Repeat("x", 64)},
		"running runs run":            {"run"},
		"ZX-4471 fees":                {"4471", "fee", "zx"},
		"счета счёт":                  {"счет"},
	} {
		if got := store.Words(text); !slices.Equal(got, want) {
			t.Errorf("words of %q are %q, want %q", text, got, want)
		}
	}
}

// One word that can be written in several ways is one word.
func TestWords_doNotDependOnTheSpelling(t *testing.T) {
	for _, same := range [][]string{
		{"café", "cafe\u0301", "CAFE", "ｃａｆé"},
		{"don't", "don’t", "DONʼT"},
		{"ΆΛΦΑ", "αλφα"},
		{"ё", "е"},
		{"❤️", "❤"},
		{"ｶﾞ", "ガ"},
	} {
		want := store.Words(same[0])
		for _, other := range same[1:] {
			if got := store.Words(other); !slices.Equal(got, want) || len(got) == 0 {
				t.Errorf("words of %q are %q, those of %q are %q", other, got, same[0], want)
			}
		}
	}
}

func TestWords_emojiAndSymbolsAreWords(t *testing.T) {
	for _, text := range []string{"🎂", "👩‍👩‍👧", "€", "$", "≠", "♫"} {
		if got := store.Words("paid " + text + " today"); len(got) != 3 {
			t.Errorf("the words with %s are %q", text, got)
		}
	}
}

// A mark that changes a letter into another one is no accent.
func TestWords_keepMarksThatAreLetters(t *testing.T) {
	for _, pair := range [][2]string{{"が", "か"}, {"कि", "क"}, {"ガ", "カ"}} {
		if slices.Equal(store.Words(pair[0]), store.Words(pair[1])) {
			t.Errorf("%q and %q are the same word", pair[0], pair[1])
		}
	}
}

func TestTerms_leaveFunctionWordsOut(t *testing.T) {
	for question, want := range map[string][]string{
		"What was ZX-4471 about?": {"4471", "zx"},
		"Who are they?":           {"are", "they", "who"},
		"Wo ist die Katze?":       {"katz"},
		"猫はどこですか":                 {"猫"},
		"東京都の猫":                   {"京都", "東京", "猫"},
	} {
		if got := store.Terms(question); !slices.Equal(got, want) {
			t.Errorf("terms of %q are %q, want %q", question, got, want)
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
