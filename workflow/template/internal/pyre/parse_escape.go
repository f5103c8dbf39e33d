package pyre

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// escape takes an escape outside brackets, its backslash gone already.
func (p *parser) escape() (node, error) {
	if !p.more() {
		return nil, errors.New("a backslash ends the pattern")
	}
	c := p.peek()
	switch c {
	case 'd', 'D', 'w', 'W', 's', 'S':
		p.pos++
		return &class{categories: []category{p.category(c)}}, nil
	case 'A':
		p.pos++
		return assertion{func(_ []rune, i int) bool { return i == 0 }}, nil
	case 'Z':
		p.pos++
		return assertion{func(t []rune, i int) bool { return i == len(t) }}, nil
	case 'b', 'B':
		p.pos++
		return p.boundary(c == 'b'), nil
	}
	if '1' <= c && c <= '9' {
		return p.numbered()
	}
	r, err := p.escapedRune()
	if err != nil {
		return nil, err
	}
	return p.char(r), nil
}

func (p *parser) category(c rune) category {
	lower := c | 0x20
	return category{letter: lower, negated: c != lower, ascii: p.flags.ascii}
}

// boundary is \b or \B. Python's \B does not match in an empty text.
func (p *parser) boundary(wanted bool) node {
	word := category{letter: 'w', ascii: p.flags.ascii}
	return assertion{func(t []rune, i int) bool {
		if len(t) == 0 {
			return false
		}
		before := i > 0 && word.holds(t[i-1])
		after := i < len(t) && word.holds(t[i])
		return (before != after) == wanted
	}}
}

// numbered takes a backreference, or an octal escape of three digits.
func (p *parser) numbered() (node, error) {
	digits := string(p.peek())
	p.pos++
	if isDigit(p.peek()) {
		digits += string(p.peek())
		p.pos++
		if isOctal(rune(digits[0])) && isOctal(rune(digits[1])) && isOctal(p.peek()) {
			digits += string(p.peek())
			p.pos++
			c, err := octal(digits)
			return p.char(c), err
		}
	}
	index, err := strconv.Atoi(digits)
	if err != nil {
		return nil, err
	}
	return p.backref(index)
}

// escapedRune takes an escape that stands for one character.
func (p *parser) escapedRune() (rune, error) {
	c := p.peek()
	p.pos++
	switch c {
	case 'x':
		return p.hexadecimal(2)
	case 'u':
		return p.hexadecimal(4)
	case 'U':
		return p.hexadecimal(8)
	case '0':
		digits := "0"
		for len(digits) < 3 && isOctal(p.peek()) {
			digits += string(p.peek())
			p.pos++
		}
		return octal(digits)
	}
	if i := strings.IndexRune("afnrtv", c); i >= 0 {
		return rune("\a\f\n\r\t\v"[i]), nil
	}
	if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
		return 0, fmt.Errorf(`bad escape \%c`, c)
	}
	return c, nil
}

func (p *parser) hexadecimal(digits int) (rune, error) {
	if len(p.text)-p.pos < digits {
		return 0, errors.New("incomplete escape")
	}
	code, err := strconv.ParseUint(string(p.text[p.pos:p.pos+digits]), 16, 32)
	if err != nil || code > 0x10FFFF {
		return 0, errors.New("incomplete escape")
	}
	p.pos += digits
	return rune(code), nil
}

func isDigit(c rune) bool { return '0' <= c && c <= '9' }

func isOctal(c rune) bool { return '0' <= c && c <= '7' }

func octal(digits string) (rune, error) {
	code, err := strconv.ParseUint(digits, 8, 32)
	if err != nil || code > 0o377 {
		return 0, errors.New("octal escape beyond \\377")
	}
	return rune(code), nil
}

// class takes a set in brackets, the opening one gone already.
func (p *parser) class() (node, error) {
	n := &class{ignoreCase: p.flags.ignoreCase, ascii: p.flags.ascii}
	n.negated = p.accept("^")
	for first := true; first || p.peek() != ']'; first = false {
		if !p.more() {
			return nil, errors.New("the set is not closed")
		}
		low, cat, err := p.member()
		if err != nil {
			return nil, err
		}
		if p.peek() != '-' || p.pos+1 < len(p.text) && p.text[p.pos+1] == ']' {
			if cat != nil {
				n.categories = append(n.categories, *cat)
			} else {
				n.ranges = append(n.ranges, runeRange{low, low})
			}
			continue
		}
		p.pos++
		if !p.more() {
			return nil, errors.New("the set is not closed")
		}
		high, cat2, err := p.member()
		if err != nil {
			return nil, err
		}
		if cat != nil || cat2 != nil || high < low {
			return nil, errors.New("bad character range")
		}
		n.ranges = append(n.ranges, runeRange{low, high})
	}
	p.pos++
	return n, nil
}

// member takes one character of a set, or a category.
func (p *parser) member() (rune, *category, error) {
	c := p.peek()
	p.pos++
	if c != '\\' {
		return c, nil, nil
	}
	if !p.more() {
		return 0, nil, errors.New("a backslash ends the pattern")
	}
	switch c := p.peek(); {
	case strings.ContainsRune("dDwWsS", c):
		p.pos++
		cat := p.category(c)
		return 0, &cat, nil
	case c == 'b':
		p.pos++
		return '\b', nil, nil
	case isOctal(c):
		digits := ""
		for len(digits) < 3 && isOctal(p.peek()) {
			digits += string(p.peek())
			p.pos++
		}
		r, err := octal(digits)
		return r, nil, err
	case isDigit(c):
		return 0, nil, fmt.Errorf(`bad escape \%c`, c)
	}
	r, err := p.escapedRune()
	return r, nil, err
}
