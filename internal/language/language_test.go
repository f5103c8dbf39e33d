package language_test

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/language"
)

func TestForeign_tellsEnglishFromOthers(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                 false,
		"ZX-4471":                          false,
		"The ferry to Bergen leaves at 9":  false,
		"I was in Paris with Die Zeit":     false,
		"Die Bank hat eine Karte":          true,
		"¿Dónde está mi pasaporte?":        true,
		"Où est mon passeport ?":           true,
		"Где лежит паспорт?":               true,
		"猫の名前は何ですか":                        true,
		"안녕하세요":                            true,
		"Ask 東京 about the ferry to Bergen": false,
	} {
		if got := language.Foreign(text); got != want {
			t.Errorf("%q is foreign: %t", text, got)
		}
	}
}

func TestPersonal_speaksOfThoseWhoTakePart(t *testing.T) {
	for text, want := range map[string]bool{
		"Where do I live?": true, "Our cat": true, "Wo ist mein Pass?": true, "Who was Cleopatra?": false, "The mine is deep in Iowa": true,
	} {
		if got := language.Personal(text); got != want {
			t.Errorf("%q is personal: %t", text, got)
		}
	}
}

func TestStem_inflectedFormsAreOneWord(t *testing.T) {
	for _, same := range [][]string{{"ferry", "ferries"}, {"leave", "leaves", "leaving"}, {"книга", "книги"}} {
		for _, word := range same[1:] {
			if language.Stem(word) != language.Stem(same[0]) {
				t.Errorf("%q and %q: %q and %q", word, same[0], language.Stem(word), language.Stem(same[0]))
			}
		}
	}
	for _, word := range []string{"zx4471s", "a_bees", "v1.5s", "東京"} {
		if got := language.Stem(word); got != word {
			t.Errorf("%q became %q", word, got)
		}
	}
}
