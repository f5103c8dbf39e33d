package template

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kind says what sort of mistake an Error reports.
type Kind string

// The kinds of mistake.
const (
	// KindSyntax is text that is not a template of this subset: found by
	// Compile and CompileCondition, before anything is rendered.
	KindSyntax Kind = "syntax"
	// KindUndefined is the use of a name, key or index that is not there.
	KindUndefined Kind = "undefined"
	// KindValue is an operation its values do not allow: 1 + 'a', 1 / 0.
	KindValue Kind = "value"
	// KindLimit is work beyond what one rendering may take.
	KindLimit Kind = "limit"
)

// Error is every failure of this package: what is wrong and where. Line and
// Column count from 1, the column in code points; both belong to the text
// with its line ends made LF.
type Error struct {
	Name   string // the name given to Compile
	Line   int
	Column int
	Kind   Kind
	Reason string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Reason)
}

// failf makes an Error that does not know its place yet.
func failf(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

func valueErrorf(format string, args ...any) error { return failf(KindValue, format, args...) }

// source is a text under its name, to turn offsets into lines and columns.
type source struct {
	name string
	text string
}

// place gives err the position offset, unless it already has one.
func (s source) place(err error, offset int) error {
	var e *Error
	if !errors.As(err, &e) || e.Line != 0 {
		return err
	}
	before := s.text[:min(offset, len(s.text))]
	placed := *e
	placed.Name = s.name
	placed.Line = 1 + strings.Count(before, "\n")
	placed.Column = 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return &placed
}
