package template

// loop is the value loop inside a for statement.
type loop struct {
	items []Value
	index int
}

func (l *loop) field(name string) (Value, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return Int(l.index + 1), true
	case "index0":
		return Int(l.index), true
	case "first":
		return Bool(l.index == 0), true
	case "last":
		return Bool(l.index == n-1), true
	case "length":
		return Int(n), true
	case "revindex":
		return Int(n - l.index), true
	case "revindex0":
		return Int(n - l.index - 1), true
	case "previtem":
		if l.index > 0 {
			return l.items[l.index-1], true
		}
	case "nextitem":
		if l.index < n-1 {
			return l.items[l.index+1], true
		}
	}
	return nil, false
}
