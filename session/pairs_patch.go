package session

import (
	"bytes"
	"encoding/json"
)

// newest keeps the entries that were added last.
func (p Pairs[V]) newest(most int) Pairs[V] {
	skip := p.Len() - most
	if skip <= 0 {
		return p
	}
	var kept Pairs[V]
	for key, v := range p.All() {
		if skip--; skip < 0 {
			kept = kept.With(key, v)
		}
	}
	return kept
}

// patch sets the pairs that are given and takes those away that are null.
func (p *Pairs[V]) patch(raw json.RawMessage) error {
	var moved [][2]json.RawMessage
	if err := json.Unmarshal(raw, &moved); err != nil {
		return err
	}
	next := *p
	for _, m := range moved {
		var key string
		if err := json.Unmarshal(m[0], &key); err != nil {
			return err
		}
		if string(bytes.TrimSpace(m[1])) == "null" {
			next = next.Without(key)
			continue
		}
		var v V
		if err := json.Unmarshal(m[1], &v); err != nil {
			return err
		}
		next = next.With(key, v)
	}
	*p = next
	return nil
}

// diff is the patch that leads from older to this one.
func (p *Pairs[V]) diff(older any) (json.RawMessage, error) {
	before, ok := older.(*Pairs[V])
	if !ok {
		return JSON(p)
	}
	moved := [][2]any{}
	for key := range before.All() {
		if _, still := p.Get(key); !still {
			moved = append(moved, [2]any{key, nil})
		}
	}
	for key, v := range p.All() {
		now, err := JSON(v)
		if err != nil {
			return nil, err
		}
		if old, had := before.Get(key); had {
			was, err := JSON(old)
			if err != nil {
				return nil, err
			}
			if bytes.Equal(was, now) {
				continue
			}
		}
		moved = append(moved, [2]any{key, now})
	}
	return JSON(moved)
}
