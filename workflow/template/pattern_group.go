package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// group translates a group; its opening parenthesis has been read.
func (p *patternTranslator) group() (width, error) {
	switch {
	case !p.accept("?"):
		return p.capture("")
	case p.accept(":"):
		return p.body("(?:")
	case p.accept(">"):
		w, err := p.body("(?>(?:")
		p.write(noOptimizing + ")")
		return w, err
	case p.accept("="):
		_, err := p.body("(?=")
		return width{}, err
	case p.accept("!"):
		_, err := p.body("(?!")
		return width{}, err
	case p.accept("<="):
		return p.lookBehind("(?<=")
	case p.accept("<!"):
		return p.lookBehind("(?<!")
	case p.accept("#"):
		return width{}, errors.New("missing ) of a comment")
	case p.accept("P<"):
		name, err := p.name('>')
		if err != nil {
			return width{}, err
		}
		return p.capture(name)
	case p.accept("P="):
		name, err := p.name(')')
		if err != nil {
			return width{}, err
		}
		index, ok := p.names[name]
		if !ok {
			return width{}, fmt.Errorf("unknown group %s", name)
		}
		return p.backreference(index)
	case p.accept("("):
		return width{}, errors.New("(?(group)…) is not supported")
	}
	return p.flagged()
}

// flagged translates (?flags:…).
func (p *patternTranslator) flagged() (width, error) {
	on, err := p.flagLetters()
	if err != nil {
		return width{}, err
	}
	off := ""
	if p.accept("-") {
		if off, err = p.flagLetters(); err != nil {
			return width{}, err
		}
		if off == "" || strings.ContainsAny(off, "au") || strings.ContainsAny(on, off) {
			return width{}, errors.New("bad flags")
		}
	} else if on == "" {
		return width{}, errors.New("unknown extension of a group")
	}
	if p.peek() == ')' && off == "" {
		return width{}, errors.New("global flags not at the start of the pattern")
	}
	if !p.accept(":") {
		return width{}, errors.New("missing : after flags")
	}
	outer := p.flags
	p.flags = outer.with(on, true).with(off, false)
	w, err := p.body(p.flags.group())
	p.flags = outer
	return w, err
}

// body translates the inside of a group and its closing parenthesis.
func (p *patternTranslator) body(opening string) (width, error) {
	p.write(opening)
	w, err := p.alternatives()
	if err != nil {
		return width{}, err
	}
	if !p.accept(")") {
		return width{}, errors.New("missing )")
	}
	p.write(")")
	return w, nil
}

func (p *patternTranslator) capture(name string) (width, error) {
	p.groups++
	index := p.groups
	if name != "" {
		if _, ok := p.names[name]; ok {
			return width{}, fmt.Errorf("the group %s is defined twice", name)
		}
		p.names[name] = index
	}
	p.open = append(p.open, index)
	w, err := p.body("(")
	p.open = p.open[:len(p.open)-1]
	p.widths[index] = w
	return w, err
}

func (p *patternTranslator) lookBehind(opening string) (width, error) {
	w, err := p.body(opening)
	if err == nil && w.low != w.high {
		err = errors.New("look-behind needs a pattern of fixed width")
	}
	return width{}, err
}

// name reads the name of a group and the character that ends it.
func (p *patternTranslator) name(end rune) (string, error) {
	start := p.pos
	for p.more() && p.peek() != end {
		p.pos++
	}
	name := string(p.text[start:p.pos])
	if !p.accept(string(end)) {
		return "", errors.New("the name of a group is not closed")
	}
	for i, c := range name {
		if c != '_' && !unicode.IsLetter(c) && (i == 0 || !unicode.IsDigit(c)) {
			return "", fmt.Errorf("bad group name %q", name)
		}
	}
	if name == "" {
		return "", errors.New("missing group name")
	}
	return name, nil
}

func (p *patternTranslator) backreference(index int) (width, error) {
	if index > p.groups {
		return width{}, fmt.Errorf("no group %d before this", index-firstGroup+1)
	}
	if slices.Contains(p.open, index) {
		return width{}, fmt.Errorf("group %d is still open here", index-firstGroup+1)
	}
	if reference := fmt.Sprintf(`\k<%d>`, index); p.flags.ignoreCase {
		p.write("(?i:" + reference + ")")
	} else {
		p.write(reference)
	}
	return p.widths[index], nil
}
