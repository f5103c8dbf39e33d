package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// category returns the inside of a set for d, w or s. .NET counts combining marks as
// parts of words and the separators U+001C to U+001F not as space; Python does
// the opposite.
func (p *patternTranslator) category(letter rune) string {
	if p.flags.ascii {
		return map[rune]string{'d': `0-9`, 'w': `a-zA-Z0-9_`, 's': `\x20\x09-\x0d`}[letter]
	}
	return map[rune]string{'d': `\d`, 'w': `\p{L}\p{N}_`, 's': `\s\x1c-\x1f`}[letter]
}

// escape translates an escape outside a set; its backslash has been read.
func (p *patternTranslator) escape() (w width, repeatable bool, err error) {
	if !p.more() {
		return w, false, errors.New("a backslash ends the pattern")
	}
	c := p.peek()
	if '1' <= c && c <= '9' {
		w, err = p.numbered()
		return w, true, err
	}
	p.pos++
	switch c {
	case 'd', 'w', 's':
		p.write("[" + p.category(c) + "]")
		return width{1, 1}, true, nil
	case 'D', 'W', 'S':
		p.write("[^" + p.category(c|0x20) + "]")
		return width{1, 1}, true, nil
	case 'A':
		p.write(`\A`)
		return w, false, nil
	case 'Z':
		p.write(`\z`)
		return w, false, nil
	case 'b':
		p.write(strings.ReplaceAll(`(?:(?<=[W])(?![W])|(?<![W])(?=[W]))`, "W", p.category('w')))
		return w, false, nil
	case 'B': // never matches in an empty text
		p.write(strings.ReplaceAll(`(?:(?<=[W])(?=[W])|(?<![W])(?![W])(?:(?<=[\s\S])|(?=[\s\S])))`, "W", p.category('w')))
		return w, false, nil
	}
	p.pos--
	r, err := p.escapedRune()
	p.character(r)
	return width{1, 1}, true, err
}

// numbered translates a backreference, or an octal escape of three digits.
func (p *patternTranslator) numbered() (width, error) {
	digits := string(p.peek())
	p.pos++
	if c := p.peek(); '0' <= c && c <= '9' {
		digits += string(c)
		p.pos++
		if isOctal(rune(digits[0])) && isOctal(c) && isOctal(p.peek()) {
			p.pos -= 2
			r, err := p.octal()
			p.character(r)
			return width{1, 1}, err
		}
	}
	index, err := strconv.Atoi(digits)
	if err != nil {
		return width{}, err
	}
	return p.backreference(index + firstGroup - 1)
}

// escapedRune reads an escape that stands for one character.
func (p *patternTranslator) escapedRune() (rune, error) {
	c := p.peek()
	if c == '0' {
		return p.octal()
	}
	p.pos++
	switch c {
	case 'x':
		return p.hexadecimal(2)
	case 'u':
		return p.hexadecimal(4)
	case 'U':
		return p.hexadecimal(8)
	}
	if i := strings.IndexRune("afnrtv", c); i >= 0 {
		return rune("\a\f\n\r\t\v"[i]), nil
	}
	if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
		return 0, fmt.Errorf(`bad escape \%c`, c)
	}
	return c, nil
}

func (p *patternTranslator) hexadecimal(digits int) (rune, error) {
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

func isOctal(c rune) bool { return '0' <= c && c <= '7' }

// octal reads up to three octal digits.
func (p *patternTranslator) octal() (rune, error) {
	code := rune(0)
	for n := 0; n < 3 && isOctal(p.peek()); n++ {
		code = code*8 + p.peek() - '0'
		p.pos++
	}
	if code > 0o377 {
		return 0, errors.New(`octal escape beyond \377`)
	}
	return code, nil
}

// class translates a set in brackets; the opening one has been read. \D, \W
// and \S inside a set have no counterpart, so they become alternatives of it.
func (p *patternTranslator) class() error {
	negated := p.accept("^")
	inside := ""
	var complements []string
	for first := true; first || p.peek() != ']'; first = false {
		low, category, err := p.member()
		if err != nil {
			return err
		}
		switch {
		case p.peek() == '-' && p.pos+1 < len(p.text) && p.text[p.pos+1] != ']':
			p.pos++
			high, other, err := p.member()
			if err != nil {
				return err
			}
			if category != 0 || other != 0 || high < low {
				return errors.New("bad character range")
			}
			inside += literal(low) + "-" + literal(high) + p.cases(low, high)
		case category == 0:
			inside += literal(low) + p.cases(low, low)
		case category >= 'a':
			inside += p.category(category)
		default:
			complements = append(complements, p.category(category|0x20))
		}
	}
	p.pos++
	p.writeClass(inside, complements, negated)
	return nil
}

func (p *patternTranslator) writeClass(inside string, complements []string, negated bool) {
	switch {
	case len(complements) == 0 && negated:
		p.write("[^" + inside + "]")
	case len(complements) == 0:
		p.write("[" + inside + "]")
	case negated:
		p.write("(?:")
		for _, c := range complements {
			p.write("(?=[" + c + "])")
		}
		if inside != "" {
			p.write("(?![" + inside + "])")
		}
		p.write(`[\s\S])`)
	default:
		p.write("(?:")
		if inside != "" {
			p.write("[" + inside + "]|")
		}
		p.write("[^" + strings.Join(complements, "]|[^") + "])")
	}
}

// member reads one character of a set, or the letter of a category.
func (p *patternTranslator) member() (c, category rune, err error) {
	if !p.more() {
		return 0, 0, errors.New("the set is not closed")
	}
	c = p.peek()
	p.pos++
	if c != '\\' {
		return c, 0, nil
	}
	switch c := p.peek(); {
	case !p.more():
		return 0, 0, errors.New("a backslash ends the pattern")
	case strings.ContainsRune("dDwWsS", c):
		p.pos++
		return 0, c, nil
	case c == 'b':
		p.pos++
		return '\b', 0, nil
	case isOctal(c):
		c, err = p.octal()
		return c, 0, err
	case c == '8' || c == '9':
		return 0, 0, fmt.Errorf(`bad escape \%c`, c)
	}
	c, err = p.escapedRune()
	return c, 0, err
}
