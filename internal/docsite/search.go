package docsite

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/internal/language"
)

// maxHits is how many sections a search shows.
const maxHits = 20

// Hit is a section that a search has found.
type Hit struct {
	Page, Title, Anchor string
	Excerpt             string

	score int
}

// Search returns the sections that have every word of a query, in any inflected
// form, the best first. A word that is the beginning of another finds it too.
func (s *Site) Search(query string) []Hit {
	asked := stems(query)
	if len(asked) == 0 {
		return nil
	}
	s.indexed.Do(func() {
		for _, section := range s.sections {
			section.titleStems, section.stems = stems(section.Title), stems(section.text.String())
		}
	})
	var found []Hit
	for _, section := range s.sections {
		if score := section.score(asked); score > 0 {
			found = append(found, Hit{Page: section.Page, Title: section.Title, Anchor: section.Anchor, Excerpt: section.excerpt(asked), score: score})
		}
	}
	slices.SortStableFunc(found, func(a, b Hit) int { return cmp.Compare(b.score, a.score) })
	return found[:min(len(found), maxHits)]
}

// score says how well a section answers words, 0 where one of them is not in it.
// A word of the title counts as much as ten of the text.
func (s *section) score(asked []string) int {
	total := 0
	for _, word := range asked {
		n := 10*count(s.titleStems, word) + min(count(s.stems, word), 9)
		if n == 0 {
			return 0
		}
		total += n
	}
	return total
}

func count(all []string, word string) int {
	n := 0
	for _, w := range all {
		if strings.HasPrefix(w, word) {
			n++
		}
	}
	return n
}

// excerpt returns the text around the first word that was asked for.
func (s *section) excerpt(asked []string) string {
	said := strings.Fields(s.text.String())
	at := slices.IndexFunc(said, func(w string) bool {
		return slices.ContainsFunc(stems(w), func(stem string) bool {
			return slices.ContainsFunc(asked, func(a string) bool { return strings.HasPrefix(stem, a) })
		})
	})
	from, to := max(at-12, 0), min(max(at, 0)+18, len(said))
	text := strings.Join(said[from:to], " ")
	if from > 0 {
		text = "… " + text
	}
	if to < len(said) {
		text += " …"
	}
	return text
}

// stems returns the stems of the words of a text, with parts of names such as
// spawn_subagent as words of their own.
func stems(text string) []string {
	split := strings.FieldsFunc(language.Fold(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, word := range split {
		split[i] = language.Stem(word)
	}
	return split
}
