package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
)

// reprint writes compact JSON again as Python does. Numbers stay as they are.
func reprint(raw []byte, indent string, ascii bool) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	p := &printer{indent: indent, ascii: ascii, dec: dec}
	p.value(0)
	return p.out
}

type printer struct {
	dec    *json.Decoder
	indent string
	ascii  bool
	out    []byte
}

func (p *printer) value(depth int) {
	t, err := p.dec.Token()
	if err != nil {
		panic(fmt.Sprintf("workflow: JSON of our own cannot be read: %v", err))
	}
	switch t := t.(type) {
	case json.Delim:
		p.nested(t, depth+1)
	case string:
		p.text(t)
	case json.Number:
		p.out = append(p.out, t...)
	case bool:
		p.out = fmt.Appendf(p.out, "%t", t)
	default:
		p.out = append(p.out, "null"...)
	}
}

// nested prints an object or a list, whose opening was read.
func (p *printer) nested(open json.Delim, depth int) {
	p.out = append(p.out, byte(open))
	n := 0
	for ; p.dec.More(); n++ {
		if n > 0 {
			p.out = append(p.out, ',')
			if p.indent == "" {
				p.out = append(p.out, ' ')
			}
		}
		p.line(depth)
		if open == '{' {
			p.value(depth) // the key
			p.out = append(p.out, ": "...)
		}
		p.value(depth)
	}
	if n > 0 {
		p.line(depth - 1)
	}
	if _, err := p.dec.Token(); err != nil {
		panic(fmt.Sprintf("workflow: JSON of our own cannot be read: %v", err))
	}
	p.out = append(p.out, byte(open)+2) // } and ] stand two after { and [
}

func (p *printer) line(depth int) {
	if p.indent != "" {
		p.out = append(append(p.out, '\n'), strings.Repeat(p.indent, depth)...)
	}
}

func (p *printer) text(s string) {
	p.out = append(p.out, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			p.out = append(p.out, '\\', byte(r))
		case r == '\n':
			p.out = append(p.out, `\n`...)
		case r == '\r':
			p.out = append(p.out, `\r`...)
		case r == '\t':
			p.out = append(p.out, `\t`...)
		case r == '\b':
			p.out = append(p.out, `\b`...)
		case r == '\f':
			p.out = append(p.out, `\f`...)
		case r < ' ' || p.ascii && r > '~' && r <= 0xffff:
			p.out = fmt.Appendf(p.out, `\u%04x`, r)
		case p.ascii && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			p.out = fmt.Appendf(p.out, `\u%04x\u%04x`, high, low)
		default:
			p.out = append(p.out, string(r)...)
		}
	}
	p.out = append(p.out, '"')
}
