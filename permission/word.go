package permission

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// word is one word of a command as the program sees it, without quotes and
// escapes.
type word struct {
	text    string
	literal bool // has no expansions except file names
	glob    bool // may expand to file names
}

func textsOf(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, " ")
}

// readWord removes the quotes. Expansions stay in the text as $NAME.
func readWord(w *syntax.Word) word {
	if len(w.Parts) == 1 {
		if lit, ok := w.Parts[0].(*syntax.Lit); ok && !strings.ContainsAny(lit.Value, "\\*?[") {
			return word{text: lit.Value, literal: true}
		}
	}
	out := word{literal: true}
	var b strings.Builder
	out.parts(&b, w.Parts, false)
	out.text = b.String()
	return out
}

func (w *word) parts(b *strings.Builder, parts []syntax.WordPart, inQuotes bool) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			w.lit(b, p.Value, inQuotes)
		case *syntax.SglQuoted:
			if p.Dollar {
				b.WriteString(unescapeC(p.Value))
			} else {
				b.WriteString(p.Value)
			}
		case *syntax.DblQuoted:
			w.parts(b, p.Parts, true)
		case *syntax.ParamExp:
			w.literal = false
			b.WriteByte('$')
			if p.Param != nil {
				b.WriteString(p.Param.Value)
			}
		default:
			w.literal = false
			b.WriteString("$()")
		}
	}
}

// lit removes backslashes. In double quotes they are literal before most
// characters.
func (w *word) lit(b *strings.Builder, text string, inQuotes bool) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text) && (!inQuotes || strings.IndexByte("$`\"\\\n", text[i+1]) >= 0):
			i++
			if text[i] == '\n' {
				continue // a line continuation
			}
			c = text[i]
		case !inQuotes && strings.IndexByte("*?[", c) >= 0:
			w.glob = true
		}
		b.WriteByte(c)
	}
}

// unescapeC reads the escapes of $'…'.
func unescapeC(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch c := text[i]; c {
		case 'x':
			i += number(&b, text[i+1:], 16, 2, true)
		case 'u':
			i += number(&b, text[i+1:], 16, 4, false)
		case 'U':
			i += number(&b, text[i+1:], 16, 8, false)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			i += number(&b, text[i:], 8, 3, true) - 1
		default:
			if at := strings.IndexByte(`abefnrtvE`, c); at >= 0 {
				b.WriteByte("\a\b\x1b\f\n\r\t\v\x1b"[at])
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

// number writes the character whose code starts a text, and returns the number
// of its digits.
func number(b *strings.Builder, text string, base, most int, octet bool) int {
	digits := 0
	for digits < most && digits < len(text) && isDigit(text[digits], base) {
		digits++
	}
	if digits == 0 {
		return 0
	}
	code, err := strconv.ParseUint(text[:digits], base, 32)
	switch {
	case err != nil:
	case octet:
		b.WriteByte(byte(code))
	default:
		b.WriteRune(rune(code))
	}
	return digits
}

func isDigit(c byte, base int) bool {
	_, err := strconv.ParseUint(string(c), base, 8)
	return err == nil
}

// expandBraces lists the words of a brace expansion such as {a,b}. It returns
// false for a sequence, or for more than most words.
func expandBraces(w *syntax.Word, most int) ([]*syntax.Word, bool) {
	texts := []*syntax.Word{{}}
	for _, part := range w.Parts {
		brace, ok := part.(*syntax.BraceExp)
		if !ok {
			for i, t := range texts {
				texts[i] = &syntax.Word{Parts: append(t.Parts[:len(t.Parts):len(t.Parts)], part)}
			}
			continue
		}
		if brace.Sequence {
			return nil, false
		}
		var next []*syntax.Word
		for _, t := range texts {
			for _, elem := range brace.Elems {
				inner, ok := expandBraces(elem, most)
				if !ok || len(next)+len(inner) > most {
					return nil, false
				}
				for _, in := range inner {
					next = append(next, &syntax.Word{Parts: append(t.Parts[:len(t.Parts):len(t.Parts)], in.Parts...)})
				}
			}
		}
		texts = next
	}
	return texts, true
}

// quote returns a text as one word that stands for itself.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
