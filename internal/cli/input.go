package cli

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

// input is standard input: a person's terminal, or a pipe or file.
type input struct {
	*bufio.Reader
	file     *os.File // nil: it is none
	terminal bool
}

func newInput(r io.Reader) *input {
	file, _ := r.(*os.File)
	return &input{Reader: bufio.NewReader(r), file: file, terminal: isTerminal(r)}
}

// piped reports that somebody may have put something into standard input: it is a
// pipe or a file, and not merely closed.
func (in *input) piped() bool {
	if in.file == nil {
		return true
	}
	info, err := in.file.Stat()
	return err == nil && (info.Mode().IsRegular() || info.Mode()&os.ModeNamedPipe != 0)
}

// readLine returns the next line without its end. The last one needs no newline.
func (in *input) readLine() (string, error) {
	text, err := in.ReadString('\n')
	if isEOF(err) && text != "" {
		err = nil
	}
	return strings.TrimRight(text, "\r\n"), err
}

// readAll reads standard input to its end. A person's Ctrl-C ends the waiting.
func (in *input) readAll(ctx context.Context) ([]byte, error) {
	data, err := waitFor(ctx, func() ([]byte, error) { return io.ReadAll(in) })
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	return data, nil
}

// waitFor returns the result of reading, or the end of the context. A read that
// waits for a person cannot be interrupted: it is left behind and ends with
// the program.
func waitFor[T any](ctx context.Context, read func() (T, error)) (T, error) {
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

// readText returns an argument of the command line, or all of standard input where it is "-".
func (p *program) readText(ctx context.Context, arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	data, err := p.in.readAll(ctx)
	return strings.TrimRight(string(data), "\r\n"), err
}

// readFile returns the content of a file, or of standard input where the path is "-".
func (p *program) readFile(ctx context.Context, path string) ([]byte, error) {
	if path == "-" {
		return p.in.readAll(ctx)
	}
	return os.ReadFile(path)
}

// confirm asks a person, unless the command line has said yes. Without a
// terminal it must have.
func (p *program) confirm(ctx context.Context, yes bool, question string) error {
	switch {
	case yes:
		return nil
	case !p.in.terminal:
		return &session.InvalidError{Field: "confirmation", Reason: "there is no terminal to ask at; give --yes"}
	}
	fmt.Fprintf(p.err, "%s [y/N] ", printable(question))
	answer, err := waitFor(ctx, p.in.readLine)
	if ctx.Err() != nil {
		fmt.Fprintln(p.err)
		return errDeclined
	}
	if err != nil && !isEOF(err) {
		return fmt.Errorf("read answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }
