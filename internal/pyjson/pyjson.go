// Package pyjson prints JSON as Python's json module does.
package pyjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
)

// Print returns what json.dumps(json.loads(raw)) prints. An indent puts every
// value on its own line; with ascii nothing but ASCII is left. Numbers that
// Python would turn into Infinity, which is no JSON, stay as they are, and so
// does a text that is no JSON.
func Print(raw []byte, indent string, ascii bool) []byte {
	p := &printer{indent: indent, ascii: ascii, dec: json.NewDecoder(bytes.NewReader(raw)), out: make([]byte, 0, len(raw)+len(raw)/2)}
	p.dec.UseNumber()
	if p.value(0) != nil {
		return raw
	}
	return p.out
}

type printer struct {
	dec    *json.Decoder
	indent string
	ascii  bool
	out    []byte
}

func (p *printer) value(depth int) error {
	t, err := p.dec.Token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		return p.nested(t, depth+1)
	case string:
		p.text(t)
	case json.Number:
		p.number(string(t))
	case bool:
		p.out = strconv.AppendBool(p.out, t)
	default:
		p.out = append(p.out, "null"...)
	}
	return nil
}

// nested prints an object or a list whose opening was read.
func (p *printer) nested(open json.Delim, depth int) error {
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
			if err := p.value(depth); err != nil { // the key
				return err
			}
			p.out = append(p.out, ": "...)
		}
		if err := p.value(depth); err != nil {
			return err
		}
	}
	if n > 0 {
		p.line(depth - 1)
	}
	p.out = append(p.out, byte(open)+2) // } and ] stand two after { and [
	_, err := p.dec.Token()
	return err
}

func (p *printer) line(depth int) {
	if p.indent != "" {
		p.out = append(append(p.out, '\n'), strings.Repeat(p.indent, depth)...)
	}
}

func (p *printer) text(s string) {
	p.out = append(p.out, '"')
	for _, r := range s {
		switch short := strings.IndexRune("\"\\\n\r\t\b\f", r); {
		case short >= 0:
			p.out = append(p.out, '\\', `"\nrtbf`[short])
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

func (p *printer) number(text string) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case text == "-0":
		p.out = append(p.out, '0')
	case strings.ContainsAny(text, ".eE") && err == nil && !math.IsInf(f, 0):
		p.out = append(p.out, Float(f)...)
	default:
		p.out = append(p.out, text...)
	}
}

// Float returns Python's repr: the shortest digits that give the same number,
// with an exponent below 1e-4 and from 1e16 on, else with a decimal point.
func Float(f float64) string {
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
