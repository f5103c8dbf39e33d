package template

import (
	"strings"
	"time"
)

// run is one rendering or one evaluation.
type run struct {
	source
	meter
	scope  Scope
	strict bool // whether missing things are strict undefined
	frame  *frame
	out    *strings.Builder
	// matching is the time left for pattern searches.
	matching time.Duration
}

func newRun(src source, scope Scope, strict bool) *run {
	return &run{
		source: src, scope: scope, strict: strict,
		frame: &frame{}, out: &strings.Builder{}, matching: maxMatching,
	}
}

// frame holds the names a template has set itself, innermost first.
type frame struct {
	vars map[string]Value
	up   *frame
}

func (f *frame) set(name string, v Value) {
	if f.vars == nil {
		f.vars = make(map[string]Value)
	}
	f.vars[name] = v
}

// push opens a frame; the caller closes it by setting r.frame back.
func (r *run) push() *frame {
	outer := r.frame
	r.frame = &frame{up: outer}
	return outer
}

func (r *run) lookup(name string) (Value, bool) {
	for f := r.frame; f != nil; f = f.up {
		if v, ok := f.vars[name]; ok {
			return v, true
		}
	}
	v, ok := r.scope[name]
	return v, ok && v != nil
}

// eval evaluates a part of an expression and gives errors their place.
func (r *run) eval(e expr) (Value, error) {
	err := r.step(1)
	if err == nil {
		var v Value
		if v, err = e.eval(r); err == nil {
			return v, nil
		}
	}
	return nil, r.place(err, e.offset())
}

func (r *run) execAll(body []stmt) error {
	for _, s := range body {
		if err := r.step(1); err != nil {
			return r.place(err, s.offset())
		}
		if err := s.exec(r); err != nil {
			return r.place(err, s.offset())
		}
	}
	return nil
}

func (r *run) write(text string) error {
	if err := r.grow(len(text)); err != nil {
		return err
	}
	r.out.WriteString(text)
	return nil
}

func (s *textStmt) exec(r *run) error { return r.write(s.text) }

func (s *printStmt) exec(r *run) error {
	v, err := r.eval(s.value)
	if err != nil {
		return err
	}
	if text, ok := v.(Str); ok {
		return r.write(string(text))
	}
	p := printer{meter: &r.meter}
	if err := p.str(v); err != nil {
		return err
	}
	r.out.WriteString(p.String())
	return nil
}

func (s *ifStmt) exec(r *run) error {
	for _, b := range s.branches {
		v, err := r.eval(b.test)
		if err != nil {
			return err
		}
		yes, err := truth(v)
		if err != nil {
			return r.place(err, b.test.offset())
		}
		if yes {
			return r.execAll(b.body)
		}
	}
	return r.execAll(s.otherwise)
}

func (s *forStmt) exec(r *run) error {
	v, err := r.eval(s.items)
	if err != nil {
		return err
	}
	items, err := r.iterate(v)
	if err != nil {
		return r.place(err, s.items.offset())
	}
	if s.filter != nil {
		if items, err = s.keep(r, items); err != nil {
			return err
		}
	}
	outer := r.push()
	defer func() { r.frame = outer }()
	if len(items) == 0 {
		return r.execAll(s.otherwise)
	}
	for i := range items {
		r.frame = &frame{up: outer}
		r.frame.set("loop", &loop{items: items, index: i})
		if err := r.assign(s.target, items[i]); err != nil {
			return err
		}
		if err := r.step(1); err != nil {
			return err
		}
		if err := r.execAll(s.body); err != nil {
			return err
		}
	}
	return nil
}

// keep returns the items that pass the loop's condition. The loop counts
// only those, so they are known before its first round.
func (s *forStmt) keep(r *run, items []Value) ([]Value, error) {
	outer := r.push()
	defer func() { r.frame = outer }()
	var kept []Value
	for _, item := range items {
		r.frame = &frame{up: outer}
		if err := r.assign(s.target, item); err != nil {
			return nil, err
		}
		v, err := r.eval(s.filter)
		if err != nil {
			return nil, err
		}
		yes, err := truth(v)
		if err != nil {
			return nil, r.place(err, s.filter.offset())
		}
		if yes {
			kept = append(kept, item)
		}
	}
	return kept, r.elements(len(kept))
}

func (s *setStmt) exec(r *run) error {
	v, err := r.eval(s.value)
	if err != nil {
		return err
	}
	return r.assign(s.target, v)
}

func (s *setBlockStmt) exec(r *run) error {
	outer, out := r.push(), r.out
	r.out = &strings.Builder{}
	err := r.execAll(s.body)
	text := Value(Str(r.out.String()))
	r.frame, r.out = outer, out
	if err != nil {
		return err
	}
	for _, f := range s.filters {
		if text, err = f.apply(r, text); err != nil {
			return r.place(err, f.offset())
		}
	}
	return r.assign(s.target, text)
}

// exec evaluates all values before it names any: none sees the others.
func (s *withStmt) exec(r *run) error {
	values := make([]Value, len(s.values))
	for i, e := range s.values {
		v, err := r.eval(e)
		if err != nil {
			return err
		}
		values[i] = v
	}
	outer := r.push()
	defer func() { r.frame = outer }()
	for i, v := range values {
		if err := r.assign(s.targets[i], v); err != nil {
			return err
		}
	}
	return r.execAll(s.body)
}

func (r *run) assign(to target, v Value) error {
	if to.name != "" {
		r.frame.set(to.name, v)
		return nil
	}
	parts, err := r.iterate(v)
	if err != nil {
		return err
	}
	if len(parts) != len(to.parts) {
		return valueErrorf("%d values for %d names", len(parts), len(to.parts))
	}
	for i, part := range to.parts {
		if err := r.assign(part, parts[i]); err != nil {
			return err
		}
	}
	return nil
}
