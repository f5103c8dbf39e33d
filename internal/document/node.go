package document

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Kind is what a node is, in the words of an error.
type Kind string

// The kinds. An integer is also a number.
const (
	Null    Kind = "null"
	Bool    Kind = "a boolean"
	Integer Kind = "an integer"
	Number  Kind = "a number"
	String  Kind = "a string"
	List    Kind = "a list"
	Map     Kind = "a map"
)

// Node is a value of a document: what JSON can hold, and where it stands.
type Node struct {
	Kind         Kind
	File         string // Options.File
	Line, Column int
	Text         string // of a string; of a boolean or number as JSON writes it
	Items        []*Node
	Entries      []Entry // no key twice, in the order of the document

	repeats    []Entry // keys that were there before
	hasRepeats bool    // here or further down
}

// Entry is a key of a map and its value.
type Entry struct {
	Key   string
	Line  int
	Value *Node
}

// Get finds the value of a key, nil if there is none.
func (n *Node) Get(key string) *Node {
	for _, e := range n.Entries {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// Int64 is the value of a whole number, also of one written as 2.0.
func (n *Node) Int64() (int64, bool) {
	i, err := strconv.ParseInt(n.Text, 10, 64)
	if err != nil && n.Kind == Number {
		f := n.Float64()
		return int64(f), f == math.Trunc(f) && math.Abs(f) < 1<<63
	}
	return i, err == nil
}

// Float64 is the value of a number or an integer.
func (n *Node) Float64() float64 {
	f, _ := strconv.ParseFloat(n.Text, 64) // checked when the node was made
	return f
}

// height is how many levels of values are below a node.
func (n *Node) height() int {
	h := 0
	for _, item := range n.Items {
		h = max(h, item.height()+1)
	}
	for _, e := range n.Entries {
		h = max(h, e.Value.height()+1)
	}
	return h
}

func (n *Node) place() string { return place(n.File, n.Line) }

// place is the end of a problem's text: where it is.
func place(file string, line int) string {
	switch {
	case line == 0:
		return ""
	case file != "":
		return fmt.Sprintf(" (%s, line %d)", file, line)
	}
	return fmt.Sprintf(" (line %d)", line)
}

// jsonNumber is how JSON writes numbers.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// setNumber reads a number. With PlainNumbers it keeps the text, else it writes
// the value as JSON does.
func (b *builder) setNumber(n *Node, kind Kind, written string, base int) error {
	n.Kind, n.Text = kind, written
	f, err := strconv.ParseFloat(written, 64)
	if b.PlainNumbers {
		if err != nil || base != 10 || !jsonNumber.MatchString(written) {
			return fmt.Errorf("has a number that is not a plain decimal one or too large; quote it if it is a text%s", n.place())
		}
		return nil
	}
	if n.Text = strconv.FormatFloat(f, 'g', -1, 64); kind == Integer {
		var i int64
		i, err = strconv.ParseInt(written, base, 64)
		n.Text = strconv.FormatInt(i, 10)
	}
	if err != nil {
		return fmt.Errorf("has a number that is too large; quote it if it is a text%s", n.place())
	}
	return nil
}

// JSON is the node without white space, keys in the order of the document.
func (n *Node) JSON() []byte {
	var b bytes.Buffer
	n.writeJSON(&b)
	return b.Bytes()
}

func (n *Node) writeJSON(b *bytes.Buffer) {
	switch n.Kind {
	case Null:
		b.WriteString("null")
	case String:
		b.WriteString(quote(n.Text))
	case List:
		b.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.writeJSON(b)
		}
		b.WriteByte(']')
	case Map:
		b.WriteByte('{')
		for i, e := range n.Entries {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quote(e.Key) + ":")
			e.Value.writeJSON(b)
		}
		b.WriteByte('}')
	default:
		b.WriteString(n.Text)
	}
}

// quote writes a JSON string that YAML reads the same: invisible characters
// are escaped, and nothing else that need not be.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\r':
			b.WriteString(`\r`)
		case c < 0x10000 && !strconv.IsPrint(c):
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String() + `"`
}
