package memory_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/memory"
)

func TestPassages_overlapByASentence(t *testing.T) {
	var sentences []string
	for i := range 40 {
		sentences = append(sentences, fmt.Sprintf("Sentence number %d says something of its own.", i))
	}
	passages := memory.Passages(strings.Join(sentences, " "))
	if len(passages) < 5 {
		t.Fatalf("%d passages", len(passages))
	}
	for i, passage := range passages[1:] {
		first, _, _ := strings.Cut(passage, ".")
		if !strings.HasSuffix(passages[i], first+".") {
			t.Errorf("passage %d begins with %q, the one before ends otherwise: %q", i+1, first, passages[i])
		}
	}
	all := strings.Join(passages, "\n")
	for _, sentence := range sentences {
		if !strings.Contains(all, sentence) {
			t.Errorf("%q is in no passage", sentence)
		}
	}
}

func TestPassages_anyTextIsCutIntoFew(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "short": "tea", "no space": strings.Repeat("x", 100_000), "no sentence": strings.Repeat("word ", 20_000),
		"Japanese": strings.Repeat("猫がいる。", 5_000), "broken": strings.Repeat("\xff\xfe a", 5_000), "lines": strings.Repeat("a\n", 20_000),
	} {
		passages := memory.Passages(text)
		if len(passages) == 0 || len(passages) > 130 {
			t.Errorf("%s: %d passages", name, len(passages))
		}
		for _, p := range passages {
			if utf8.ValidString(text) && !utf8.ValidString(p) {
				t.Errorf("%s: a character is cut: %.20q", name, p)
			}
		}
	}
}
