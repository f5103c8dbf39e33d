package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/term"

	"github.com/holdfast-dev/holdfast/session"
)

// screen is an output stream. On a terminal it has colours and a width.
type screen struct {
	w        io.Writer
	terminal bool
	colour   bool
	gone     bool  // nobody reads any more
	failed   error // the first that was met when writing
}

func newScreen(w io.Writer) *screen { return &screen{w: w, terminal: isTerminal(w)} }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Write writes, and says errReaderGone once the other end of a pipe is closed.
func (s *screen) Write(data []byte) (int, error) {
	if s.gone {
		return 0, errReaderGone
	}
	n, err := s.w.Write(data)
	if errors.Is(err, syscall.EPIPE) {
		s.gone = true
		return n, errReaderGone
	}
	if err != nil && s.failed == nil {
		s.failed = err
	}
	return n, err
}

// width returns the number of columns, 0 where lines may be of any length.
func (s *screen) width() int {
	if f, ok := s.w.(*os.File); ok && s.terminal {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			return w
		}
	}
	return 0
}

// colour is a way to set off text on a terminal.
type colour string

const (
	plain  colour = ""
	bold   colour = "1"
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	cyan   colour = "36"
)

func (s *screen) paint(c colour, text string) string {
	if !s.colour || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// print writes text that must arrive.
func (s *screen) print(text string) error {
	_, err := io.WriteString(s, text)
	return err
}

// status writes a line about what is going on, for people only.
func (s *screen) status(format string, args ...any) {
	fmt.Fprintf(s, "%s\n", s.paint(dim, printable(fmt.Sprintf(format, args...))))
}

// warn writes a line that people should see and that stops nothing.
func (s *screen) warn(format string, args ...any) {
	fmt.Fprintf(s, "%s %s\n", s.paint(yellow, "warning:"), printable(fmt.Sprintf(format, args...)))
}

// printJSON prints a value as the domain encodes it, one line each; on a
// terminal it is laid out for reading.
func (p *program) printJSON(v any) error {
	if !p.out.terminal {
		return p.printJSONLine(v)
	}
	raw, err := session.JSON(v)
	if err != nil {
		return err
	}
	return p.out.print(indented(raw) + "\n")
}

// printJSONLine prints a value on one line, also on a terminal.
func (p *program) printJSONLine(v any) error {
	raw, err := session.JSON(v)
	if err != nil {
		return err
	}
	return p.out.print(string(raw) + "\n")
}

// printResult prints a value with --json, else a line about it.
func (p *program) printResult(v any, format string, args ...any) error {
	if p.json {
		return p.printJSON(v)
	}
	return p.out.print(fmt.Sprintf(format, args...) + "\n")
}

// printable returns text that cannot drive a terminal: control characters other
// than newlines and tabs are shown as U+FFFD.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control)) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// oneLine returns text for a place that has one line only.
func oneLine(text string) string { return printable(strings.Join(strings.Fields(text), " ")) }

// countOf returns a number with its noun.
func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
