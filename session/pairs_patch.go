package session

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// patch sets the pairs that are given and takes those away that are null.
func (p *Pairs[V]) patch(raw json.RawMessage) error {
	var moved []pair[json.RawMessage]
	if err := json.Unmarshal(raw, &moved); err != nil {
		return err
	}
	next := *p
	for _, m := range moved {
		if string(bytes.TrimSpace(m.value)) == "null" {
			next = next.Without(m.key)
			continue
		}
		var v V
		if err := DecodeStrict("value", m.value, &v); err != nil {
			return err
		}
		next = next.With(m.key, v)
	}
	*p = next
	return nil
}

// diff is the patch that leads from older to this one, its order included: a
// key that came back after it went, or that stands behind a new one, is taken
// away and set again.
func (p *Pairs[V]) diff(older any) (json.RawMessage, error) {
	before, ok := older.(*Pairs[V])
	if !ok {
		return JSON(p)
	}
	stays := p.stays(*before)
	moved := []pair[any]{}
	for key := range before.All() {
		if i := p.index(key); i < 0 || i >= stays {
			moved = append(moved, pair[any]{key, nil})
		}
	}
	for i, e := range p.list {
		if i < stays {
			old, _ := before.Get(e.key)
			if reflect.DeepEqual(old, e.value) {
				continue
			}
		}
		moved = append(moved, pair[any]{e.key, e.value})
	}
	return JSON(moved)
}

// stays counts the pairs at the beginning that stood in this order before, so
// that a patch need not move them.
func (p *Pairs[V]) stays(before Pairs[V]) int {
	at := 0
	for n, e := range p.list {
		for at < len(before.list) && before.list[at].key != e.key {
			at++
		}
		if at == len(before.list) {
			return n
		}
		at++
	}
	return p.Len()
}
