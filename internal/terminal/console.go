// Package terminal draws at a terminal and reads from it: streams, colours,
// tables, progress, a line editor, wrapped Markdown and signals. It knows no
// command and no session; what it shows, others give it.
package terminal

import (
	"errors"
)

// Console is where a command reads and writes: its streams, and what decides
// how they look.
type Console struct {
	In         *Input
	Out, Err   *Screen
	JSON       bool // results and errors are JSON
	Getenv     func(string) string
	Interrupts *Interrupts
	Redactor   *Redactor
}

var (
	// ErrDeclined is a question that a person did not answer with yes.
	ErrDeclined = errors.New("nothing was done: not confirmed")
	// ErrReaderGone is a closed pipe: nobody reads the output any more.
	ErrReaderGone = errors.New("the reader of the output is gone")
)
