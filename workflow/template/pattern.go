package template

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dlclark/regexp2/v2"
)

const (
	// maxPattern bounds the length of a pattern, in code points.
	maxPattern = 10_000
	// maxBacktracking bounds the memory of one search, in stack slots.
	maxBacktracking = 1 << 18
	// firstGroup is the number of the first group a pattern has itself.
	firstGroup = 2
	// unlimited is the maximum of * and +.
	unlimited = math.MaxInt32
)

// compilePattern compiles a pattern of Python's re module. Patterns that Python
// refuses are refused. So are (?(group)yes|no) and \N{name}, which are not
// supported.
func compilePattern(pattern string, ignoreCase bool) (*regexp2.Regexp, error) {
	p := &patternTranslator{text: []rune(pattern), names: map[string]int{}, widths: map[int]width{}}
	p.flags.ignoreCase = ignoreCase
	err := p.translate()
	if err != nil {
		return nil, fmt.Errorf("pattern %q, position %d: %w", pattern, p.pos, err)
	}
	re, err := regexp2.Compile(string(p.out), regexp2.OptionMaxBacktrackingStackSize(maxBacktracking))
	if err != nil {
		return nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	return re, nil
}

var errSlowPattern = errors.New("the pattern takes too long on this text")

// searchPattern finds the first match, nil if there is none. It takes its time
// from left. The matcher backtracks, so a hostile pattern would run for years.
func searchPattern(re *regexp2.Regexp, text string, left *time.Duration) (*regexp2.Match, error) {
	if *left <= 0 {
		return nil, errSlowPattern
	}
	re.MatchTimeout = *left
	began := time.Now()
	m, err := re.FindStringMatch(text)
	*left -= time.Since(began)
	if err != nil { // a timeout or a full stack; its text repeats the searched text
		return nil, errSlowPattern
	}
	return m, nil
}

// noOptimizing refers to an empty group that every translation begins with, so
// it always matches. regexp2 optimizes a?. and (?>a+){2} into patterns that
// match something else; it leaves alone what has a reference in it.
const noOptimizing = `\k<1>`

// patternTranslator writes a Python pattern for regexp2, which follows .NET.
// The two differ in \w, \s, \b and \Z, in the names of groups, in escapes, in
// possessive repeats, and in what they refuse. Named groups become numbered
// ones, verbose patterns lose their white space.
type patternTranslator struct {
	text   []rune
	pos    int
	out    []byte
	flags  patternFlags
	groups int
	open   []int // groups whose end is still to come
	names  map[string]int
	widths map[int]width // of the groups that are closed
	depth  int
}

// width is how many characters a part takes at least and at most. Python
// refuses a look-behind of variable width.
type width struct{ low, high int }

func (w width) plus(other width) width {
	return width{min(w.low+other.low, unlimited), min(w.high+other.high, unlimited)}
}

// patternFlags are what (?aims-x) switches.
type patternFlags struct {
	ascii, ignoreCase, multiline, dotAll, verbose bool
}

// group begins a group that has the flags regexp2 must know.
func (f patternFlags) group() string {
	on, off := "", ""
	for i, set := range []bool{f.ignoreCase && !f.ascii, f.multiline, f.dotAll} {
		if letter := "ims"[i : i+1]; set {
			on += letter
		} else {
			off += letter
		}
	}
	return "(?" + on + "-" + off + ":"
}

func (f patternFlags) with(letters string, on bool) patternFlags {
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

func (p *patternTranslator) translate() error {
	if len(p.text) > maxPattern {
		return fmt.Errorf("longer than %d characters", maxPattern)
	}
	if err := p.globalFlags(); err != nil {
		return err
	}
	p.groups = firstGroup - 1
	p.write("()" + noOptimizing + p.flags.group())
	if _, err := p.alternatives(); err != nil {
		return err
	}
	if p.more() {
		return errors.New("unbalanced parenthesis")
	}
	p.write(")")
	return nil
}

func (p *patternTranslator) write(text string) { p.out = append(p.out, text...) }

func (p *patternTranslator) more() bool { return p.pos < len(p.text) }

func (p *patternTranslator) peek() rune {
	if !p.more() {
		return -1
	}
	return p.text[p.pos]
}

func (p *patternTranslator) accept(s string) bool {
	runes := []rune(s)
	if rest := p.text[p.pos:]; len(rest) < len(runes) || !slices.Equal(rest[:len(runes)], runes) {
		return false
	}
	p.pos += len(runes)
	return true
}

// globalFlags reads (?flags) at the start, the only place Python allows.
func (p *patternTranslator) globalFlags() error {
	for {
		start := p.pos
		p.skip()
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

func (p *patternTranslator) flagLetters() (string, error) {
	start := p.pos
	for ; unicode.IsLetter(p.peek()); p.pos++ {
		if !strings.ContainsRune("aimsxu", p.peek()) {
			return "", fmt.Errorf("unknown or unsupported flag %c", p.peek())
		}
	}
	letters := string(p.text[start:p.pos])
	if strings.Contains(letters, "a") && strings.Contains(letters, "u") {
		return "", errors.New("the flags a and u exclude each other")
	}
	return letters, nil
}

// skip passes over comments and, if the flag x is set, white space.
func (p *patternTranslator) skip() {
	for p.more() {
		rest := p.text[p.pos:]
		switch c := p.peek(); {
		case p.flags.verbose && strings.ContainsRune(" \t\n\r\v\f", c):
			p.pos++
		case p.flags.verbose && c == '#' && slices.Contains(rest, '\n'):
			p.pos += slices.Index(rest, '\n')
		case p.flags.verbose && c == '#':
			p.pos = len(p.text)
		case strings.HasPrefix(string(rest[:min(len(rest), 3)]), "(?#") && slices.Contains(rest, ')'):
			p.pos += slices.Index(rest, ')') + 1
		default:
			return
		}
	}
}

func (p *patternTranslator) alternatives() (width, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxNesting {
		return width{}, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	all := width{low: unlimited}
	for {
		w, err := p.sequence()
		if err != nil {
			return width{}, err
		}
		all = width{min(all.low, w.low), max(all.high, w.high)}
		if !p.accept("|") {
			return all, nil
		}
		p.write("|")
	}
}

func (p *patternTranslator) sequence() (width, error) {
	var all width
	for {
		p.skip()
		if !p.more() || p.peek() == '|' || p.peek() == ')' {
			return all, nil
		}
		start := len(p.out)
		w, repeatable, err := p.item()
		if err == nil {
			w, err = p.quantified(start, w, repeatable)
		}
		if err != nil {
			return width{}, err
		}
		all = all.plus(w)
	}
}

// item translates one part without its quantifier. Assertions such as ^ cannot
// be repeated.
func (p *patternTranslator) item() (w width, repeatable bool, err error) {
	c := p.peek()
	p.pos++
	switch c {
	case '.':
		p.write(".")
		return width{1, 1}, true, nil
	case '^', '$':
		p.write(string(c))
		return width{}, false, nil
	case '(':
		w, err = p.group()
		return w, true, err
	case '[':
		return width{1, 1}, true, p.class()
	case '\\':
		return p.escape()
	case '*', '+', '?':
		return w, false, errors.New("nothing to repeat")
	case '{':
		p.pos--
		if _, ok, err := p.bounds(); err != nil || ok {
			return w, false, errors.Join(err, errors.New("nothing to repeat"))
		}
		p.pos++
	}
	p.character(c)
	return width{1, 1}, true, nil
}

// character writes a character, in all its cases if the case does not matter.
func (p *patternTranslator) character(c rune) {
	if cases := p.cases(c, c); cases != "" {
		p.write("[" + literal(c) + cases + "]")
		return
	}
	p.write(literal(c))
}

// sameLetter lists characters that are one letter to Python if the case does
// not matter, and not to regexp2.
var sameLetter = []string{"iIİı", "ΐ\u1fd3", "ΰ\u1fe3", "ﬅﬆ"}

// cases returns what a set needs besides low-high if the case does not matter. In
// ASCII mode regexp2 must not ignore the case: it would take ſ for an s.
func (p *patternTranslator) cases(low, high rune) string {
	others := ""
	switch {
	case !p.flags.ignoreCase:
	case p.flags.ascii:
		for c := max(low, 'A'); c <= min(high, 'z'); c++ {
			if unicode.IsLetter(c) {
				others += string(c ^ 0x20)
			}
		}
	default:
		for _, group := range sameLetter {
			if strings.ContainsFunc(group, func(c rune) bool { return low <= c && c <= high }) {
				others += group
			}
		}
	}
	return others
}

// literal returns a character without any special meaning.
func literal(c rune) string {
	switch {
	case c < unicode.MaxASCII && !unicode.IsLetter(c) && !unicode.IsDigit(c):
		return fmt.Sprintf(`\x%02x`, c)
	case 0xD800 <= c && c <= 0xDFFF:
		return fmt.Sprintf(`\u%04x`, c)
	}
	return string(c)
}

// quantified translates the quantifier of the part written at start, if there
// is one.
func (p *patternTranslator) quantified(start int, w width, repeatable bool) (width, error) {
	p.skip()
	times, ok, err := p.quantifier()
	if err != nil || !ok {
		return w, err
	}
	if !repeatable {
		return w, errors.New("nothing to repeat")
	}
	quantifier := fmt.Sprintf("{%d,%d}", times.low, times.high)
	if times.high == unlimited {
		quantifier = fmt.Sprintf("{%d,}", times.low)
	}
	switch {
	case p.accept("?"):
		p.write(quantifier + "?")
	case p.accept("+"): // possessive
		p.out = slices.Insert(p.out, start, []byte("(?>")...)
		p.write(quantifier + noOptimizing + ")")
	default:
		p.write(quantifier)
	}
	p.skip()
	if _, again, err := p.quantifier(); err != nil || again {
		return w, errors.Join(err, errors.New("multiple repeat"))
	}
	return width{min(w.low*times.low, unlimited), min(w.high*times.high, unlimited)}, nil
}

func (p *patternTranslator) quantifier() (times width, ok bool, err error) {
	switch p.peek() {
	case '*':
		times = width{0, unlimited}
	case '+':
		times = width{1, unlimited}
	case '?':
		times = width{0, 1}
	case '{':
		return p.bounds()
	default:
		return width{}, false, nil
	}
	p.pos++
	return times, true, nil
}

// bounds reads {m}, {m,}, {,n} or {m,n}. Braces around anything else are
// characters like others; then it reads nothing.
func (p *patternTranslator) bounds() (times width, ok bool, err error) {
	start := p.pos
	p.pos++
	low, given := p.digits()
	high := low
	if p.accept(",") {
		if high, given = p.digits(); !given {
			high = unlimited
		}
		given = true
	}
	switch {
	case !given || !p.accept("}"):
		p.pos = start
		return width{}, false, nil
	case high < low:
		return width{}, false, errors.New("the maximum of a repeat is below its minimum")
	}
	return width{low, high}, true, nil
}

func (p *patternTranslator) digits() (n int, given bool) {
	for ; '0' <= p.peek() && p.peek() <= '9'; p.pos++ {
		n = min(n*10+int(p.peek()-'0'), unlimited)
		given = true
	}
	return n, given
}
