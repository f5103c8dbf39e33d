package pyre

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
)

// The bounds of a pattern: nesting of groups, and its length.
const (
	maxNesting = 100
	maxLength  = 10_000
)

// unlimited is the maximum of * and +.
const unlimited = math.MaxInt32

// flags are what (?aims-x) switches.
type flags struct {
	ascii, ignoreCase, multiline, dotAll, verbose bool
}

type parser struct {
	text   []rune
	pos    int
	flags  flags
	groups int
	open   []int // groups whose end is still to come
	names  map[string]int
	widths map[int][2]int // of the groups that are closed
	depth  int
}

func (p *parser) parse() (node, error) {
	if len(p.text) > maxLength {
		return nil, fmt.Errorf("longer than %d characters", maxLength)
	}
	if err := p.globalFlags(); err != nil {
		return nil, err
	}
	n, err := p.choice()
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.text) {
		return nil, errors.New("unbalanced parenthesis")
	}
	return n, nil
}

func (p *parser) more() bool { return p.pos < len(p.text) }

func (p *parser) peek() rune {
	if !p.more() {
		return -1
	}
	return p.text[p.pos]
}

func (p *parser) accept(s string) bool {
	rest := p.text[p.pos:]
	runes := []rune(s)
	if len(rest) < len(runes) || !slices.Equal(rest[:len(runes)], runes) {
		return false
	}
	p.pos += len(runes)
	return true
}

// globalFlags takes (?flags) off the start, the only place for them.
func (p *parser) globalFlags() error {
	for {
		start := p.pos
		if p.flags.verbose {
			p.skipVerbose()
		}
		if !p.accept("(?") || !unicode.IsLetter(p.peek()) || p.peek() == 'P' {
			p.pos = start
			return nil
		}
		on, err := p.flagLetters()
		if err != nil {
			return err
		}
		if !p.accept(")") {
			p.pos = start
			return nil
		}
		p.flags = p.flags.with(on, true)
	}
}

func (p *parser) flagLetters() (string, error) {
	var b strings.Builder
	for unicode.IsLetter(p.peek()) {
		c := p.peek()
		if !strings.ContainsRune("aimsxu", c) {
			return "", fmt.Errorf("unknown or unsupported flag %c", c)
		}
		b.WriteRune(c)
		p.pos++
	}
	if s := b.String(); strings.Contains(s, "a") && strings.Contains(s, "u") {
		return "", errors.New("the flags a and u exclude each other")
	}
	return b.String(), nil
}

func (f flags) with(letters string, on bool) flags {
	for _, c := range letters {
		switch c {
		case 'a':
			f.ascii = on
		case 'u':
			f.ascii = !on
		case 'i':
			f.ignoreCase = on
		case 'm':
			f.multiline = on
		case 's':
			f.dotAll = on
		case 'x':
			f.verbose = on
		}
	}
	return f
}

// skipVerbose skips white space and comments.
func (p *parser) skipVerbose() {
	for p.more() {
		switch c := p.peek(); {
		case strings.ContainsRune(" \t\n\r\v\f", c):
			p.pos++
		case c == '#':
			for p.more() && p.peek() != '\n' {
				p.pos++
			}
		default:
			return
		}
	}
}

func (p *parser) choice() (node, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxNesting {
		return nil, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	var ways choice
	for {
		way, err := p.sequence()
		if err != nil {
			return nil, err
		}
		ways = append(ways, way)
		if !p.accept("|") {
			break
		}
	}
	if len(ways) == 1 {
		return ways[0], nil
	}
	return ways, nil
}

func (p *parser) sequence() (node, error) {
	var seq sequence
	for {
		if p.flags.verbose {
			p.skipVerbose()
		}
		if !p.more() || p.peek() == '|' || p.peek() == ')' {
			break
		}
		n, err := p.item()
		if err != nil {
			return nil, err
		}
		if n == nil {
			continue
		}
		if n, err = p.quantified(n); err != nil {
			return nil, err
		}
		seq = append(seq, n)
	}
	if len(seq) == 1 {
		return seq[0], nil
	}
	return seq, nil
}

// item takes one part without its quantifier; nil for a comment.
func (p *parser) item() (node, error) {
	c := p.peek()
	p.pos++
	switch c {
	case '.':
		return anyChar{p.flags.dotAll}, nil
	case '^':
		return p.lineStart(), nil
	case '$':
		return p.lineEnd(), nil
	case '(':
		return p.group()
	case '[':
		return p.class()
	case '\\':
		return p.escape()
	case '*', '+', '?':
		return nil, errors.New("nothing to repeat")
	case '{':
		p.pos--
		if _, _, ok, err := p.bounds(); err != nil || ok {
			return nil, errors.Join(err, errors.New("nothing to repeat"))
		}
		p.pos++
	}
	return p.char(c), nil
}

func (p *parser) char(c rune) node {
	return char{c: c, ignoreCase: p.flags.ignoreCase, ascii: p.flags.ascii}
}

func (p *parser) lineStart() node {
	if p.flags.multiline {
		return assertion{func(t []rune, i int) bool { return i == 0 || t[i-1] == '\n' }}
	}
	return assertion{func(_ []rune, i int) bool { return i == 0 }}
}

// lineEnd is $: at the end, and before a newline that is the last character.
func (p *parser) lineEnd() node {
	if p.flags.multiline {
		return assertion{func(t []rune, i int) bool { return i == len(t) || t[i] == '\n' }}
	}
	return assertion{func(t []rune, i int) bool {
		return i == len(t) || i == len(t)-1 && t[i] == '\n'
	}}
}

// quantified takes the quantifier after n, if there is one.
func (p *parser) quantified(n node) (node, error) {
	if p.flags.verbose {
		p.skipVerbose()
	}
	low, high := 0, unlimited
	switch p.peek() {
	case '*':
		p.pos++
	case '+':
		low = 1
		p.pos++
	case '?':
		high = 1
		p.pos++
	case '{':
		var ok bool
		var err error
		if low, high, ok, err = p.bounds(); err != nil || !ok {
			return n, err
		}
	default:
		return n, nil
	}
	if _, ok := n.(assertion); ok {
		return nil, errors.New("nothing to repeat")
	}
	r := &repeat{body: n, min: low, max: high}
	var out node = r
	switch {
	case p.accept("?"):
		r.lazy = true
	case p.accept("+"):
		out = &atomic{r}
	}
	if p.flags.verbose {
		p.skipVerbose()
	}
	switch p.peek() {
	case '*', '+', '?':
		return nil, errors.New("multiple repeat")
	case '{':
		if _, _, ok, err := p.bounds(); err != nil || ok {
			return nil, errors.Join(err, errors.New("multiple repeat"))
		}
	}
	return out, nil
}

// bounds takes {m}, {m,}, {,n} or {m,n}. Braces around anything else are
// characters like others; then nothing is taken.
func (p *parser) bounds() (low, high int, ok bool, err error) {
	start := p.pos
	p.pos++
	if p.peek() == '}' {
		p.pos = start
		return 0, 0, false, nil
	}
	low, lowGiven := p.digits()
	high = low
	if p.accept(",") {
		var given bool
		if high, given = p.digits(); !given {
			high = unlimited
		}
	} else if !lowGiven {
		p.pos = start
		return 0, 0, false, nil
	}
	if !p.accept("}") {
		p.pos = start
		return 0, 0, false, nil
	}
	if high < low {
		return 0, 0, false, errors.New("the maximum of a repeat is below its minimum")
	}
	return low, high, true, nil
}

func (p *parser) digits() (n int, given bool) {
	for ; '0' <= p.peek() && p.peek() <= '9'; p.pos++ {
		n = min(n*10+int(p.peek()-'0'), unlimited)
		given = true
	}
	return n, given
}
