package template

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind int

const (
	tokenEOF tokenKind = iota
	tokenData
	tokenPrintBegin // {{
	tokenPrintEnd   // }}
	tokenBlockBegin // {%
	tokenBlockEnd   // %}
	tokenName
	tokenString
	tokenInteger
	tokenFloat
	tokenOperator
)

type token struct {
	kind   tokenKind
	text   string // strings are unescaped, everything else is as written
	offset int
}

func (t token) String() string {
	switch t.kind {
	case tokenEOF:
		return "the end of the text"
	case tokenPrintEnd:
		return "'}}'"
	case tokenBlockEnd:
		return "'%}'"
	case tokenString:
		return "a string"
	default:
		return "'" + t.text + "'"
	}
}

var (
	floatToken = regexp.MustCompile(
		`^(?:[0-9]+_)*[0-9]+(?:(?:\.(?:[0-9]+_)*[0-9]+)?[eE][+\-]?(?:[0-9]+_)*[0-9]+|\.(?:[0-9]+_)*[0-9]+)`)
	integerToken = regexp.MustCompile(
		`^(?i:0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[0-9a-f])+|[1-9](?:_?[0-9])*|0(?:_?0)*)`)
	operatorToken = regexp.MustCompile(
		`^(?://|\*\*|==|!=|>=|<=|[-+/*%~\[\](){}><=.:|,;])`)
)

// lexer cuts a text into tokens. The text's line ends are LF already.
type lexer struct {
	source
	pos    int
	tokens []token
}

// lexTemplate cuts a template: data, and expressions between delimiters.
func lexTemplate(src source) ([]token, error) {
	l := &lexer{source: src}
	for l.pos < len(l.text) {
		if err := l.section(); err != nil {
			return nil, l.place(err, l.pos)
		}
	}
	l.add(tokenEOF, "", l.pos)
	return l.tokens, nil
}

// lexExpression cuts a bare expression.
func lexExpression(src source) ([]token, error) {
	l := &lexer{source: src}
	if err := l.expression("", tokenEOF); err != nil {
		return nil, l.place(err, l.pos)
	}
	return l.tokens, nil
}

func (l *lexer) add(kind tokenKind, text string, offset int) {
	l.tokens = append(l.tokens, token{kind, text, offset})
}

// addData keeps the data before a delimiter, without its trailing white
// space if the delimiter's sign says so.
func (l *lexer) addData(end int, sign string) {
	data := l.text[l.pos:end]
	if sign == "-" {
		data = strings.TrimRightFunc(data, isSpace)
	}
	if data != "" {
		l.add(tokenData, data, l.pos)
	}
}

// section takes the data up to the next delimiter and what that opens.
func (l *lexer) section() error {
	start, open := nextDelimiter(l.text, l.pos)
	if open == "" {
		l.addData(len(l.text), "")
		l.pos = len(l.text)
		return nil
	}
	after := start + len(open)
	sign := ""
	if after < len(l.text) && (l.text[after] == '-' || l.text[after] == '+') {
		sign = l.text[after : after+1]
		after++
	}
	l.addData(start, sign)
	l.pos = start
	switch open {
	case "{#":
		return l.comment(after)
	case "{%":
		if body, trim, ok := tag(l.text, after, "raw"); ok {
			if trim == "+" {
				break // only the end of raw may carry it
			}
			return l.raw(body, trim)
		}
	}
	l.pos = after
	if open == "{{" {
		l.add(tokenPrintBegin, open, start)
		return l.expression("}}", tokenPrintEnd)
	}
	l.add(tokenBlockBegin, open, start)
	return l.expression("%}", tokenBlockEnd)
}

// nextDelimiter finds the first opening delimiter at or after pos.
func nextDelimiter(text string, pos int) (int, string) {
	for {
		i := strings.IndexByte(text[pos:], '{')
		if i < 0 || pos+i+1 >= len(text) {
			return len(text), ""
		}
		pos += i
		switch open := text[pos : pos+2]; open {
		case "{{", "{%", "{#":
			return pos, open
		}
		pos++
	}
}

// comment skips to the end of the comment whose text starts at from.
func (l *lexer) comment(from int) error {
	end := strings.Index(l.text[from:], "#}")
	if end < 0 {
		return failf(KindSyntax, "the comment is not closed")
	}
	end += from
	l.pos = end + 2
	if end > from && l.text[end-1] == '-' {
		l.skipSpace()
	}
	return nil
}

// raw takes everything up to {% endraw %} as data.
func (l *lexer) raw(body int, trim string) error {
	opened := l.pos
	l.pos = body
	if trim == "-" {
		l.skipSpace()
	}
	for from := l.pos; ; {
		i := strings.Index(l.text[from:], "{%")
		if i < 0 {
			l.pos = opened
			return failf(KindSyntax, "raw is not closed")
		}
		start := from + i
		from = start + 2
		sign := ""
		if from < len(l.text) && (l.text[from] == '-' || l.text[from] == '+') {
			sign = l.text[from : from+1]
			from++
		}
		if end, trim, ok := tag(l.text, from, "endraw"); ok {
			l.addData(start, sign)
			l.pos = end
			if trim == "-" {
				l.skipSpace()
			}
			return nil
		}
		from = start + 2
	}
}

// tag reports whether the block whose inside starts at pos is exactly the
// given word, where it ends and the sign before its end.
func tag(text string, pos int, word string) (end int, sign string, ok bool) {
	rest := strings.TrimLeftFunc(text[pos:], isSpace)
	rest, ok = strings.CutPrefix(rest, word)
	if !ok {
		return 0, "", false
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	for _, sign := range []string{"", "-", "+"} {
		if after, ok := strings.CutPrefix(rest, sign+"%}"); ok {
			return len(text) - len(after), sign, true
		}
	}
	return 0, "", false
}

func (l *lexer) skipSpace() {
	rest := strings.TrimLeftFunc(l.text[l.pos:], isSpace)
	l.pos = len(l.text) - len(rest)
}

// expression cuts tokens up to the closing delimiter, which it adds as end.
// Inside brackets the delimiter's characters belong to the expression.
func (l *lexer) expression(closing string, end tokenKind) error {
	opened := l.pos
	var brackets []byte
	for {
		l.skipSpace()
		if l.pos >= len(l.text) {
			if closing == "" {
				l.add(end, "", l.pos)
				return nil
			}
			l.pos = opened
			return failf(KindSyntax, "'%s' is missing", closing)
		}
		if closing != "" && len(brackets) == 0 && l.closes(closing, end) {
			return nil
		}
		start := l.pos
		if err := l.next(); err != nil {
			return err
		}
		last := l.tokens[len(l.tokens)-1]
		if last.kind != tokenOperator {
			continue
		}
		switch last.text {
		case "(", "[", "{":
			brackets = append(brackets, last.text[0])
		case ")", "]", "}":
			if len(brackets) == 0 || !pairs(brackets[len(brackets)-1], last.text[0]) {
				l.pos = start
				return failf(KindSyntax, "'%s' closes nothing", last.text)
			}
			brackets = brackets[:len(brackets)-1]
		}
	}
}

func pairs(opening, closing byte) bool {
	switch opening {
	case '(':
		return closing == ')'
	case '[':
		return closing == ']'
	default:
		return closing == '}'
	}
}

// closes takes the closing delimiter if it is next. Only blocks may end in a
// plus sign.
func (l *lexer) closes(closing string, end tokenKind) bool {
	rest := l.text[l.pos:]
	start := l.pos
	switch {
	case strings.HasPrefix(rest, closing):
		l.pos += len(closing)
	case strings.HasPrefix(rest, "-"+closing):
		l.pos += len(closing) + 1
		l.skipSpace()
	case end == tokenBlockEnd && strings.HasPrefix(rest, "+"+closing):
		l.pos += len(closing) + 1
	default:
		return false
	}
	l.add(end, closing, start)
	return true
}

// next takes one token of an expression.
func (l *lexer) next() error {
	rest := l.text[l.pos:]
	start := l.pos
	take := func(kind tokenKind, text string) {
		l.add(kind, text, start)
		l.pos += len(text)
	}
	// After a point digits are an index: a.0.1 holds no float.
	if m := floatToken.FindString(rest); m != "" && (start == 0 || l.text[start-1] != '.') {
		take(tokenFloat, m)
		return nil
	}
	if m := integerToken.FindString(rest); m != "" {
		take(tokenInteger, m)
		return nil
	}
	if m := scanName(rest); m != "" {
		if first, _ := utf8.DecodeRuneInString(m); !startsName(first) {
			return failf(KindSyntax, "%s is not a name", m)
		}
		take(tokenName, m)
		return nil
	}
	if rest[0] == '\'' || rest[0] == '"' {
		return l.stringToken(rest)
	}
	if m := operatorToken.FindString(rest); m != "" {
		take(tokenOperator, m)
		return nil
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return failf(KindSyntax, "unexpected character %q", r)
}

func startsName(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
}

func scanName(s string) string {
	for i, r := range s {
		if !startsName(r) && !unicode.In(r, unicode.N, unicode.Mn, unicode.Mc, unicode.Pc) {
			return s[:i]
		}
	}
	return s
}

func (l *lexer) stringToken(rest string) error {
	quote := rest[0]
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			text, err := unescape(rest[1:i])
			if err != nil {
				return err
			}
			l.add(tokenString, text, l.pos)
			l.pos += i + 1
			return nil
		}
	}
	return failf(KindSyntax, "the string is not closed")
}
