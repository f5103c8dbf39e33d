package cli

import (
	"bufio"
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
	terminal bool
}

func newInput(r io.Reader) *input { return &input{Reader: bufio.NewReader(r), terminal: isTerminal(r)} }

// line is the next line without its end. The last one needs no newline.
func (in *input) line() (string, error) {
	text, err := in.ReadString('\n')
	if isEnd(err) && text != "" {
		err = nil
	}
	return strings.TrimRight(text, "\r\n"), err
}

// text is an argument of the command line, or all of standard input where it is "-".
func (p *program) text(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	data, err := io.ReadAll(p.in)
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// file is the content of a file, or of standard input where the path is "-".
func (p *program) file(path string) ([]byte, error) {
	if path == "-" {
		data, err := io.ReadAll(p.in)
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return data, nil
	}
	return os.ReadFile(path)
}

// confirm asks a person; where there is none to ask, yes must have been said
// on the command line.
func (p *program) confirm(question string) error {
	if !p.in.terminal {
		return &session.InvalidError{Field: "confirmation", Reason: "there is no terminal to ask at; say --yes"}
	}
	fmt.Fprintf(p.err, "%s [y/N] ", printable(question))
	answer, err := p.in.line()
	if err != nil && !isEnd(err) {
		return fmt.Errorf("read answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) }
