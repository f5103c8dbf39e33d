package benchrecall

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/memory"
)

// What lies between these two lines of performance.md is written by the test.
const (
	beginMark = "<!-- begin of what make bench-recall writes -->\n"
	endMark   = "<!-- end of what make bench-recall writes -->"
)

// format is the result as a table.
func (r result) format() string {
	var b strings.Builder
	b.WriteString("| | questions | words @1 | @5 | meaning @1 | @5 | hybrid @1 | @5 |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, language := range languages {
		for _, kind := range []string{paraphrase, name, long} {
			if r[language][memory.Hybrid][kind] == nil {
				continue
			}
			fmt.Fprintf(&b, "| %s, %s | %d |", language, kind, r[language][memory.Hybrid][kind].asked)
			for _, mode := range modes {
				c := r[language][mode][kind]
				fmt.Fprintf(&b, " %s | %s |", share(c.at1, c.asked), share(c.at5, c.asked))
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("\n| false positives | questions | words | meaning | hybrid |\n|---|---:|---:|---:|---:|\n")
	for _, language := range languages {
		for _, kind := range []string{unrelated, unanswered} {
			if r[language][memory.Hybrid][kind] == nil {
				continue
			}
			fmt.Fprintf(&b, "| %s, %s | %d |", language, kind, r[language][memory.Hybrid][kind].asked)
			for _, mode := range modes {
				c := r[language][mode][kind]
				fmt.Fprintf(&b, " %s |", share(c.answered, c.asked))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func share(n, of int) string { return fmt.Sprintf("%.2f", float64(n)/float64(of)) }

// replaceSection puts a section between the marks of a page.
func replaceSection(page, section string) (string, error) {
	before, rest, begun := strings.Cut(page, beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return "", fmt.Errorf("the lines %q and %q are not there in this order", beginMark, endMark)
	}
	return before + beginMark + "\n" + section + "\n" + endMark + after, nil
}
