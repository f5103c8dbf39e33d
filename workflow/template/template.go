package template

import (
	"strings"
)

// Scope is the names a template can see.
type Scope map[string]Value

// Template is a compiled template. It never changes: render it as often as
// needed, from several goroutines at once.
type Template struct {
	source
	body []stmt
}

// Options change how a template is compiled.
type Options struct {
	// KeepNewline keeps the newline at the end of the text, which is
	// dropped otherwise.
	KeepNewline bool
}

// Compile reads a template. Statements, filters, tests, methods and
// functions outside the subset are refused here, with an *Error of
// KindSyntax; name stands for the text in messages.
func Compile(name, text string) (*Template, error) {
	return Options{}.Compile(name, text)
}

// Compile reads a template with these options.
func (o Options) Compile(name, text string) (*Template, error) {
	text = lineEnds(strings.ToValidUTF8(text, "\uFFFD"))
	if !o.KeepNewline {
		text = strings.TrimSuffix(text, "\n")
	}
	src := source{name, text}
	tokens, err := lexTemplate(src)
	if err != nil {
		return nil, err
	}
	p := parser{source: src, vocabulary: vocabulary{filters: templateFilters}, tokens: tokens}
	body, err := p.parse()
	if err != nil {
		return nil, err
	}
	return &Template{src, body}, nil
}

// Render fills the template in. The output is text in Unicode's NFC form,
// without control characters other than tab and the line ends. An error is
// an *Error that says where, and leaves no output.
func (t *Template) Render(scope Scope) (string, error) {
	r := newRun(t.source, scope, true)
	if err := r.execAll(t.body); err != nil {
		return "", err
	}
	return clean(r.out.String()), nil
}

// HasDelimiters reports whether text holds anything a template would treat
// as more than text.
func HasDelimiters(text string) bool {
	_, open := nextDelimiter(text, 0)
	return open != ""
}

// lineEnds makes CRLF and CR into LF.
func lineEnds(text string) string {
	if !strings.Contains(text, "\r") {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}
