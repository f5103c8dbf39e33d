package template

import (
	"slices"
	"strings"
)

// parser turns tokens into a tree. It knows which filters, tests, methods
// and functions exist, so that what does not is refused before anything runs.
type parser struct {
	source
	vocabulary
	tokens []token
	pos    int
	depth  int
	nodes  int
}

// vocabulary is what differs between templates and conditions.
type vocabulary struct {
	filters map[string]filter
	globals map[string]global
}

// parse turns a whole template into statements.
func (p *parser) parse() ([]stmt, error) {
	body, err := p.body()
	if err == nil && p.current().kind != tokenEOF {
		err = p.unexpected()
	}
	if err != nil {
		return nil, p.place(err, p.current().offset)
	}
	return body, nil
}

func (p *parser) current() token { return p.tokens[p.pos] }

// next takes the current token. The last one, the end, stays.
func (p *parser) next() token {
	t := p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	return t
}

func (p *parser) here() at { return at(p.current().offset) }

func (p *parser) isOperator(ops ...string) bool {
	t := p.current()
	return t.kind == tokenOperator && slices.Contains(ops, t.text)
}

func (p *parser) isName(names ...string) bool {
	t := p.current()
	return t.kind == tokenName && slices.Contains(names, t.text)
}

func (p *parser) skipOperator(op string) bool {
	if p.isOperator(op) {
		p.next()
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expectOperator(op string) error {
	if !p.skipOperator(op) {
		return failf(KindSyntax, "expected '%s', got %s", op, p.current())
	}
	return nil
}

func (p *parser) expectBlockEnd() error {
	if p.current().kind != tokenBlockEnd {
		return failf(KindSyntax, "expected '%%}', got %s", p.current())
	}
	p.next()
	return nil
}

func (p *parser) unexpected() error {
	return failf(KindSyntax, "unexpected %s", p.current())
}

// enter counts one level of nesting; the caller leaves with p.depth--.
func (p *parser) enter() error {
	p.depth++
	if p.depth > maxNesting {
		return failf(KindSyntax, "nested deeper than %d levels", maxNesting)
	}
	return nil
}

// body parses up to a block that starts with one of the ends, or to the end
// of the text. It leaves the end's word as the current token.
func (p *parser) body(ends ...string) ([]stmt, error) {
	var out []stmt
	for {
		switch t := p.current(); t.kind {
		case tokenEOF:
			if len(ends) > 0 {
				return nil, failf(KindSyntax, "%s is missing", ends[len(ends)-1])
			}
			return out, nil
		case tokenData:
			p.next()
			out = append(out, &textStmt{at(t.offset), t.text})
		case tokenPrintBegin:
			s, err := p.print()
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		default:
			p.next()
			if p.isName(ends...) {
				return out, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			out = append(out, s)
			if err := p.expectBlockEnd(); err != nil {
				return nil, err
			}
		}
	}
}

// block parses the inside of a statement: from the end of its opening tag to
// one of the words that end it, which it takes and returns.
func (p *parser) block(ends ...string) ([]stmt, string, error) {
	p.skipOperator(":")
	if err := p.expectBlockEnd(); err != nil {
		return nil, "", err
	}
	if err := p.enter(); err != nil {
		return nil, "", err
	}
	defer func() { p.depth-- }()
	body, err := p.body(ends...)
	if err != nil {
		return nil, "", err
	}
	return body, p.next().text, nil
}

func (p *parser) print() (stmt, error) {
	start := at(p.next().offset)
	value, err := p.fullExpression()
	if err != nil {
		return nil, err
	}
	if p.current().kind != tokenPrintEnd {
		return nil, failf(KindSyntax, "expected '}}', got %s", p.current())
	}
	p.next()
	return &printStmt{start, value}, nil
}

// fullExpression parses an expression of its own: a tuple needs no brackets.
func (p *parser) fullExpression() (expr, error) {
	p.nodes = 0
	return p.tuple(p.expression)
}

func (p *parser) statement() (stmt, error) {
	t := p.current()
	if t.kind != tokenName {
		return nil, failf(KindSyntax, "expected the name of a statement, got %s", t)
	}
	switch t.text {
	case "if":
		return p.ifStatement()
	case "for":
		return p.forStatement()
	case "set":
		return p.setStatement()
	case "with":
		return p.withStatement()
	case "include", "import", "from", "extends", "macro", "block", "call", "filter", "autoescape", "do":
		return nil, failf(KindSyntax, "the statement %s is not supported", t.text)
	case "elif", "else", "endif", "endfor", "endset", "endwith", "endraw":
		return nil, failf(KindSyntax, "%s has nothing to belong to", t.text)
	}
	return nil, failf(KindSyntax, "unknown statement %s", t.text)
}

func (p *parser) ifStatement() (stmt, error) {
	s := &ifStmt{at: at(p.next().offset)}
	for {
		p.nodes = 0
		test, err := p.tuple(p.orExpr)
		if err != nil {
			return nil, err
		}
		body, end, err := p.block("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.branches = append(s.branches, branch{test, body})
		switch end {
		case "else":
			s.otherwise, _, err = p.block("endif")
			return s, err
		case "endif":
			return s, nil
		}
	}
}

func (p *parser) forStatement() (stmt, error) {
	s := &forStmt{at: at(p.next().offset)}
	var err error
	if s.target, err = p.targetList(); err != nil {
		return nil, err
	}
	if !p.skipName("in") {
		return nil, failf(KindSyntax, "expected 'in', got %s", p.current())
	}
	p.nodes = 0
	if s.items, err = p.tuple(p.orExpr); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if s.filter, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.isName("recursive") {
		return nil, failf(KindSyntax, "recursive loops are not supported")
	}
	var end string
	if s.body, end, err = p.block("else", "endfor"); err != nil {
		return nil, err
	}
	if end == "else" {
		s.otherwise, _, err = p.block("endfor")
	}
	return s, err
}

func (p *parser) setStatement() (stmt, error) {
	start := at(p.next().offset)
	to, err := p.targetList()
	if err != nil {
		return nil, err
	}
	if p.isOperator(".") {
		return nil, failf(KindSyntax, "set can assign to names only")
	}
	if p.skipOperator("=") {
		value, err := p.fullExpression()
		return &setStmt{start, to, value}, err
	}
	s := &setBlockStmt{at: start, target: to}
	for p.isOperator("|") {
		f, err := p.filter(nil)
		if err != nil {
			return nil, err
		}
		s.filters = append(s.filters, f)
	}
	s.body, _, err = p.block("endset")
	return s, err
}

func (p *parser) withStatement() (stmt, error) {
	s := &withStmt{at: at(p.next().offset)}
	for p.current().kind != tokenBlockEnd {
		if len(s.targets) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
		}
		to, err := p.targetList()
		if err != nil {
			return nil, err
		}
		if err := p.expectOperator("="); err != nil {
			return nil, err
		}
		p.nodes = 0
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets = append(s.targets, to)
		s.values = append(s.values, value)
	}
	var err error
	s.body, _, err = p.block("endwith")
	return s, err
}

// targetList parses what is assigned to: one target, or several with commas.
func (p *parser) targetList() (target, error) {
	var parts []target
	for {
		part, err := p.target()
		if err != nil {
			return target{}, err
		}
		parts = append(parts, part)
		if !p.skipOperator(",") {
			if len(parts) == 1 {
				return part, nil
			}
			return target{parts: parts}, nil
		}
		if p.isOperator(")") {
			return target{parts: parts}, nil
		}
	}
}

func (p *parser) target() (target, error) {
	if p.skipOperator("(") {
		if err := p.enter(); err != nil {
			return target{}, err
		}
		defer func() { p.depth-- }()
		inner, err := p.targetList()
		if err != nil {
			return target{}, err
		}
		return inner, p.expectOperator(")")
	}
	t := p.current()
	if t.kind != tokenName {
		return target{}, failf(KindSyntax, "cannot assign to %s", t)
	}
	if err := checkName(t.text); err != nil {
		return target{}, err
	}
	if isConstant(t.text) || t.text == "loop" {
		return target{}, failf(KindSyntax, "cannot assign to %s", t)
	}
	p.next()
	return target{name: t.text}, nil
}

// checkName refuses names with a leading underscore. A lone underscore is
// the customary name of a value one does not need.
func checkName(name string) error {
	if strings.HasPrefix(name, "_") && name != "_" {
		return failf(KindSyntax, "the name %s starts with an underscore", name)
	}
	return nil
}

func isConstant(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None":
		return true
	}
	return false
}
