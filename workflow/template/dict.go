package template

import (
	"fmt"
	"iter"
	"math"
	"math/big"
	"strings"
)

// Dict is a mapping that keeps the order in which its keys were first set.
// The zero value is empty and ready to use. It is not safe to set keys while
// another goroutine reads it.
type Dict struct {
	keys   []Value
	values []Value
	index  map[any]int
}

// Set stores value under key. Setting a key again keeps its place.
func (d *Dict) Set(key string, value Value) { d.put(key, Str(key), value) }

// Get returns the value stored under key.
func (d *Dict) Get(key string) (Value, bool) {
	i, ok := d.index[key]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// All yields keys and values in order.
func (d *Dict) All() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		for i, k := range d.keys {
			if !yield(k, d.values[i]) {
				return
			}
		}
	}
}

func (d *Dict) put(id any, key, value Value) {
	if i, ok := d.index[id]; ok {
		d.values[i] = value
		return
	}
	if d.index == nil {
		d.index = make(map[any]int)
	}
	d.index[id] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, value)
}

// setValue stores under any hashable key.
func (d *Dict) setValue(key, value Value) error {
	id, err := identity(key)
	if err != nil {
		return err
	}
	d.put(id, key, value)
	return nil
}

func (d *Dict) find(key Value) (Value, bool, error) {
	id, err := identity(key)
	if err != nil {
		return nil, false, err
	}
	i, ok := d.index[id]
	if !ok {
		return nil, false, nil
	}
	return d.values[i], true, nil
}

// set is a set of a condition, made by set(…). It has no order one could
// rely on, so it cannot be printed.
type set struct{ members Dict }

// The identities of values that equal no string and no int64.
type (
	noneID  struct{}
	floatID float64
	bigID   string
	tupleID string
)

// identity maps a hashable value to a comparable one, equal exactly when
// Python holds the two for the same key: 1, 1.0 and True are one key.
func identity(v Value) (any, error) {
	switch v := v.(type) {
	case Str:
		return string(v), nil
	case None:
		return noneID{}, nil
	case Bool:
		if v {
			return int64(1), nil
		}
		return int64(0), nil
	case Int:
		return int64(v), nil
	case bigInt:
		return bigID(v.n.String()), nil
	case Float:
		return floatIdentity(float64(v)), nil
	case Tuple:
		return tupleIdentity(v)
	case undefined:
		if err := present(v); err != nil {
			return nil, err
		}
	}
	return nil, valueErrorf("'%s' cannot be a key", v.typeName())
}

func floatIdentity(f float64) any {
	if f != math.Trunc(f) || math.IsInf(f, 0) {
		return floatID(f)
	}
	if math.Abs(f) < 1<<62 {
		return int64(f)
	}
	n, _ := big.NewFloat(f).Int(nil)
	return bigID(n.String())
}

func tupleIdentity(t Tuple) (any, error) {
	var b strings.Builder
	for _, item := range t {
		id, err := identity(item)
		if err != nil {
			return nil, err
		}
		// The length keeps neighbours apart, the type 1 from '1'.
		part := fmt.Sprintf("%T %v", id, id)
		fmt.Fprintf(&b, "%d:%s", len(part), part)
		if b.Len() > maxKeyBytes {
			return nil, failf(KindLimit, "a tuple used as key is too large")
		}
	}
	return tupleID(b.String()), nil
}
