package template

// predicate is a test: what may follow is.
type predicate struct {
	name      string
	arguments int
}

// predicates are Jinja's standard tests under all their names, with the
// comparison some of them stand for.
var predicates = map[string]predicate{
	"boolean": {"boolean", 0}, "callable": {"callable", 0}, "defined": {"defined", 0}, "divisibleby": {"divisibleby", 1},
	"eq": {"==", 1}, "equalto": {"==", 1}, "escaped": {"escaped", 0}, "even": {"even", 0}, "false": {"false", 0},
	"filter": {"filter", 0}, "float": {"float", 0}, "ge": {">=", 1}, "greaterthan": {">", 1}, "gt": {">", 1},
	"in": {"in", 1}, "integer": {"integer", 0}, "iterable": {"iterable", 0}, "le": {"<=", 1}, "lessthan": {"<", 1},
	"lower": {"lower", 0}, "lt": {"<", 1}, "mapping": {"mapping", 0}, "ne": {"!=", 1}, "none": {"none", 0},
	"number": {"number", 0}, "odd": {"odd", 0}, "sameas": {"sameas", 1}, "sequence": {"sequence", 0},
	"string": {"string", 0}, "test": {"test", 0}, "true": {"true", 0}, "undefined": {"undefined", 0}, "upper": {"upper", 0},
}

func (e *testExpr) eval(r *run) (Value, error) {
	v, err := r.eval(e.object)
	if err != nil {
		return nil, err
	}
	_, missing := v.(undefined)
	switch e.test.name {
	case "defined":
		return Bool(!missing), nil
	case "undefined":
		return Bool(missing), nil
	}
	if err := present(v); err != nil {
		return nil, err
	}
	args, err := r.arguments(e.test.name, e.args)
	if err != nil {
		return nil, err
	}
	var holds bool
	if e.test.arguments == 1 {
		holds, err = r.relation(e.test.name, v, args.positional[0])
	} else {
		holds, err = r.property(e.test.name, v)
	}
	return Bool(holds), err
}

// relation evaluates a test with an argument.
func (r *run) relation(name string, v, arg Value) (bool, error) {
	switch name {
	case "divisibleby":
		return r.rest(v, arg, 0)
	case "sameas":
		return same(v, arg), nil
	}
	return r.compare(name, v, arg)
}

// property evaluates a test without an argument.
func (r *run) property(name string, v Value) (bool, error) {
	switch name {
	case "even":
		return r.rest(v, Int(2), 0)
	case "odd":
		return r.rest(v, Int(2), 1)
	case "lower", "upper":
		p := printer{meter: &r.meter}
		if err := p.str(v); err != nil {
			return false, err
		}
		if name == "lower" {
			return allCase(p.String(), isLower), nil
		}
		return allCase(p.String(), isUpper), nil
	case "filter", "test":
		s, ok := v.(Str)
		if !ok {
			return false, nil
		}
		if name == "test" {
			_, ok = predicates[string(s)]
			return ok, nil
		}
		_, ok = templateFilters[string(s)]
		return ok, nil
	}
	return isKind(name, v), nil
}

// rest reports whether v % n is the given rest.
func (r *run) rest(v, n Value, rest Int) (bool, error) {
	m, err := r.binary("%", v, n)
	if err != nil {
		return false, err
	}
	return r.equal(m, rest, 0)
}

// isKind evaluates a test of what v is.
func isKind(name string, v Value) bool {
	switch v := v.(type) {
	case None:
		return name == "none"
	case Bool:
		return name == "boolean" || name == "number" || name == "true" && bool(v) || name == "false" && !bool(v)
	case Int, bigInt:
		return name == "integer" || name == "number"
	case Float:
		return name == "float" || name == "number"
	case Str:
		return name == "string" || name == "sequence" || name == "iterable"
	case List, Tuple:
		return name == "sequence" || name == "iterable"
	case *Dict:
		return name == "mapping" || name == "sequence" || name == "iterable"
	case *set, view, *loop:
		return name == "iterable"
	case undefined:
		return name == "sequence" || name == "iterable"
	case method:
		return name == "callable"
	}
	return false
}

// same reports Python's is: of one type and equal, and one object where objects
// can be told apart.
func same(a, b Value) bool {
	switch a := a.(type) {
	case List:
		l, ok := b.(List)
		return ok && len(a) == len(l) && (len(a) == 0 || &a[0] == &l[0])
	case Tuple:
		t, ok := b.(Tuple)
		return ok && len(a) == len(t) && (len(a) == 0 || &a[0] == &t[0])
	case bigInt:
		n, ok := b.(bigInt)
		return ok && a.n.Cmp(n.n) == 0
	case view, undefined:
		return false
	}
	switch b.(type) {
	case List, Tuple, view:
		return false
	}
	return a == b
}
