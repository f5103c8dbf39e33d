package definition

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// writeYAML writes a document in block style, for people to read and edit.
func writeYAML(b *bytes.Buffer, root *node) {
	for _, e := range root.entries {
		writeEntry(b, e, 0)
	}
}

func writeEntry(b *bytes.Buffer, e entry, indent int) {
	writeIndent(b, indent)
	b.Write(scalar(e.key))
	b.WriteByte(':')
	n := e.value
	switch {
	case n.kind == object && len(n.entries) > 0:
		b.WriteByte('\n')
		for _, inner := range n.entries {
			writeEntry(b, inner, indent+2)
		}
	case n.kind == list && len(n.items) > 0:
		b.WriteByte('\n')
		for _, item := range n.items {
			writeItem(b, item, indent+2)
		}
	case n.kind == text && readsAsBlock(n.text):
		writeBlock(b, n.text, indent+2)
	case n.kind == text:
		b.WriteByte(' ')
		b.Write(scalar(n.text))
		b.WriteByte('\n')
	default: // JSON is YAML too
		b.WriteByte(' ')
		n.write(b)
		b.WriteByte('\n')
	}
}

func writeItem(b *bytes.Buffer, n *node, indent int) {
	writeIndent(b, indent)
	b.WriteString("- ")
	switch {
	case n.kind == object && len(n.entries) > 0:
		var inner bytes.Buffer
		for _, e := range n.entries {
			writeEntry(&inner, e, indent+2)
		}
		b.Write(inner.Bytes()[indent+2:]) // the first key stands behind the dash
	case n.kind == text:
		b.Write(scalar(n.text))
		b.WriteByte('\n')
	default:
		n.write(b)
		b.WriteByte('\n')
	}
}

func writeIndent(b *bytes.Buffer, indent int) {
	for range indent {
		b.WriteByte(' ')
	}
}

var plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*[,.!]?( [A-Za-z][A-Za-z0-9_./-]*[,.!]?)*$`)

// scalar is s without quotes where no reader of YAML, old or new, could take
// it for something else.
func scalar(s string) []byte {
	reserved := []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
	if plainWord.MatchString(s) && !slices.Contains(reserved, strings.ToLower(s)) {
		return []byte(s)
	}
	return quote(s)
}

// readsAsBlock reports a text of several lines that a literal block holds as
// it is.
func readsAsBlock(s string) bool {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	if len(lines) < 2 || lines[0] == "" || lines[len(lines)-1] == "" {
		return false
	}
	for i, line := range lines {
		if line != strings.TrimRightFunc(line, unicode.IsSpace) || i == 0 && line[0] == ' ' {
			return false
		}
		if strings.ContainsFunc(line, func(c rune) bool { return !strconv.IsPrint(c) }) {
			return false
		}
	}
	return true
}

func writeBlock(b *bytes.Buffer, s string, indent int) {
	body, ended := strings.CutSuffix(s, "\n")
	b.WriteString(" |")
	if !ended {
		b.WriteByte('-')
	}
	b.WriteByte('\n')
	for line := range strings.SplitSeq(body, "\n") {
		if line != "" {
			writeIndent(b, indent)
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
}
