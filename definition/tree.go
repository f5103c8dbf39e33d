package definition

import (
	"bytes"
	"regexp"
	"strconv"
)

// kind is what a node is. Its text is how an error says it.
type kind string

const (
	null    kind = "null"
	boolean kind = "a boolean"
	number  kind = "a number"
	text    kind = "a string"
	list    kind = "a list"
	object  kind = "a map"
)

// node is a value of a file: what JSON can hold, with the line it stands on
// and every key in its order, repeated ones too.
type node struct {
	kind    kind
	line    int
	text    string // of a text; of a number and a boolean as JSON writes it
	items   []*node
	entries []entry
}

type entry struct {
	key   string
	line  int
	value *node
}

// maxDepth is how deep the values of a definition may nest.
const maxDepth = 64

// json is the node without white space, keys in the order of the file.
func (n *node) json() []byte {
	var b bytes.Buffer
	n.write(&b)
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer) {
	switch n.kind {
	case null:
		b.WriteString("null")
	case boolean, number:
		b.WriteString(n.text)
	case text:
		b.Write(quote(n.text))
	case list:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	case object:
		b.WriteByte('{')
		for i, e := range n.entries {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(quote(e.key))
			b.WriteByte(':')
			e.value.write(b)
		}
		b.WriteByte('}')
	}
}

// quote is s as a JSON string that YAML reads the same: what is invisible is
// escaped, and nothing else that need not be.
func quote(s string) []byte {
	b := []byte{'"'}
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c < 0x10000 && !strconv.IsPrint(c):
			b = append(b, `\u`...)
			hex := strconv.FormatInt(int64(c), 16)
			b = append(b, "0000"[len(hex):]...)
			b = append(b, hex...)
		default:
			b = append(b, string(c)...)
		}
	}
	return append(b, '"')
}

// plainNumber is how JSON writes numbers.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// holdable reports a number written as JSON writes it that a 64-bit float
// does not overflow.
func holdable(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil && plainNumber.MatchString(s)
}
