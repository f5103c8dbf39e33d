package template

import (
	"strings"
	"unicode"
)

// Condition is a compiled test, as the edges of a graph use it. It never
// changes: evaluate it as often as needed, from several goroutines at once.
type Condition struct {
	source
	test expr // nil for else, which always holds
}

// forbiddenWords may not appear in a condition, in any case, not even inside
// a string.
var forbiddenWords = []string{"eval", "exec", "compile", "open", "file", "import"}

// CompileCondition reads a condition: the word else, or an expression, which
// may stand in one pair of {{ }}. Its errors are like those of Compile.
func CompileCondition(text string) (*Condition, error) {
	src := source{"when", lineEnds(strings.ToValidUTF8(text, "\uFFFD"))}
	trimmed := strings.TrimFunc(src.text, isSpace)
	if strings.EqualFold(trimmed, "else") {
		return &Condition{source: src}, nil
	}
	if word := forbidden(src.text); word != "" {
		return nil, src.place(failf(KindSyntax, "%s is not allowed in a condition", word), 0)
	}
	if inner, ok := strings.CutPrefix(trimmed, "{{"); ok {
		if inner, ok := strings.CutSuffix(inner, "}}"); ok {
			src.text = strings.TrimFunc(inner, isSpace)
		}
	}
	tokens, err := lexExpression(src)
	if err != nil {
		return nil, err
	}
	p := parser{source: src, vocabulary: vocabulary{conditionFilters, globals}, tokens: tokens}
	test, err := p.tuple(p.orExpr)
	if err == nil && p.current().kind != tokenEOF {
		err = p.unexpected()
	}
	if err != nil {
		return nil, src.place(err, p.current().offset)
	}
	return &Condition{src, test}, nil
}

// Eval reports whether the condition holds. Something missing is false and
// equal to nothing; to look into it or to order it is an error.
func (c *Condition) Eval(scope Scope) (bool, error) {
	if c.test == nil {
		return true, nil
	}
	r := newRun(c.source, scope, false)
	v, err := r.eval(c.test)
	if err != nil {
		return false, err
	}
	holds, err := truth(v)
	return holds, c.place(err, c.test.offset())
}

// forbidden returns the first word of text that conditions may not contain.
func forbidden(text string) string {
	words := strings.FieldsFunc(text, func(c rune) bool {
		return c != '_' && !unicode.IsLetter(c) && !unicode.IsNumber(c)
	})
	for _, word := range words {
		for _, bad := range forbiddenWords {
			if strings.EqualFold(word, bad) {
				return word
			}
		}
		if _, after, ok := strings.Cut(word, "__"); ok && strings.Contains(strings.TrimLeft(after, "_"), "__") {
			return word
		}
	}
	return ""
}
