package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// Input is standard input: a person's terminal, or a pipe or file.
type Input struct {
	*bufio.Reader
	file     *os.File // nil: it is none
	Terminal bool
}

// NewInput reads from a stream.
func NewInput(r io.Reader) *Input {
	file, _ := r.(*os.File)
	return &Input{Reader: bufio.NewReader(r), file: file, Terminal: isTerminal(r)}
}

// Piped reports that somebody may have put something into standard input: it is a
// pipe or a file, and not merely closed.
func (in *Input) Piped() bool {
	if in.file == nil {
		return true
	}
	info, err := in.file.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

// ReadLine returns the next line without its end. The last one needs no newline.
func (in *Input) ReadLine() (string, error) {
	text, err := in.ReadString('\n')
	if IsEOF(err) && text != "" {
		err = nil
	}
	return strings.TrimRight(text, "\r\n"), err
}

// readAll reads standard input to its end. A person's Ctrl-C ends the waiting.
func (in *Input) readAll(ctx context.Context) ([]byte, error) {
	data, err := WaitFor(ctx, func() ([]byte, error) { return io.ReadAll(in) })
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return data, nil
}

// WaitFor returns the result of reading, or the end of the context. A read that
// waits for a person cannot be interrupted: it is left behind and ends with
// the program.
func WaitFor[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := read()
		results <- result{value, err}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// ReadText returns an argument of the command line, or all of standard input where it is "-".
func (p *Console) ReadText(ctx context.Context, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	data, err := p.In.readAll(ctx)
	return strings.TrimRight(string(data), "\r\n"), err
}

// ReadFile returns the content of a file, or of standard input where the path is "-".
func (p *Console) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path == "-" {
		return p.In.readAll(ctx)
	}
	return os.ReadFile(path)
}

// Confirm asks a person, unless the command line has said yes. Without a
// terminal it must have.
func (p *Console) Confirm(ctx context.Context, yes bool, question string) error {
	switch {
	case yes:
		return nil
	case !p.In.Terminal:
		return &session.InvalidError{Field: "confirmation", Reason: "there is no terminal to ask at; give --yes"}
	}
	fmt.Fprintf(p.Err, "%s [y/N] ", Printable(question))
	answer, err := WaitFor(ctx, p.In.ReadLine)
	if ctx.Err() != nil {
		fmt.Fprintln(p.Err)
		return ErrDeclined
	}
	if err != nil && !IsEOF(err) {
		return fmt.Errorf("read answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return ErrDeclined
}

// IsEOF reports the end of the input.
func IsEOF(err error) bool { return errors.Is(err, io.EOF) }

// LineReader prints a prompt and reads what a person types.
type LineReader func(prompt string) (string, error)

// CanAsk reports that a person sits at a terminal.
func (p *Console) CanAsk() bool { return p.In.Terminal && p.Err.Terminal }

// ReadLine reads a line from standard input; the context ends the wait.
func (p *Console) ReadLine(ctx context.Context) LineReader {
	return func(prompt string) (string, error) {
		fmt.Fprint(p.Err, prompt)
		line, err := WaitFor(ctx, p.In.ReadLine)
		if err != nil {
			fmt.Fprintln(p.Err)
		}
		return line, err
	}
}
