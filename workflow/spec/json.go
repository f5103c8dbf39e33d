package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// parseJSON builds the tree from tokens: decoding into maps would lose the
// order of keys and drop repeated ones without a word.
func parseJSON(file string, data []byte) (*node, error) {
	p := &jsonParser{file: file, data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	n, err := p.document()
	if err != nil {
		return nil, p.explain(err)
	}
	return n, nil
}

type jsonParser struct {
	file  string
	data  []byte
	dec   *json.Decoder
	nodes int
	lines int   // newlines before done
	done  int64 // offset up to which they are counted
}

func (p *jsonParser) document() (*node, error) {
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := p.dec.Token(); err == nil {
		return nil, errors.New("has more than one document")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return n, nil
}

func (p *jsonParser) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errDepth()
	}
	if p.nodes++; p.nodes > maxNodes {
		return nil, fmt.Errorf("has more than %d values", maxNodes)
	}
	tok, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &node{file: p.file, line: p.line()}
	switch v := tok.(type) {
	case nil:
		n.kind = null
	case bool:
		n.kind, n.yes = boolean, v
	case json.Number:
		k := integer
		if strings.ContainsAny(v.String(), ".eE") {
			k = float
		}
		err = n.setNumber(k, v.String(), 10)
	case string:
		n.kind, n.text = text, v
	case json.Delim:
		if v == '[' {
			err = p.list(n, depth)
		} else {
			err = p.object(n, depth)
		}
	}
	return n, err
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
	seen := map[string]bool{}
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return errors.New("has a key that is not a string")
		}
		line := p.line()
		if seen[key] {
			return fmt.Errorf("has the key %q twice%s", key, placeOf(p.file, line))
		}
		seen[key] = true
		value, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.entries = append(n.entries, entry{key: key, line: line, value: value})
	}
	_, err := p.dec.Token()
	return err
}

// line is where the last token ends. Offsets only grow, so the file is
// counted once.
func (p *jsonParser) line() int {
	offset := p.dec.InputOffset()
	p.lines += bytes.Count(p.data[p.done:offset], []byte("\n"))
	p.done = offset
	return p.lines + 1
}

func (p *jsonParser) explain(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(p.data[:min(int(syntax.Offset), len(p.data))], []byte("\n"))
		return fmt.Errorf("is not JSON: %w%s", err, placeOf("", line))
	case errors.Is(err, io.EOF) && len(bytes.TrimSpace(p.data)) == 0:
		return errors.New("is empty")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("is not JSON: it ends too early")
	}
	return err
}
