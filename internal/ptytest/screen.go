// Package ptytest has terminals for tests: one of the system, and one that
// shows what was written to it.
package ptytest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// Cell is one place of a screen: a character, empty for the second half of a
// wide one, and the numbers of the sequence that gave it its colour.
type Cell struct{ Text, Style string }

// Screen is what a terminal shows, as far as our programs use its language:
// text with characters of any width, line ends, the cursor, clearing, colours and
// scrolling. It is safe for concurrent use.
type Screen struct {
	mu      sync.Mutex // guards the rest
	columns int
	height  int // 0: it never scrolls
	cooked  bool
	lines   [][]Cell
	style   string
	x, y    int
	rest    []byte // the beginning of something
	unknown []string
	changed chan struct{} // closed and replaced when something is written
}

// NewScreen returns an empty screen.
func NewScreen(columns, height int) *Screen {
	return &Screen{columns: columns, height: height, lines: [][]Cell{nil}, changed: make(chan struct{})}
}

// Shown returns the lines of a screen without end after it was written to. Line
// ends also return to the first column, as between raw reads.
func Shown(t *testing.T, written string, columns int) []string {
	t.Helper()
	s := NewScreen(columns, 0)
	s.cooked = true
	_, _ = s.Write([]byte(written)) // it takes everything
	if len(s.unknown) > 0 {
		t.Fatalf("not understood: %q", s.unknown)
	}
	return strings.Split(s.text(), "\n")
}

// Write shows text.
func (s *Screen) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, data...)
	for len(s.rest) > 0 {
		n := s.take(s.rest)
		if n == 0 {
			break
		}
		s.rest = s.rest[n:]
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return len(data), nil
}

// take shows the first thing and returns its length, 0 where it is not whole.
func (s *Screen) take(data []byte) int {
	switch data[0] {
	case '\r':
		s.x = 0
		return 1
	case '\n':
		if s.cooked {
			s.x = 0
		}
		s.down()
		return 1
	case '\t':
		s.x = min(s.x/8*8+8, s.columns-1)
		return 1
	case 0x1b:
		return s.sequence(data)
	}
	if !utf8.FullRune(data) {
		return 0
	}
	r, n := utf8.DecodeRune(data)
	s.put(string(r), runewidth.RuneWidth(r))
	return n
}

// put writes a character. One without a width belongs to the one before.
func (s *Screen) put(character string, width int) {
	if width == 0 {
		if at := s.x - 1; at >= 0 && at < len(s.lines[s.y]) {
			for at > 0 && s.lines[s.y][at].Text == "" {
				at--
			}
			s.lines[s.y][at].Text += character
		}
		return
	}
	if s.x+width > s.columns {
		s.x = 0
		s.down()
	}
	for len(s.lines[s.y]) < s.x+width {
		s.lines[s.y] = append(s.lines[s.y], Cell{Text: " "})
	}
	s.lines[s.y][s.x] = Cell{character, s.style}
	for i := 1; i < width; i++ {
		s.lines[s.y][s.x+i] = Cell{}
	}
	s.x += width
}

func (s *Screen) down() {
	if s.y++; s.y == len(s.lines) {
		s.lines = append(s.lines, nil)
	}
	if s.height > 0 && len(s.lines) > s.height {
		s.lines, s.y = s.lines[1:], s.y-1
	}
}

func (s *Screen) sequence(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	end := 2
	for end < len(data) && (data[end] < 0x40 || data[end] > 0x7e) {
		end++
	}
	if end == len(data) {
		return 0
	}
	text := string(data[2:end])
	n, _ := strconv.Atoi(text)
	switch {
	case data[1] != '[':
		s.unknown = append(s.unknown, string(data[:end+1]))
	case data[end] == 'm':
		s.style = strings.TrimPrefix(text, "0")
	case text == "?2004" || text == "?25":
	case data[end] == 'A':
		if s.y -= max(n, 1); s.y < 0 {
			s.unknown = append(s.unknown, fmt.Sprintf("up %d lines, over the top", n))
			s.y = 0
		}
	case data[end] == 'C':
		s.x = min(s.x+max(n, 1), s.columns-1)
	case data[end] == 'K' && n == 0:
		s.lines[s.y] = s.lines[s.y][:min(s.x, len(s.lines[s.y]))]
	case data[end] == 'J' && n == 0:
		s.lines[s.y] = s.lines[s.y][:min(s.x, len(s.lines[s.y]))]
		s.lines = s.lines[:s.y+1]
	case data[end] == 'J' && n == 2:
		s.lines = [][]Cell{nil}
		s.x, s.y = 0, 0
	case data[end] == 'H' && text == "":
		s.x, s.y = 0, 0
	default:
		s.unknown = append(s.unknown, string(data[:end+1]))
	}
	return end + 1
}

// Resize gives the screen another width. Lines that are too long are broken, as
// most terminals do.
func (s *Screen) Resize(columns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.columns = columns
	var lines [][]Cell
	x, y := s.x, 0
	for i, line := range s.lines {
		if i == s.y {
			y = len(lines) + s.x/columns
			x = s.x % columns
		}
		for len(line) > columns {
			lines = append(lines, line[:columns:columns])
			line = line[columns:]
		}
		lines = append(lines, line)
	}
	for y >= len(lines) {
		lines = append(lines, nil)
	}
	s.lines, s.x, s.y = lines, x, y
	if over := len(lines) - s.height; s.height > 0 && over > 0 {
		s.lines, s.y = lines[over:], y-over
	}
}

// text returns the lines without spaces at their ends.
func (s *Screen) text() string {
	lines := make([]string, len(s.lines))
	for i, line := range s.lines {
		var text strings.Builder
		for _, c := range line {
			text.WriteString(c.Text)
		}
		lines[i] = strings.TrimRight(text.String(), " ")
	}
	return strings.Join(lines, "\n")
}

// Text returns what is shown, without spaces at the ends of lines.
func (s *Screen) Text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text()
}

// Lines returns what is shown, with its colours.
func (s *Screen) Lines() [][]Cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := make([][]Cell, len(s.lines))
	for i, line := range s.lines {
		lines[i] = slices.Clone(line)
	}
	return lines
}

// Clear makes the screen empty.
func (s *Screen) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines, s.x, s.y = [][]Cell{nil}, 0, 0
}

// WaitUntil waits until what is shown is as it should be; what the screen shows
// goes through a function first. The cursor is shown as a bar.
func (s *Screen) WaitUntil(t *testing.T, want string, through func(string) string) {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		s.mu.Lock()
		got, changed, unknown := through(s.withCursor()), s.changed, s.unknown
		s.mu.Unlock()
		switch {
		case len(unknown) > 0:
			t.Fatalf("not understood: %q", unknown)
		case got == want:
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the screen shows\n%s\nwant\n%s", got, want)
		}
	}
}

func (s *Screen) withCursor() string {
	line := s.lines[s.y]
	defer func() { s.lines[s.y] = line }()
	marked := slices.Clone(line)
	for len(marked) < s.x {
		marked = append(marked, Cell{Text: " "})
	}
	s.lines[s.y] = slices.Insert(marked, s.x, Cell{Text: "▏"})
	return s.text()
}

// WaitFor waits until a text is shown and returns all that is shown then.
func (s *Screen) WaitFor(t *testing.T, text string, through func(string) string) string {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		s.mu.Lock()
		got, changed := through(s.withCursor()), s.changed
		s.mu.Unlock()
		if strings.Contains(got, text) {
			return got
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the screen shows\n%s\nand never %q", got, text)
		}
	}
}
