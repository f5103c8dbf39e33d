package document

import (
	"errors"
	"strings"
)

// blockText is the value of a block scalar, from its header (| or > and what
// follows) and its lines as they stand in the file. The library's own value,
// theirs, drops spaces at ends and folds indented lines otherwise than the
// standard; texts of a spec are sent byte for byte. Where a first line begins
// with a tab the library loses lines, so that is refused.
func blockText(header, lines, theirs string) (string, error) {
	indent := indentOf(lines)
	if strings.ContainsAny(header, "123456789") { // it is set, not seen; theirs has it taken off
		if strings.TrimSpace(theirs) == "" {
			return theirs, nil
		}
		indent -= indentOf(theirs)
	}
	if strings.HasPrefix(strings.TrimLeft(lines, " \n"), "\t") {
		return "", errors.New("has a block of text that begins with a tab, which is not supported")
	}
	folded := strings.HasPrefix(header, ">")
	var b strings.Builder
	var blank int          // empty lines since the last text
	var started, deep bool // a line of text came; it was indented further
	end := ""              // the line break after the last text
	for len(lines) > 0 {
		line, rest, broken := strings.Cut(lines, "\n")
		lines = rest
		line = line[min(indent, len(line)-len(strings.TrimLeft(line, " "))):]
		if line == "" {
			blank++
			continue
		}
		deeper := line[0] == ' ' || line[0] == '\t'
		switch {
		case !started:
		case !folded || deep || deeper:
			b.WriteByte('\n')
		case blank == 0:
			b.WriteByte(' ')
		}
		b.WriteString(strings.Repeat("\n", blank))
		b.WriteString(line)
		started, deep, blank, end = true, deeper, 0, ""
		if broken {
			end = "\n"
		}
	}
	if !strings.Contains(header, "-") {
		b.WriteString(end)
	}
	if strings.Contains(header, "+") {
		b.WriteString(strings.Repeat("\n", blank))
	}
	return b.String(), nil
}

// indentOf is the indentation of the first line that is not blank. Lines that
// are all blank are as far in as the longest.
func indentOf(lines string) int {
	longest := 0
	for line := range strings.Lines(lines) {
		line = strings.TrimSuffix(line, "\n")
		text := strings.TrimLeft(line, " ")
		if text != "" {
			return len(line) - len(text)
		}
		longest = max(longest, len(line))
	}
	return longest
}
