package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"unicode"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"github.com/holdfast-dev/holdfast/session"
)

// Screen is an output stream. On a terminal it has colours and a width.
type Screen struct {
	w        io.Writer
	Terminal bool
	Colour   bool
	Gone     bool  // nobody reads any more
	Failed   error // the first that was met when writing

	composer atomic.Pointer[Composer] // draws below what is written; nil: nobody does
	canvas   atomic.Pointer[Canvas]   // is drawn again and again; nil: none
}

// NewScreen writes to a stream.
func NewScreen(w io.Writer) *Screen { return &Screen{w: w, Terminal: isTerminal(w)} }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Write writes, and says ErrReaderGone once the other end of a pipe is closed.
func (s *Screen) Write(data []byte) (int, error) {
	if c := s.composer.Load(); c != nil {
		return c.write(s, data)
	}
	return s.write(data)
}

// writeNow writes what drives the terminal, past whoever draws below. A terminal
// that is gone is met by the next read.
func (s *Screen) writeNow(text string) { _, _ = s.write([]byte(text)) }

func (s *Screen) write(data []byte) (int, error) {
	if s.Gone {
		return 0, ErrReaderGone
	}
	n, err := s.w.Write(data)
	if errors.Is(err, syscall.EPIPE) {
		s.Gone = true
		return n, ErrReaderGone
	}
	if err != nil && s.Failed == nil {
		s.Failed = err
	}
	return n, err
}

// Width returns the number of columns, 0 where lines may be of any length.
func (s *Screen) Width() int {
	if f, ok := s.w.(*os.File); ok && s.Terminal {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			return w
		}
	}
	return 0
}

// Colour is a way to set off text on a terminal.
type Colour string

// The colours of the program.
const (
	Plain  Colour = ""
	Bold   Colour = "1"
	Dim    Colour = "2"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
)

// Paint returns text in a colour, where the screen has colours.
func (s *Screen) Paint(c Colour, text string) string {
	if !s.Colour || c == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Print writes text that must arrive.
func (s *Screen) Print(text string) error {
	_, err := io.WriteString(s, text)
	return err
}

// Status writes a line about what is going on, for people only. On a terminal it
// is broken between words, unless it has a command, which somebody may copy.
func (s *Screen) Status(format string, args ...any) {
	text := Printable(fmt.Sprintf(format, args...))
	if width := s.Width(); width > 0 && !strings.Contains(text, "holdfast ") {
		var w Wrapper
		text = strings.ReplaceAll(w.Write(text, width)+w.End(width), string(SoftBreak), "\n")
	}
	fmt.Fprintf(s, "%s\n", s.Paint(Dim, text))
}

// Notice is Status for who knows nothing of a drawing that may be on the screen:
// it is written above that.
func (s *Screen) Notice(format string, args ...any) {
	if c := s.canvas.Load(); c != nil {
		c.Aside(func() { s.Status(format, args...) })
		return
	}
	s.Status(format, args...)
}

// Warn writes a line that people should see and that stops nothing.
func (s *Screen) Warn(format string, args ...any) {
	fmt.Fprintf(s, "%s %s\n", s.Paint(Yellow, "warning:"), Printable(fmt.Sprintf(format, args...)))
}

// PrintJSON prints a value as the domain encodes it, one line each; on a
// terminal it is laid out for reading.
func (p *Console) PrintJSON(v any) error {
	if !p.Out.Terminal {
		return p.PrintJSONLine(v)
	}
	raw, err := session.JSON(v)
	if err != nil {
		return err
	}
	return p.Out.Print(indented(raw) + "\n")
}

// PrintJSONLine prints a value on one line, also on a terminal.
func (p *Console) PrintJSONLine(v any) error {
	raw, err := session.JSON(v)
	if err != nil {
		return err
	}
	return p.Out.Print(string(raw) + "\n")
}

// PrintResult prints a value with --json, else a line about it.
func (p *Console) PrintResult(v any, format string, args ...any) error {
	if p.JSON {
		return p.PrintJSON(v)
	}
	return p.Out.Print(fmt.Sprintf(format, args...) + "\n")
}

// Printable returns text that cannot drive a terminal: control characters other
// than newlines and tabs are shown as U+FFFD.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control)) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// OneLine returns text for a place that has one line only.
func OneLine(text string) string { return Printable(strings.Join(strings.Fields(text), " ")) }

// CountOf returns a number with its noun.
func CountOf(n int, noun string) string {
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

// Cut returns text that is no wider than some columns.
func Cut(text string, columns int) string {
	if columns <= 0 {
		return ""
	}
	return runewidth.Truncate(text, columns, "…")
}

// Fill returns text in a column of some width, cut or filled with spaces.
func Fill(text string, width int) string {
	return runewidth.FillRight(Cut(text, width), width)
}

// Warn warns a person; a program that reads JSON is not spoken to.
func (p *Console) Warn(format string, args ...any) {
	if !p.JSON {
		p.Err.Warn(format, args...)
	}
}

// WarnEarly warns before there is anything to show.
func (p *Console) WarnEarly(format string, args ...any) {
	if !p.JSON {
		p.Err.Warn(format, args...)
		return
	}
	p.ErrJSON(map[string]string{"warning": fmt.Sprintf(format, args...)})
}

// ErrJSON prints a line of JSON beside the result.
func (p *Console) ErrJSON(v any) {
	if raw, err := session.JSON(v); err == nil {
		fmt.Fprintf(p.Err, "%s\n", raw)
	}
}

// Shortened returns text on one line, cut where it is long.
func Shortened(text string, most int) string {
	text = OneLine(text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// ForOutput returns text as standard output gets it: as it is, unless it is a terminal.
func (p *Console) ForOutput(text string) string {
	if p.Out.Terminal {
		return Printable(text)
	}
	return text
}

// size is the number of columns and lines of a terminal.
func (s *Screen) size() (columns, lines int) {
	columns, lines = DefaultWidth, 24
	if f, ok := s.w.(*os.File); ok && s.Terminal {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return columns, lines
}
