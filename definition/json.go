package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-dev/holdfast/session"
)

func (r *reader) json(data []byte, d *session.Definition) error {
	p := newJSONParser(data)
	root, err := p.document()
	if err != nil {
		return r.refuse(p.explain(err))
	}
	return r.definition(root, d)
}

// jsonParser builds nodes from tokens, because a decoder into maps would drop
// repeated keys without a word.
type jsonParser struct {
	data []byte
	dec  *json.Decoder
	line int   // of offset
	done int64 // offset up to which lines are counted
}

func newJSONParser(data []byte) *jsonParser {
	p := &jsonParser{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	return p
}

// document reads the one value of the file.
func (p *jsonParser) document() (*node, error) {
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.Token(); err == nil {
		return nil, errors.New("has more than one value")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return n, nil
}

func (p *jsonParser) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nests deeper than %d levels", maxDepth)
	}
	token, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &node{line: p.lineAt(p.dec.InputOffset())}
	switch v := token.(type) {
	case nil:
		n.kind = null
	case bool:
		n.kind, n.text = boolean, fmt.Sprint(v)
	case json.Number:
		n.kind, n.text = number, v.String()
		if !holdable(n.text) {
			return nil, errors.New("has a number too large to hold")
		}
	case string:
		n.kind, n.text = text, v
	case json.Delim:
		if v == '[' {
			return n, p.list(n, depth)
		}
		return n, p.object(n, depth)
	}
	return n, nil
}

func (p *jsonParser) list(n *node, depth int) error {
	n.kind = list
	for p.dec.More() {
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := p.dec.Token()
	return err
}

func (p *jsonParser) object(n *node, depth int) error {
	n.kind = object
	for p.dec.More() {
		token, err := p.dec.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return errors.New("has a key that is not a string")
		}
		line := p.lineAt(p.dec.InputOffset())
		value, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.entries = append(n.entries, entry{key: key, line: line, value: value})
	}
	_, err := p.dec.Token()
	return err
}

// lineAt counts lines. Offsets only grow, so the whole file is counted once.
func (p *jsonParser) lineAt(offset int64) int {
	p.line += bytes.Count(p.data[p.done:offset], []byte("\n"))
	p.done = offset
	return p.line + 1
}

func (p *jsonParser) explain(err error) string {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(p.data[:min(int(syntax.Offset), len(p.data))], []byte("\n"))
		return fmt.Sprintf("is not JSON: %v (line %d)", err, line)
	case errors.Is(err, io.EOF) && len(bytes.TrimSpace(p.data)) == 0:
		return "is empty"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "is not JSON: it ends too early"
	}
	return fmt.Sprintf("%v (line %d)", err, p.lineAt(max(p.done, p.dec.InputOffset())))
}
