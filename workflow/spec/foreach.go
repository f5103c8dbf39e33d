package spec

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
)

// MaxItems is how many items a ForEach may have.
const MaxItems = 10_000

// ForEach makes a branch of every item of a list: its steps, in which item is the
// item and item_index its number, from 0. The branches are named by the numbers.
// One of Items, Input and File says which list.
type ForEach struct {
	Items []any  // written in place
	Input string // the name of an input; a variable has the list as JSON
	File  string // by its path from the spec's folder; its extension tells the format
	Steps []Step
}

// MarshalJSON keeps an empty list, and the floats among the items.
func (f ForEach) MarshalJSON() ([]byte, error) {
	list := Entry[any]{"items", append([]any{}, f.Items...)}
	switch {
	case f.Input != "":
		list = Entry[any]{"input", f.Input}
	case f.File != "":
		list = Entry[any]{"file", f.File}
	}
	return marshal(Map[any]{list, {"steps", f.Steps}})
}

// Each is the branch that the items of a ForEach have in common.
func (f ForEach) Each() Branch { return Branch{ID: "0", Steps: f.Steps} }

func forEachField(f *ForEach) field {
	return func(v value) {
		keys(
			may("items", func(v value) {
				if v.Is(document.List) {
					f.Items = itemsOf(v.Node)
				}
			}),
			may("input", filled(&f.Input)),
			may("file", filled(&f.File)),
			must("steps", some(1, &f.Steps, stepField)),
		)(v)
		if v.Kind != document.Map {
			return
		}
		lists := 0
		for _, key := range []string{"items", "input", "file"} {
			if v.Get(key) != nil {
				lists++
			}
		}
		if lists != 1 {
			v.Problem("has %d of items, input and file; write one", lists)
		}
	}
}

// expand makes the branches of a ForEach. An input without a usable value makes
// none: Complete reports it.
func (s *Spec) expand(r *document.Reader) {
	p := s.Pattern.Parallel
	if p == nil || p.ForEach == nil {
		return
	}
	items, pointer, err := p.ForEach.Items, "items", error(nil)
	switch {
	case p.ForEach.File != "":
		pointer = "file"
		items, err = s.readItems(p.ForEach.File)
	case p.ForEach.Input != "":
		pointer = "input"
		if !slices.Contains(s.known, p.ForEach.Input) && !s.given.Has(p.ForEach.Input) {
			err = fmt.Errorf("names the input %q, which is not under inputs", p.ForEach.Input)
			break
		}
		items, _ = s.inputItems()
	}
	if err == nil && len(items) > MaxItems {
		err = fmt.Errorf("has %d items, more than %d", len(items), MaxItems)
	}
	if err != nil {
		r.Report(document.Problem{Path: document.Pointer(configPointer, "for_each", pointer), Reason: err.Error()})
		return
	}
	for i, item := range items {
		p.Branches = append(p.Branches, Branch{ID: strconv.Itoa(i), Steps: p.ForEach.Steps, Item: item})
	}
}

// inputItems returns the list in the input of a ForEach, none where there is no
// such input or it has no value.
func (s *Spec) inputItems() ([]any, error) {
	p := s.Pattern.Parallel
	if p == nil || p.ForEach == nil || p.ForEach.Input == "" {
		return nil, nil
	}
	v, ok := s.Inputs.Values.Get(p.ForEach.Input)
	if list, is := v.([]any); is || !ok {
		return list, nil
	}
	refuse := func(reason string) error {
		return &session.InvalidError{Field: "inputs." + p.ForEach.Input, Reason: reason + `; write a list in JSON, such as ["a", "b"]`}
	}
	text, is := v.(string)
	if !is {
		return nil, refuse("it is not a list")
	}
	root, err := document.Parse([]byte(text), document.Options{JSON: true})
	switch {
	case err != nil:
		return nil, refuse("it " + err.Error())
	case root.Kind != document.List:
		return nil, refuse(fmt.Sprintf("it is %s, not a list", root.Kind))
	}
	return itemsOf(root), nil
}

// readItems reads the items of a file and keeps a copy for the snapshot.
func (s *Spec) readItems(written string) ([]any, error) {
	data, err := s.read(written)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("refers to %q, which does not exist", written)
	case err != nil:
		return nil, fmt.Errorf("refers to %q, which cannot be read: %w", written, err)
	}
	items, err := parseItems(written, data)
	if err != nil {
		return nil, fmt.Errorf("refers to %q, which %w", written, err)
	}
	s.refs = append(s.refs, newFile(written, DataFile, data))
	return items, nil
}

func parseItems(path string, data []byte) ([]any, error) {
	if err := document.Check(data); err != nil {
		return nil, err
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".json":
		root, err := document.Parse(data, document.Options{JSON: true})
		if err != nil {
			return nil, err
		}
		if root.Kind != document.List {
			return nil, fmt.Errorf("is %s, not a list", root.Kind)
		}
		return itemsOf(root), nil
	case ".jsonl", ".ndjson":
		return parseLines(data)
	case ".csv":
		return parseTable(data)
	default:
		return nil, fmt.Errorf("has the extension %q, not .json, .jsonl, .ndjson or .csv", ext)
	}
}

// parseLines reads a JSON value from every line that is not blank.
func parseLines(data []byte) ([]any, error) {
	items, number := []any{}, 0
	for line := range bytes.Lines(data) {
		if number++; len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		root, err := document.Parse(bytes.TrimSpace(line), document.Options{JSON: true})
		if err != nil {
			return nil, fmt.Errorf("%w, in line %d of the file", err, number)
		}
		items = append(items, valueOf(root))
	}
	return items, nil
}

// parseTable reads the rows below the first, which names the columns.
func parseTable(data []byte) ([]any, error) {
	rows, items := csv.NewReader(bytes.NewReader(data)), []any{}
	names, err := rows.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("has no first row, which names the columns")
	case err != nil:
		return nil, fmt.Errorf("is no table: %w", err)
	}
	for i, name := range names {
		if strings.TrimSpace(name) == "" || slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("names column %d %q; give each a name of its own", i+1, name)
		}
	}
	for {
		row, err := rows.Read()
		switch {
		case errors.Is(err, io.EOF):
			return items, nil
		case err != nil:
			return nil, fmt.Errorf("is no table: %w", err)
		}
		item := make(Map[any], len(names))
		for i, name := range names {
			item[i] = Entry[any]{name, row[i]}
		}
		items = append(items, item)
	}
}
