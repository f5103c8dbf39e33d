package template

import (
	"math/big"
	"strings"
)

// The methods below follow Jinja's order of binding, loosest first. Two of
// its rules surprise: ~ binds tighter than + and -, and a sign binds tighter
// than **, which goes from left to right.

// made counts a node against the bound on one expression.
func (p *parser) made(e expr) (expr, error) {
	p.nodes++
	if p.nodes > maxNodes {
		return nil, failf(KindSyntax, "an expression of more than %d parts", maxNodes)
	}
	return e, nil
}

// tuple parses one expression, or several with commas into a tuple.
func (p *parser) tuple(one func() (expr, error)) (expr, error) {
	start := p.here()
	var items []expr
	for len(items) == 0 || !p.endsTuple() {
		item, err := one()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		if !p.skipOperator(",") {
			if len(items) == 1 {
				return item, nil
			}
			break
		}
	}
	return p.made(&listExpr{start, items, true})
}

func (p *parser) endsTuple() bool {
	switch p.current().kind {
	case tokenPrintEnd, tokenBlockEnd, tokenEOF:
		return true
	}
	return p.isOperator(")")
}

func (p *parser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	start := p.here()
	e, err := p.orExpr()
	for err == nil && p.skipName("if") {
		c := &choiceExpr{at: start, yes: e}
		if c.test, err = p.orExpr(); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			if c.no, err = p.expression(); err != nil {
				return nil, err
			}
		}
		e, err = p.made(c)
	}
	return e, err
}

func (p *parser) orExpr() (expr, error) { return p.logic("or", p.andExpr) }

func (p *parser) andExpr() (expr, error) { return p.logic("and", p.negation) }

func (p *parser) logic(word string, operand func() (expr, error)) (expr, error) {
	left, err := operand()
	for err == nil && p.isName(word) {
		start := at(p.next().offset)
		var right expr
		if right, err = operand(); err != nil {
			return nil, err
		}
		left, err = p.made(&logicExpr{start, word == "or", left, right})
	}
	return left, err
}

func (p *parser) negation() (expr, error) {
	if !p.isName("not") {
		return p.comparison()
	}
	start := at(p.next().offset)
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	operand, err := p.negation()
	if err != nil {
		return nil, err
	}
	return p.made(&notExpr{start, operand})
}

func (p *parser) comparison() (expr, error) {
	start := p.here()
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{at: start, first: first}
	for {
		op := p.comparator()
		if op == "" {
			break
		}
		value, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.rest = append(c.rest, operand{op, value})
	}
	if len(c.rest) == 0 {
		return first, nil
	}
	return p.made(c)
}

// comparator takes an operator of comparison, if one is next.
func (p *parser) comparator() string {
	if p.isOperator("==", "!=", "<", "<=", ">", ">=") {
		return p.next().text
	}
	if p.skipName("in") {
		return "in"
	}
	if p.isName("not") {
		if after := p.tokens[p.pos+1]; after.kind == tokenName && after.text == "in" {
			p.next()
			p.next()
			return "not in"
		}
	}
	return ""
}

func (p *parser) sum() (expr, error) { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() (expr, error) {
	start := p.here()
	first, err := p.product()
	if err != nil || !p.isOperator("~") {
		return first, err
	}
	parts := []expr{first}
	for p.skipOperator("~") {
		part, err := p.product()
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return p.made(&concatExpr{start, parts})
}

func (p *parser) product() (expr, error) { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() (expr, error) {
	return p.binary(func() (expr, error) { return p.unary(true) }, "**")
}

func (p *parser) binary(operand func() (expr, error), ops ...string) (expr, error) {
	left, err := operand()
	for err == nil && p.isOperator(ops...) {
		op := p.next()
		var right expr
		if right, err = operand(); err != nil {
			return nil, err
		}
		left, err = p.made(&binaryExpr{at(op.offset), op.text, left, right})
	}
	return left, err
}

func (p *parser) unary(withFilters bool) (expr, error) {
	start := p.here()
	var e expr
	var err error
	if p.isOperator("-", "+") {
		negative := p.next().text == "-"
		if err := p.enter(); err != nil {
			return nil, err
		}
		operand, err := p.unary(false)
		p.depth--
		if err != nil {
			return nil, err
		}
		e = &signExpr{start, operand, negative}
	} else if e, err = p.primary(); err != nil {
		return nil, err
	}
	if e, err = p.postfix(e); err != nil || !withFilters {
		return e, err
	}
	return p.filtersAndTests(e)
}

func (p *parser) primary() (expr, error) {
	t := p.current()
	start := at(t.offset)
	switch t.kind {
	case tokenName:
		p.next()
		return p.name(t)
	case tokenString:
		var b strings.Builder
		for p.current().kind == tokenString {
			b.WriteString(p.next().text)
		}
		return p.made(&constExpr{start, Str(b.String())})
	case tokenInteger:
		p.next()
		n, err := parseInteger(t.text)
		if err != nil {
			return nil, p.place(err, t.offset)
		}
		return p.made(&constExpr{start, n})
	case tokenFloat:
		p.next()
		f, err := parseFloat(strings.ReplaceAll(t.text, "_", ""))
		if err != nil {
			return nil, err
		}
		return p.made(&constExpr{start, f})
	case tokenOperator:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	return nil, p.unexpected()
}

func parseInteger(text string) (Value, error) {
	if len(text) > maxIntBits {
		return nil, failf(KindSyntax, "the number is too large")
	}
	n, ok := new(big.Int).SetString(strings.ToLower(text), 0)
	if !ok {
		return nil, failf(KindSyntax, "%s is not a number", text)
	}
	v, err := wholeNumber(n)
	if err != nil {
		return nil, failf(KindSyntax, "the number is too large")
	}
	return v, nil
}

func (p *parser) name(t token) (expr, error) {
	start := at(t.offset)
	switch t.text {
	case "true", "True":
		return p.made(&constExpr{start, Bool(true)})
	case "false", "False":
		return p.made(&constExpr{start, Bool(false)})
	case "none", "None":
		return p.made(&constExpr{start, None{}})
	}
	if err := checkName(t.text); err != nil {
		return nil, p.place(err, t.offset)
	}
	return p.made(&nameExpr{start, t.text})
}

func (p *parser) parenthesis() (expr, error) {
	start := at(p.next().offset)
	if p.skipOperator(")") {
		return p.made(&listExpr{at: start, tuple: true})
	}
	e, err := p.tuple(p.expression)
	if err != nil {
		return nil, err
	}
	return e, p.expectOperator(")")
}

func (p *parser) list() (expr, error) {
	l := &listExpr{at: at(p.next().offset)}
	for !p.isOperator("]") {
		if len(l.items) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
			if p.isOperator("]") {
				break
			}
		}
		item, err := p.expression()
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, item)
	}
	p.next()
	return p.made(l)
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{at: at(p.next().offset)}
	for !p.isOperator("}") {
		if len(d.keys) > 0 {
			if err := p.expectOperator(","); err != nil {
				return nil, err
			}
			if p.isOperator("}") {
				break
			}
		}
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expectOperator(":"); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys = append(d.keys, key)
		d.values = append(d.values, value)
	}
	p.next()
	return p.made(d)
}
