package document

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// YAML writes a map in block style, for people to read and edit. Parse reads
// it back as the same tree.
func (n *Node) YAML() []byte {
	var b bytes.Buffer
	writeEntries(&b, n.Entries, 0)
	return b.Bytes()
}

func writeEntries(b *bytes.Buffer, entries []Entry, indent int) {
	for _, e := range entries {
		writeIndent(b, indent)
		b.WriteString(scalar(e.Key) + ":")
		switch n := e.Value; {
		case n.Kind == Map && len(n.Entries) > 0:
			b.WriteByte('\n')
			writeEntries(b, n.Entries, indent+2)
		case n.Kind == List && len(n.Items) > 0:
			b.WriteByte('\n')
			for _, item := range n.Items {
				writeItem(b, item, indent+2)
			}
		case n.Kind == String && fitsBlock(n.Text):
			writeBlock(b, n.Text, indent+2)
		default:
			b.WriteByte(' ')
			writeInline(b, n)
		}
	}
}

func writeItem(b *bytes.Buffer, n *Node, indent int) {
	writeIndent(b, indent)
	b.WriteString("- ")
	if n.Kind == Map && len(n.Entries) > 0 {
		var inner bytes.Buffer
		writeEntries(&inner, n.Entries, indent+2)
		b.Write(inner.Bytes()[indent+2:]) // the first key stands behind the dash
		return
	}
	writeInline(b, n)
}

// writeInline writes a value on one line. JSON is YAML too.
func writeInline(b *bytes.Buffer, n *Node) {
	if n.Kind == String {
		b.WriteString(scalar(n.Text))
	} else {
		n.writeJSON(b)
	}
	b.WriteByte('\n')
}

func writeIndent(b *bytes.Buffer, indent int) { b.WriteString(strings.Repeat(" ", indent)) }

var plainWords = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*[,.!]?( [A-Za-z][A-Za-z0-9_./-]*[,.!]?)*$`)

// scalar leaves the quotes out where no reader of YAML, old or new, could take
// the text for something else.
func scalar(s string) string {
	reserved := []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
	if plainWords.MatchString(s) && !slices.Contains(reserved, strings.ToLower(s)) {
		return s
	}
	return quote(s)
}

// fitsBlock reports a text of several lines that a literal block holds
// unchanged.
func fitsBlock(s string) bool {
	lines := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	if len(lines) < 2 || lines[0] == "" || lines[0][0] == ' ' || lines[len(lines)-1] == "" {
		return false
	}
	return !slices.ContainsFunc(lines, func(line string) bool {
		return line != strings.TrimRightFunc(line, unicode.IsSpace) ||
			strings.ContainsFunc(line, func(c rune) bool { return !strconv.IsPrint(c) })
	})
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
		b.WriteString(line + "\n")
	}
}
