package template

import (
	"fmt"
)

func (e *constExpr) eval(*run) (Value, error) { return e.value, nil }

func (e *nameExpr) eval(r *run) (Value, error) {
	if v, ok := r.lookup(e.name); ok {
		return v, nil
	}
	return r.missing("%s", e.name), nil
}

// missing returns the value of something that is not there.
func (r *run) missing(format string, args ...any) Value {
	return undefined{what: fmt.Sprintf(format, args...), strict: r.strict}
}

func (e *listExpr) eval(r *run) (Value, error) {
	items, err := r.evalAll(e.items)
	if err != nil {
		return nil, err
	}
	if e.tuple {
		return Tuple(items), nil
	}
	return List(items), nil
}

func (r *run) evalAll(exprs []expr) ([]Value, error) {
	if err := r.elements(len(exprs)); err != nil {
		return nil, err
	}
	values := make([]Value, len(exprs))
	for i, e := range exprs {
		v, err := r.eval(e)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

func (e *dictExpr) eval(r *run) (Value, error) {
	if err := r.elements(2 * len(e.keys)); err != nil {
		return nil, err
	}
	d := &Dict{}
	for i := range e.keys {
		k, err := r.eval(e.keys[i])
		if err != nil {
			return nil, err
		}
		v, err := r.eval(e.values[i])
		if err != nil {
			return nil, err
		}
		if err := d.setValue(k, v); err != nil {
			return nil, r.place(err, e.keys[i].offset())
		}
	}
	return d, nil
}

// object evaluates what is looked into, which must be there.
func (r *run) object(e expr) (Value, error) {
	v, err := r.eval(e)
	if err != nil {
		return nil, err
	}
	if u, ok := v.(undefined); ok {
		return nil, r.place(u.err(), e.offset())
	}
	return v, nil
}

func (e *attrExpr) eval(r *run) (Value, error) {
	obj, err := r.object(e.object)
	if err != nil {
		return nil, err
	}
	if _, ok := methodOf(obj, e.name); ok {
		return method{e.name}, nil
	}
	switch obj := obj.(type) {
	case *loop:
		if v, ok := obj.field(e.name); ok {
			return v, nil
		}
	case *Dict:
		if v, ok := obj.Get(e.name); ok {
			return v, nil
		}
	}
	return r.missing("%s.%s", describe(e.object), e.name), nil
}

func (e *itemExpr) eval(r *run) (Value, error) {
	obj, err := r.object(e.object)
	if err != nil {
		return nil, err
	}
	key, err := r.eval(e.key)
	if err != nil {
		return nil, err
	}
	if err := present(key); err != nil {
		return nil, err
	}
	v, ok, err := r.item(obj, key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return r.missing("%s[%s]", describe(e.object), brief(key)), nil
	}
	return v, nil
}

// item returns obj[key]; a key or index of the wrong kind is not there either.
func (r *run) item(obj, key Value) (Value, bool, error) {
	if d, ok := obj.(*Dict); ok {
		v, ok, err := d.find(key)
		if err != nil {
			return nil, false, nil
		}
		return v, ok, nil
	}
	if l, ok := obj.(*loop); ok {
		name, _ := key.(Str)
		v, ok := l.field(string(name))
		return v, ok, nil
	}
	i, ok := smallInt(key)
	if !ok {
		return nil, false, nil
	}
	switch obj := obj.(type) {
	case List:
		return pick(obj, i)
	case Tuple:
		return pick(obj, i)
	case Str:
		if err := r.step(1 + len(obj)/16); err != nil {
			return nil, false, err
		}
		c, ok := codePointAt(string(obj), i)
		return Str(c), ok, nil
	}
	return nil, false, nil
}

func pick(items []Value, i int) (Value, bool, error) {
	if i < 0 {
		i += len(items)
	}
	if i < 0 || i >= len(items) {
		return nil, false, nil
	}
	return items[i], true, nil
}

// describe writes an expression the way a message names it.
func describe(e expr) string {
	switch e := e.(type) {
	case *nameExpr:
		return e.name
	case *attrExpr:
		return describe(e.object) + "." + e.name
	case *itemExpr:
		if c, ok := e.key.(*constExpr); ok {
			return fmt.Sprintf("%s[%s]", describe(e.object), brief(c.value))
		}
		return describe(e.object) + "[…]"
	case *methodCall:
		return describe(e.object) + "." + e.name + "(…)"
	}
	return "(…)"
}

// brief returns the start of a value's repr, for messages.
func brief(v Value) string {
	p := printer{meter: &meter{bytes: maxBytes - 4096}} // a long one is not worth its text
	if err := p.repr(v, 0); err != nil {
		return v.typeName()
	}
	text := p.String()
	if runes := []rune(text); len(runes) > 60 {
		return string(runes[:60]) + "…"
	}
	return text
}

func (e *signExpr) eval(r *run) (Value, error) {
	v, err := r.eval(e.operand)
	if err != nil {
		return nil, err
	}
	return sign(v, e.negative)
}

func (e *notExpr) eval(r *run) (Value, error) {
	yes, err := r.test(e.operand)
	return Bool(!yes), err
}

// test evaluates an expression for its truth.
func (r *run) test(e expr) (bool, error) {
	v, err := r.eval(e)
	if err != nil {
		return false, err
	}
	return truth(v)
}

func (e *logicExpr) eval(r *run) (Value, error) {
	left, err := r.eval(e.left)
	if err != nil {
		return nil, err
	}
	yes, err := truth(left)
	if err != nil {
		return nil, err
	}
	if yes == e.or {
		return left, nil
	}
	return r.eval(e.right)
}

// eval of a choice without else is empty: it prints as nothing.
func (e *choiceExpr) eval(r *run) (Value, error) {
	yes, err := r.test(e.test)
	if err != nil {
		return nil, err
	}
	if yes {
		return r.eval(e.yes)
	}
	if e.no == nil {
		return undefined{what: "the else of an if"}, nil
	}
	return r.eval(e.no)
}

func (e *concatExpr) eval(r *run) (Value, error) {
	values, err := r.evalAll(e.parts)
	if err != nil {
		return nil, err
	}
	p := printer{meter: &r.meter}
	for _, v := range values {
		if err := p.str(v); err != nil {
			return nil, err
		}
	}
	return Str(p.String()), nil
}

func (e *binaryExpr) eval(r *run) (Value, error) {
	left, err := r.eval(e.left)
	if err != nil {
		return nil, err
	}
	right, err := r.eval(e.right)
	if err != nil {
		return nil, err
	}
	return r.binary(e.op, left, right)
}

// eval compares pair by pair and stops at the first that does not hold.
func (e *compareExpr) eval(r *run) (Value, error) {
	left, err := r.eval(e.first)
	if err != nil {
		return nil, err
	}
	for _, o := range e.rest {
		right, err := r.eval(o.value)
		if err != nil {
			return nil, err
		}
		holds, err := r.compare(o.op, left, right)
		if err != nil || !holds {
			return Bool(false), err
		}
		left = right
	}
	return Bool(true), nil
}
