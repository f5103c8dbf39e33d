package langgraph

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

var errShort = errors.New("it ends in the middle of a value")

// unpack reads one MessagePack value as encoding/json would: maps with text as
// keys, lists, texts, numbers. An object of a Python class is what it was made of.
func unpack(data []byte) (any, error) {
	r := &unpacker{data: data}
	v, err := r.value(0)
	if err == nil && len(r.data) > 0 {
		err = fmt.Errorf("%d bytes stand behind the value", len(r.data))
	}
	return v, err
}

type unpacker struct{ data []byte }

const maxDepth = 200

func (r *unpacker) take(n uint64) ([]byte, error) {
	if uint64(len(r.data)) < n {
		return nil, errShort
	}
	taken := r.data[:n]
	r.data = r.data[n:]
	return taken, nil
}

// number reads an unsigned number of some bytes.
func (r *unpacker) number(size uint64) (uint64, error) {
	b, err := r.take(size)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[8-size:], b)
	return binary.BigEndian.Uint64(wide[:]), nil
}

func (r *unpacker) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("it is nested too deep")
	}
	first, err := r.number(1)
	if err != nil {
		return nil, err
	}
	switch {
	case first <= 0x7f:
		return first, nil
	case first >= 0xe0:
		return int64(int8(first)), nil
	case first <= 0x8f:
		return r.object(first&0x0f, depth)
	case first <= 0x9f:
		return r.list(first&0x0f, depth)
	case first <= 0xbf:
		return r.text(first & 0x1f)
	}
	switch first {
	case 0xc0:
		return nil, nil
	case 0xc2, 0xc3:
		return first == 0xc3, nil
	case 0xca:
		n, err := r.number(4)
		return finite(float64(math.Float32frombits(uint32(n)))), err
	case 0xcb:
		n, err := r.number(8)
		return finite(math.Float64frombits(n)), err
	case 0xcc, 0xcd, 0xce, 0xcf:
		return r.number(1 << (first - 0xcc))
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := uint64(1) << (first - 0xd0)
		n, err := r.number(size)
		unused := 64 - 8*size
		return int64(n<<unused) >> unused, err
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return r.extension(1<<(first-0xd4), depth)
	}
	return r.sized(first, depth)
}

// finite returns a number that JSON has, else nothing.
func finite(n float64) any {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return nil
	}
	return n
}

// sized reads a value whose size is written before it.
func (r *unpacker) sized(first uint64, depth int) (any, error) {
	kinds := map[uint64]struct {
		size uint64 // of the size
		read func(n uint64) (any, error)
	}{
		0xc4: {1, r.text}, 0xc5: {2, r.text}, 0xc6: {4, r.text}, // bytes
		0xd9: {1, r.text}, 0xda: {2, r.text}, 0xdb: {4, r.text},
		0xdc: {2, func(n uint64) (any, error) { return r.list(n, depth) }}, 0xdd: {4, func(n uint64) (any, error) { return r.list(n, depth) }},
		0xde: {2, func(n uint64) (any, error) { return r.object(n, depth) }}, 0xdf: {4, func(n uint64) (any, error) { return r.object(n, depth) }},
	}
	for code, size := range map[uint64]uint64{0xc7: 1, 0xc8: 2, 0xc9: 4} {
		if code == first {
			n, err := r.number(size)
			if err != nil {
				return nil, err
			}
			return r.extension(n, depth)
		}
	}
	kind, known := kinds[first]
	if !known {
		return nil, fmt.Errorf("a value cannot begin with %#x", first)
	}
	n, err := r.number(kind.size)
	if err != nil {
		return nil, err
	}
	return kind.read(n)
}

func (r *unpacker) text(n uint64) (any, error) {
	b, err := r.take(n)
	return string(b), err
}

func (r *unpacker) list(n uint64, depth int) (any, error) {
	list := []any{}
	for range n {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (r *unpacker) object(n uint64, depth int) (any, error) {
	object := map[string]any{}
	for range n {
		key, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		object[fmt.Sprint(key)] = v
	}
	return object, nil
}

// extension reads an object of a class: its module, its name and what it was
// made of. No code of the class is needed or run.
func (r *unpacker) extension(n uint64, depth int) (any, error) {
	b, err := r.take(n + 1)
	if err != nil {
		return nil, err
	}
	inner := &unpacker{data: b[1:]}
	v, err := inner.value(depth + 1)
	if err != nil {
		return nil, err
	}
	if made, ok := v.([]any); ok && len(made) >= 3 {
		return made[2], nil
	}
	return v, nil
}
