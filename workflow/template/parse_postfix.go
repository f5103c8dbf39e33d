package template

import "slices"

// postfix parses what follows a value: attributes, indexes, calls.
func (p *parser) postfix(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.isOperator("."):
			e, err = p.attribute(e)
		case p.isOperator("["):
			e, err = p.subscript(e)
		case p.isOperator("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) filtersAndTests(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.isOperator("|"):
			e, err = p.filter(e)
		case p.isName("is"):
			e, err = p.test(e)
		case p.isOperator("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) attribute(e expr) (expr, error) {
	start := at(p.next().offset)
	t := p.current()
	switch t.kind {
	case tokenName:
		if len(t.text) > 0 && t.text[0] == '_' {
			return nil, failf(KindSyntax, "the name %s starts with an underscore", t.text)
		}
		p.next()
		return p.made(&attrExpr{start, e, t.text})
	case tokenInteger:
		p.next()
		n, err := parseInteger(t.text)
		if err != nil {
			return nil, err
		}
		return p.made(&itemExpr{start, e, &constExpr{at(t.offset), n}})
	}
	return nil, failf(KindSyntax, "expected a name or a number after the point, got %s", t)
}

func (p *parser) subscript(e expr) (expr, error) {
	start := at(p.next().offset)
	if p.isOperator("]") {
		return nil, failf(KindSyntax, "the index is missing")
	}
	if !p.isOperator(":") {
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if p.isOperator(",") {
			keys := []expr{key}
			for p.skipOperator(",") {
				if key, err = p.expression(); err != nil {
					return nil, err
				}
				keys = append(keys, key)
			}
			key = &listExpr{start, keys, true}
		}
		if !p.isOperator(":") {
			if err := p.expectOperator("]"); err != nil {
				return nil, err
			}
			return p.made(&itemExpr{start, e, key})
		}
		return p.slice(start, e, key)
	}
	return p.slice(start, e, nil)
}

// slice parses a slice from its first colon on.
func (p *parser) slice(start at, object, from expr) (expr, error) {
	p.next()
	s := &sliceExpr{at: start, object: object, start: from}
	var err error
	if !p.isOperator(":", "]") {
		if s.end, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.skipOperator(":") && !p.isOperator("]") {
		if s.step, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if err := p.expectOperator("]"); err != nil {
		return nil, err
	}
	return p.made(s)
}

// call parses the arguments and binds them to a method or a function. There
// is nothing else that could be called.
func (p *parser) call(callee expr) (expr, error) {
	start := p.here()
	switch callee := callee.(type) {
	case *attrExpr:
		if !isMethod(callee.name) {
			return nil, p.place(failf(KindSyntax, "unknown method %s", callee.name), callee.offset())
		}
		args, err := p.arguments()
		if err != nil {
			return nil, err
		}
		return p.made(&methodCall{start, callee.object, callee.name, args})
	case *nameExpr:
		function, ok := p.globals[callee.name]
		if !ok {
			return nil, p.place(failf(KindSyntax, "unknown function %s", callee.name), callee.offset())
		}
		args, err := p.arguments()
		if err != nil {
			return nil, err
		}
		return p.made(&globalCall{start, function, args})
	}
	return nil, failf(KindSyntax, "only methods can be called")
}

func (p *parser) arguments() (argList, error) {
	var args argList
	p.next()
	for first := true; !p.isOperator(")"); first = false {
		if !first {
			if err := p.expectOperator(","); err != nil {
				return args, err
			}
			if p.isOperator(")") {
				break
			}
		}
		if p.isOperator("*", "**") {
			return args, failf(KindSyntax, "arguments from a list or a dict are not supported")
		}
		name := ""
		if after := p.tokens[min(p.pos+1, len(p.tokens)-1)]; p.current().kind == tokenName &&
			after.kind == tokenOperator && after.text == "=" {
			name = p.next().text
			p.next()
		}
		value, err := p.expression()
		if err != nil {
			return args, err
		}
		switch {
		case name != "":
			if slices.Contains(args.names, name) {
				return args, failf(KindSyntax, "the argument %s is given twice", name)
			}
			args.names = append(args.names, name)
			args.named = append(args.named, value)
		case len(args.names) > 0:
			return args, failf(KindSyntax, "an argument without a name after a named one")
		default:
			args.positional = append(args.positional, value)
		}
	}
	p.next()
	return args, nil
}

// filter parses | name(arguments).
func (p *parser) filter(object expr) (*filterExpr, error) {
	p.next()
	t := p.current()
	if t.kind != tokenName {
		return nil, failf(KindSyntax, "expected the name of a filter, got %s", t)
	}
	f, ok := p.filters[t.text]
	if !ok {
		return nil, failf(KindSyntax, "unknown filter %s", t.text)
	}
	p.next()
	e := &filterExpr{at: at(t.offset), object: object, filter: f}
	if p.isOperator("(") {
		var err error
		if e.args, err = p.arguments(); err != nil {
			return nil, err
		}
	}
	if err := f.check(e.args); err != nil {
		return nil, p.place(err, t.offset)
	}
	if _, err := p.made(e); err != nil {
		return nil, err
	}
	return e, nil
}

// test parses is name, is not name, with or without an argument.
func (p *parser) test(object expr) (expr, error) {
	p.next()
	negated := p.skipName("not")
	t := p.current()
	if t.kind != tokenName {
		return nil, failf(KindSyntax, "expected the name of a test, got %s", t)
	}
	test, ok := predicates[t.text]
	if !ok {
		return nil, failf(KindSyntax, "unknown test %s", t.text)
	}
	p.next()
	e := &testExpr{at: at(t.offset), object: object, test: test}
	if err := p.testArguments(e); err != nil {
		return nil, err
	}
	if given := len(e.args.positional); given != test.arguments || len(e.args.names) > 0 {
		return nil, p.place(failf(KindSyntax, "the test %s takes %d arguments", t.text, test.arguments), t.offset)
	}
	if negated {
		return p.made(&notExpr{e.at, e})
	}
	return p.made(e)
}

// testArguments parses the argument of a test, which needs no parentheses.
func (p *parser) testArguments(e *testExpr) error {
	switch t := p.current(); {
	case p.isOperator("("):
		var err error
		e.args, err = p.arguments()
		return err
	case p.isName("is"):
		return failf(KindSyntax, "a test cannot be tested again without parentheses")
	case p.isName("else", "or", "and"):
		return nil
	case t.kind == tokenName || t.kind == tokenString || t.kind == tokenInteger ||
		t.kind == tokenFloat || p.isOperator("[", "{"):
		arg, err := p.primary()
		if err != nil {
			return err
		}
		if arg, err = p.postfix(arg); err != nil {
			return err
		}
		e.args.positional = []expr{arg}
	}
	return nil
}
