package permission

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/tool"
)

// ShellPath is the shell whose language the engine reads. A line that was
// decided here must be run by it and by no other.
const ShellPath = tool.ShellPath

// scanPlain reads a line that consists of plain commands: words, quotes,
// comments, separators, brackets around commands, and redirections to /dev/null or between
// descriptors. Every shell reads such a line alike, and nothing in it expands
// but file names that do not start with a dot. It returns false for all else.
func scanPlain(text string) ([]command, bool) {
	if len(text) > maxLine || !utf8.ValidString(text) {
		return nil, false
	}
	s := scanner{text: text}
	for s.at < len(text) {
		s.skipBlanks()
		if !s.next() {
			return nil, false
		}
	}
	return s.commands, s.state != commandMust && len(s.open) == 0
}

// What may follow at a place of a line.
const (
	commandMay  = iota // a command or nothing
	commandMust        // a command
	operator           // a separator, a closing bracket or the end
)

type scanner struct {
	text     string
	at       int
	state    int
	open     []byte // brackets
	commands []command
}

// peek returns a character that follows, 0 at the end.
func (s *scanner) peek(ahead int) byte {
	if s.at+ahead < len(s.text) {
		return s.text[s.at+ahead]
	}
	return 0
}

func (s *scanner) skipBlanks() {
	for {
		switch c := s.peek(0); {
		case c == ' ' || c == '\t':
			s.at++
		case c == '\\' && s.peek(1) == '\n' && s.at > 0 && (s.text[s.at-1] == ' ' || s.text[s.at-1] == '\t'):
			s.at += 2
		case c == '#' && (s.at == 0 || strings.IndexByte(" \t\n;&|(", s.text[s.at-1]) >= 0): // a comment
			s.at += len(s.text[s.at:]) - len(strings.TrimLeftFunc(s.text[s.at:], func(r rune) bool { return r != '\n' }))
		default:
			return
		}
	}
}

// next reads one operator or one command.
func (s *scanner) next() bool {
	c := s.peek(0)
	start := s.state != operator
	switch {
	case s.at == len(s.text):
		return true
	case c == '\n':
		s.at++
		if !start {
			s.state = commandMay
		}
		return true
	case c == ';' || c == '&' || c == '|':
		return !start && s.separator(c)
	case c == '(' && s.peek(1) != '(', c == '{' && strings.IndexByte(" \t\n", s.peek(1)) >= 0:
		s.at, s.open, s.state = s.at+1, append(s.open, c), commandMust
		return start
	case c == ')', c == '}' && s.state == commandMay && delimits(s.peek(1)):
		return s.closeBracket(c)
	}
	if !start {
		return false
	}
	s.state = operator
	return s.command()
}

func (s *scanner) separator(c byte) bool {
	next := s.peek(1)
	switch {
	case c != ';' && next == c:
		s.at, s.state = s.at+2, commandMust
		return true
	case c == '|':
		s.state = commandMust
	case next != 0 && strings.IndexByte(" \t\n)", next) < 0 && (c == '&' || next == ';' || next == '&'):
		return false
	default:
		s.state = commandMay
	}
	s.at++
	return c != '|' || next != '&'
}

func (s *scanner) closeBracket(c byte) bool {
	last := len(s.open) - 1
	if last < 0 || s.state == commandMust || (s.open[last] == '(') != (c == ')') {
		return false
	}
	s.at, s.open, s.state = s.at+1, s.open[:last], operator
	return true
}

// delimits reports a character that ends a word; 0 is the end of the line.
func delimits(c byte) bool { return c == 0 || strings.IndexByte(" \t\n;&|)", c) >= 0 }

// reserved are words with which a shell starts something else than a command.
var reserved = strings.Fields("if then else elif fi do done case esac while until for in function select time coproc { } ! [[ ]]")

func (s *scanner) command() bool {
	var c command
	for {
		s.skipBlanks()
		next := s.peek(0)
		switch {
		case delimits(next):
			s.commands = append(s.commands, c)
			return len(c) > 0
		case len(c) > 0 && (next == '<' || next == '>' || isDigitByte(next) && (s.peek(1) == '<' || s.peek(1) == '>')):
			if !s.redirection() {
				return false
			}
			continue
		}
		from := s.at
		w, ok := s.word(len(c) == 0)
		if !ok || len(c) == 0 && slices.Contains(reserved, s.text[from:s.at]) {
			return false
		}
		c = append(c, w)
	}
}

func isDigitByte(c byte) bool { return c >= '0' && c <= '9' }

// redirection accepts >/dev/null, </dev/null and 2>&1.
func (s *scanner) redirection() bool {
	if isDigitByte(s.peek(0)) {
		s.at++
	}
	out := s.peek(0) == '>'
	s.at++
	switch {
	case out && s.peek(0) == '&':
		s.at += 2
		return isDigitByte(s.text[min(s.at, len(s.text))-1]) && delimits(s.peek(0))
	case out && s.peek(0) == '>':
		s.at++
	}
	s.skipBlanks()
	rest, ok := strings.CutPrefix(s.text[s.at:], "/dev/null")
	s.at = len(s.text) - len(rest)
	return ok && delimits(s.peek(0))
}

// wordReader builds a word and knows the part since the last slash.
type wordReader struct {
	strings.Builder
	part        int  // where that part starts
	glob        bool // some part has * or ?
	partGlob    bool
	dotPatterns bool // some part starts with a dot and has * or ?
}

func (w *wordReader) add(c byte) {
	if c == '/' {
		w.endPart()
		w.part = w.Len() + 1
	}
	w.WriteByte(c)
}

func (w *wordReader) endPart() {
	if w.partGlob && strings.HasPrefix(w.String()[w.part:], ".") {
		w.dotPatterns = true // .? and .* also mean ..
	}
	w.partGlob = false
}

// word reads one word. The first of a command may not be an assignment.
func (s *scanner) word(first bool) (word, bool) {
	var w wordReader
	for {
		c := s.peek(0)
		switch {
		case delimits(c):
			w.endPart()
			return word{text: w.String(), literal: true, glob: w.glob}, !w.dotPatterns
		case c == '\'' || c == '"':
			if !s.quoted(&w, c) {
				return word{}, false
			}
			continue
		case c == '\\':
			s.at++
			if c = s.peek(0); c < ' ' || c > '~' {
				return word{}, false
			}
			w.add(c)
		case c == '*' || c == '?':
			w.glob, w.partGlob = true, true
			w.add(c)
		case c == '~' && w.Len() > 0 && isWordByte(w.String()[w.Len()-1]), // HEAD~1
			c == '!' && w.Len() == 0 && delimits(s.peek(1)),
			c == '=' && !first,
			isWordByte(c), strings.IndexByte("_./:@%+,-", c) >= 0:
			w.add(c)
		default:
			return word{}, false
		}
		s.at++
	}
}

func isWordByte(c byte) bool { return isLetter(c) || isDigitByte(c) || c == '^' }

// quoted reads what is between two quotes.
func (s *scanner) quoted(w *wordReader, quote byte) bool {
	for s.at++; ; s.at++ {
		c := s.peek(0)
		switch {
		case c == quote:
			s.at++
			return true
		case c < ' ' && c != '\t' && c != '\n' || c == 0x7f:
			return false
		case quote == '"' && (c == '$' || c == '`'):
			return false
		case quote == '"' && c == '\\':
			switch s.peek(1) {
			case '$', '`', '"', '\\':
				s.at++
				c = s.peek(0)
			case '\n', 0:
				return false
			}
		}
		w.add(c)
	}
}
