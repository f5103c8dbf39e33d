package strands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/holdfast-dev/holdfast/session"
)

// escaped is a value as the program writes session.json: json.dumps(indent=2),
// which leaves nothing but ASCII.
func escaped(value any) ([]byte, error) { return dumps(value, true) }

// plain is a value as the agents' SDK writes its files: json.dumps(indent=2,
// ensure_ascii=False).
func plain(value any) ([]byte, error) { return dumps(value, false) }

func dumps(value any, ascii bool) ([]byte, error) {
	raw, err := session.JSON(value)
	if err != nil {
		return nil, err
	}
	raw, err = session.CompactJSON("value", raw)
	if err != nil {
		return nil, err
	}
	p := printer{in: raw, ascii: ascii, out: make([]byte, 0, len(raw)+len(raw)/2)}
	p.value()
	return p.out, nil
}

// printer lays compact, valid JSON out as Python does.
type printer struct {
	in     []byte
	at     int
	indent int
	ascii  bool
	out    []byte
}

func (p *printer) value() {
	switch p.in[p.at] {
	case '{':
		p.group('}', func() {
			p.text()
			p.at++ // the colon
			p.out = append(p.out, ": "...)
			p.value()
		})
	case '[':
		p.group(']', p.value)
	case '"':
		p.text()
	default:
		start := p.at
		for p.at < len(p.in) && strings.IndexByte(",]}", p.in[p.at]) < 0 {
			p.at++
		}
		p.out = appendScalar(p.out, p.in[start:p.at])
	}
}

// group writes an object or a list, each item by the function given.
func (p *printer) group(end byte, item func()) {
	p.out = append(p.out, p.in[p.at])
	p.at++
	if p.in[p.at] == end {
		p.at++
		p.out = append(p.out, end)
		return
	}
	p.indent += 2
	for {
		p.line()
		item()
		p.at++
		if p.in[p.at-1] == end {
			break
		}
		p.out = append(p.out, ',')
	}
	p.indent -= 2
	p.line()
	p.out = append(p.out, end)
}

func (p *printer) line() {
	p.out = append(p.out, '\n')
	p.out = append(p.out, bytes.Repeat([]byte{' '}, p.indent)...)
}

func (p *printer) text() {
	start := p.at
	for p.at++; p.in[p.at] != '"'; p.at++ {
		if p.in[p.at] == '\\' {
			p.at++
		}
	}
	p.at++
	quoted := p.in[start:p.at]
	var text string
	if json.Unmarshal(quoted, &text) != nil { // not for valid JSON
		p.out = append(p.out, quoted...)
		return
	}
	p.out = append(p.out, '"')
	for _, r := range text {
		p.out = appendRune(p.out, r, p.ascii)
	}
	p.out = append(p.out, '"')
}

func appendRune(out []byte, r rune, ascii bool) []byte {
	switch r {
	case '"', '\\':
		return append(out, '\\', byte(r))
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	}
	switch {
	case r < ' ', ascii && r > '~' && r <= 0xffff:
		return fmt.Appendf(out, `\u%04x`, r)
	case ascii && r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return append(out, string(r)...)
}

// appendScalar writes a number as Python does after reading it, and true, false
// and null as they are.
func appendScalar(out, literal []byte) []byte {
	if c := literal[0]; c != '-' && (c < '0' || c > '9') {
		return append(out, literal...)
	}
	if !bytes.ContainsAny(literal, ".eE") {
		if string(literal) == "-0" {
			return append(out, '0')
		}
		return append(out, literal...)
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil || math.IsInf(f, 0) {
		return append(out, literal...) // Python would make it Infinity, which no reader of JSON takes
	}
	return appendFloat(out, f)
}

// appendFloat is Python's repr: the shortest digits that give the same number,
// with an exponent below 1e-4 and from 1e16 on, and never without a sign that
// it is no whole number.
func appendFloat(out []byte, f float64) []byte {
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.AppendFloat(out, f, 'e', -1, 64)
	}
	start := len(out)
	out = strconv.AppendFloat(out, f, 'f', -1, 64)
	if bytes.IndexByte(out[start:], '.') < 0 {
		out = append(out, ".0"...)
	}
	return out
}

// float is a number that Python shows as a float, also when it is whole.
type float float64

// MarshalJSON writes 1.0 for 1.
func (f float) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return nil, fmt.Errorf("%v is no JSON number", float64(f))
	}
	return appendFloat(nil, float64(f)), nil
}
