// Package document reads YAML 1.2 and JSON files strictly: definitions,
// workflow specs, configuration. Parse makes a tree in which every value knows
// its line; a Reader fills a Go value from the tree and reports everything
// wrong with it at once. The package knows nothing of what the files are about.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

const (
	// MaxSize is the most bytes a file may have.
	MaxSize = 10 << 20
	// maxTokens bounds the YAML parser to a second or two: its time grows with
	// the square of a map's keys and of the nesting. A block of text is one
	// token, however long it is.
	maxTokens = 40_000
	// maxNodes bounds what aliases may expand to.
	maxNodes = 100_000
	maxDepth = 64
	// maxKey bounds a key, and so the paths in which it is repeated.
	maxKey = 4096
)

// ErrTooLarge is the error for a file of more than MaxSize bytes.
var ErrTooLarge = fmt.Errorf("is larger than %d MiB", MaxSize>>20)

// Options say how to read a document. The zero value reads YAML.
type Options struct {
	JSON bool
	// File is named in problems beside the line; empty for the main document.
	File string
	// PlainNumbers takes only numbers written as JSON writes them, of any length
	// that a 64-bit float does not overflow, and keeps their text. Without it
	// numbers are those of YAML 1.2, octal and hexadecimal too, in 64 bits.
	PlainNumbers bool
}

// ReadFile reads a regular file. One of more than MaxSize bytes is ErrTooLarge.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // before opening: opening a pipe would wait for a writer
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		return nil, ErrTooLarge
	}
	return data, err
}

// Parse reads the one document of a file. The text of an error continues a
// sentence about the file ("is empty") and shows no part of it: it may hold a
// secret. Keys that are there twice are no error here: Reader.Root reports them.
func Parse(data []byte, o Options) (*Node, error) {
	if err := Check(data); err != nil {
		return nil, err
	}
	doc := strings.TrimPrefix(string(data), "\ufeff")
	b := &builder{Options: o}
	if o.JSON {
		return b.parseJSON([]byte(doc))
	}
	return b.parseYAML(doc)
}

// Check refuses data that is too large or is no text.
func Check(data []byte) error {
	switch {
	case len(data) > MaxSize:
		return ErrTooLarge
	case !utf8.Valid(data):
		return errors.New("is not valid UTF-8")
	case bytes.IndexByte(data, 0) >= 0:
		return errors.New("has a NUL character")
	}
	return nil
}

// builder makes the nodes of both formats and counts them.
type builder struct {
	Options
	nodes int
}

func (b *builder) node(depth, line, column int) (*Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nests deeper than %d levels", maxDepth)
	}
	return &Node{File: b.File, Line: line, Column: column}, b.count(1)
}

func (b *builder) count(nodes int) error {
	if b.nodes += nodes; b.nodes > maxNodes {
		return fmt.Errorf("has more than %d values once its aliases are written out", maxNodes)
	}
	return nil
}

// addEntry keeps the first value of a key and sets the others apart.
func (b *builder) addEntry(n *Node, e Entry, seen map[string]bool) error {
	if len(e.Key) > maxKey {
		return fmt.Errorf("has a key of more than %d bytes%s", maxKey, place(b.File, e.Line))
	}
	if seen[e.Key] {
		n.repeats = append(n.repeats, e)
	} else {
		seen[e.Key] = true
		n.Entries = append(n.Entries, e)
	}
	n.hasRepeats = n.repeats != nil || n.hasRepeats || e.Value.hasRepeats
	return nil
}

func (n *Node) addItem(item *Node) {
	n.Items = append(n.Items, item)
	n.hasRepeats = n.hasRepeats || item.hasRepeats
}
