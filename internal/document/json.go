package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// parseJSON builds the tree from tokens: decoding into maps would lose the
// order of keys and drop repeated ones silently.
func (b *builder) parseJSON(data []byte) (*Node, error) {
	p := &jsonParser{builder: b, data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	p.dec.UseNumber()
	n, err := p.value(0)
	if err == nil {
		if _, err = p.dec.Token(); err == nil {
			err = errors.New("has more than one document")
		} else if errors.Is(err, io.EOF) {
			return n, nil
		}
	}
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
		return nil, fmt.Errorf("is not JSON: %w%s", err, place("", line))
	case errors.Is(err, io.EOF) && len(bytes.TrimSpace(data)) == 0:
		return nil, errors.New("is empty")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("is not JSON: it ends too early")
	}
	return nil, err
}

type jsonParser struct {
	*builder
	data         []byte
	dec          *json.Decoder
	line, column int // of the last token
	lineStart    int // offset of its line
}

// next reads a token and finds its place. Offsets only grow, so the lines of
// the whole file are counted once.
func (p *jsonParser) next() (json.Token, error) {
	start := int(p.dec.InputOffset())
	for ; start < len(p.data) && bytes.IndexByte([]byte(" \t\r\n,:"), p.data[start]) >= 0; start++ {
		if p.data[start] == '\n' {
			p.line, p.lineStart = p.line+1, start+1
		}
	}
	p.column = start - p.lineStart + 1
	return p.dec.Token()
}

func (p *jsonParser) value(depth int) (*Node, error) {
	tok, err := p.next()
	if err != nil {
		return nil, err
	}
	n, err := p.node(depth, p.line, p.column)
	if err != nil {
		return nil, err
	}
	switch v := tok.(type) {
	case nil:
		n.Kind = Null
	case bool:
		n.Kind, n.Text = Bool, fmt.Sprint(v)
	case json.Number:
		kind := Integer
		if strings.ContainsAny(v.String(), ".eE") {
			kind = Number
		}
		err = p.setNumber(n, kind, v.String(), 10)
	case string:
		n.Kind, n.Text = String, v
	case json.Delim:
		if n.Kind = Map; v == '[' {
			n.Kind = List
		}
		err = p.inside(n, depth)
	}
	return n, err
}

// inside reads what a list or a map holds.
func (p *jsonParser) inside(n *Node, depth int) error {
	seen := map[string]bool{}
	for p.dec.More() {
		if n.Kind == List {
			item, err := p.value(depth + 1)
			if err != nil {
				return err
			}
			n.addItem(item)
			continue
		}
		key, err := p.next()
		if err != nil {
			return err
		}
		name, ok := key.(string)
		if !ok {
			return errors.New("is not JSON: it has a key that is not a string")
		}
		e := Entry{Key: name, Line: p.line}
		if e.Value, err = p.value(depth + 1); err != nil {
			return err
		}
		if err := p.addEntry(n, e, seen); err != nil {
			return err
		}
	}
	_, err := p.next()
	return err
}
