package pyre

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// group takes a group, its opening parenthesis gone already.
func (p *parser) group() (node, error) {
	switch {
	case !p.accept("?"):
		return p.capture("")
	case p.accept(":"):
		return p.body()
	case p.accept("#"):
		return p.comment()
	case p.accept(">"):
		body, err := p.body()
		return &atomic{body}, err
	case p.accept("="):
		return p.look(false, false)
	case p.accept("!"):
		return p.look(false, true)
	case p.accept("<="):
		return p.look(true, false)
	case p.accept("<!"):
		return p.look(true, true)
	case p.accept("P<"):
		name, err := p.name('>')
		if err != nil {
			return nil, err
		}
		return p.capture(name)
	case p.accept("P="):
		name, err := p.name(')')
		if err != nil {
			return nil, err
		}
		index, ok := p.names[name]
		if !ok {
			return nil, fmt.Errorf("unknown group %s", name)
		}
		return p.backref(index)
	case p.accept("("):
		return nil, errors.New("(?(group)…) is not supported")
	}
	return p.flagged()
}

// flagged takes (?flags:…).
func (p *parser) flagged() (node, error) {
	on, err := p.flagLetters()
	if err != nil {
		return nil, err
	}
	off := ""
	if p.accept("-") {
		if off, err = p.flagLetters(); err != nil {
			return nil, err
		}
		if off == "" || strings.ContainsAny(off, "au") || strings.ContainsAny(on, off) {
			return nil, errors.New("bad flags")
		}
	} else if on == "" {
		return nil, errors.New("unknown extension of a group")
	}
	if p.peek() == ')' && off == "" {
		return nil, errors.New("global flags not at the start of the pattern")
	}
	if !p.accept(":") {
		return nil, errors.New("missing : after flags")
	}
	outer := p.flags
	p.flags = outer.with(on, true).with(off, false)
	body, err := p.body()
	p.flags = outer
	return body, err
}

// body takes the inside of a group and its closing parenthesis. A group of
// one part stays apart from what follows it: (?:a*)* is no double repeat.
func (p *parser) body() (node, error) {
	n, err := p.choice()
	if err != nil {
		return nil, err
	}
	if !p.accept(")") {
		return nil, errors.New("missing )")
	}
	if _, ok := n.(assertion); ok {
		return sequence{n}, nil
	}
	return n, nil
}

func (p *parser) capture(name string) (node, error) {
	p.groups++
	index := p.groups
	if name != "" {
		if _, ok := p.names[name]; ok {
			return nil, fmt.Errorf("the group %s is defined twice", name)
		}
		p.names[name] = index
	}
	p.open = append(p.open, index)
	body, err := p.body()
	p.open = p.open[:len(p.open)-1]
	if err != nil {
		return nil, err
	}
	low, high := width(body)
	p.widths[index] = [2]int{low, high}
	return &group{index, body}, nil
}

func (p *parser) comment() (node, error) {
	for p.more() {
		if p.accept(")") {
			return nil, nil
		}
		p.pos++
	}
	return nil, errors.New("missing ) of a comment")
}

func (p *parser) look(behind, negated bool) (node, error) {
	body, err := p.body()
	if err != nil {
		return nil, err
	}
	n := &look{body: body, behind: -1, negated: negated}
	if behind {
		low, high := width(body)
		if low != high {
			return nil, errors.New("look-behind needs a pattern of fixed width")
		}
		n.behind = low
	}
	return n, nil
}

// name takes the name of a group and the character that ends it.
func (p *parser) name(end rune) (string, error) {
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

func (p *parser) backref(index int) (node, error) {
	if index > p.groups {
		return nil, fmt.Errorf("no group %d before this", index)
	}
	if slices.Contains(p.open, index) {
		return nil, fmt.Errorf("group %d is still open here", index)
	}
	w := p.widths[index]
	return backref{index: index, ignoreCase: p.flags.ignoreCase, low: w[0], high: w[1]}, nil
}

// width is how many characters a node takes at least and at most.
func width(n node) (low, high int) {
	switch n := n.(type) {
	case oneRune:
		return 1, 1
	case sequence:
		for _, part := range n {
			l, h := width(part)
			low, high = min(low+l, unlimited), min(high+h, unlimited)
		}
		return low, high
	case choice:
		low = unlimited
		for _, way := range n {
			l, h := width(way)
			low, high = min(low, l), max(high, h)
		}
		return low, high
	case *group:
		return width(n.body)
	case *atomic:
		return width(n.body)
	case *repeat:
		l, h := width(n.body)
		return min(l*n.min, unlimited), min(h*n.max, unlimited)
	case backref:
		return n.low, n.high
	}
	return 0, 0
}
