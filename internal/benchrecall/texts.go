// Package benchrecall measures what recall finds: facts that somebody told an
// agent, in six languages, and questions about them. The texts are our own.
package benchrecall

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed *.txt
var files embed.FS

// languages are the files of texts, in the order of the table. unseen is English
// that nothing was tuned by.
var languages = []string{"english", "unseen", "german", "spanish", "french", "russian", "japanese"}

// The kinds of questions.
const (
	paraphrase = "paraphrase" // asks for a fact in other words
	name       = "name"       // asks for a name or a number
	long       = "long"       // asks for a fact inside a long message
	unrelated  = "unrelated"  // asks for something nobody would tell an agent
	unanswered = "unanswered" // asks for something that could have been told and was not
)

// question is what is asked, and the message that answers it.
type question struct {
	kind, text string
	answer     int // the message's place; -1: nothing answers it
}

// texts are a conversation and what is asked about it.
type texts struct {
	language  string
	messages  []string
	questions []question
}

// longWords is about how many words a long message has.
const longWords = 340

// readTexts reads the texts of a language with the questions of some kinds. A long message has its fact at the
// beginning, in the middle or at the end.
func readTexts(language string, kinds ...string) (texts, error) {
	t := texts{language: language}
	file, err := files.ReadFile(language + ".txt")
	if err != nil {
		return t, err
	}
	lines := map[string][]string{}
	section := ""
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "== "); ok {
			section = title
		} else if line != "" && !strings.HasPrefix(line, "#") {
			lines[section] = append(lines[section], line)
		}
	}
	for _, kind := range kinds {
		if kind == unrelated || kind == unanswered {
			continue
		}
		for i, line := range lines[kind] {
			fact, asked, ok := strings.Cut(line, " | ")
			if !ok {
				return t, fmt.Errorf("%s: no question for %q", language, line)
			}
			if kind == long {
				fact = hide(fact, lines["filler"], i)
			}
			t.questions = append(t.questions, question{kind, asked, len(t.messages)})
			t.messages = append(t.messages, fact)
		}
	}
	t.messages = append(t.messages, lines["distractor"]...)
	for _, kind := range []string{unrelated, unanswered} {
		if !slices.Contains(kinds, kind) {
			continue
		}
		for _, asked := range lines[kind] {
			t.questions = append(t.questions, question{kind, asked, -1})
		}
	}
	return t, nil
}

// hide puts a fact among sentences that have nothing to do with it.
func hide(fact string, filler []string, n int) string {
	var around []string
	for size := 0; size < longWords*6; {
		next := filler[(n+len(around)*5)%len(filler)]
		around, size = append(around, next), size+len(next)
	}
	at := n % 3 * len(around) / 2
	sentences := append(append(append([]string{}, around[:at]...), fact), around[at:]...)
	return strings.Join(sentences, " ")
}
