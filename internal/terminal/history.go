package terminal

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// maxHistory is how many lines are brought back.
const maxHistory = 1000

// History is what a person typed in chats, the newest last, and across
// restarts where there is a file for it.
type History struct {
	file  *os.File // nil: only this program knows
	lines []string
}

// OpenHistory reads the lines that were typed before. What cannot be read or
// kept is forgotten: a chat does not depend on it.
func OpenHistory(path string) *History {
	h := &History{}
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return h
	}
	data, _ := os.ReadFile(path) // there may be none yet
	for raw := range bytes.Lines(data) {
		if line, err := strconv.Unquote(string(bytes.TrimSpace(raw))); err == nil {
			h.remember(line)
		}
	}
	if bytes.Count(data, []byte("\n")) > 2*maxHistory {
		h.shorten(path)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		h.file = file
	}
	return h
}

// shorten leaves in the file what is remembered. What another program adds at
// the same moment may be lost.
func (h *History) shorten(path string) {
	var b bytes.Buffer
	for _, line := range h.lines {
		b.Write(encodeLine(line))
	}
	_ = os.WriteFile(path, b.Bytes(), 0o600) // it stays long
}

func encodeLine(line string) []byte { return append(strconv.AppendQuote(nil, line), '\n') }

func (h *History) remember(line string) {
	if h.lines = append(h.lines, line); len(h.lines) > maxHistory {
		h.lines = h.lines[1:]
	}
}

// Add keeps a line that was typed, unless it repeats the one before.
func (h *History) Add(line string) {
	if line == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.remember(line)
	if h.file != nil {
		_, _ = h.file.Write(encodeLine(line)) // one write: lines of two programs do not mix
	}
}

// Len counts the lines.
func (h *History) Len() int { return len(h.lines) }

// At returns a line, 0 the newest.
func (h *History) At(i int) string { return h.lines[len(h.lines)-1-i] }

func (h *History) close() {
	if h.file != nil {
		_ = h.file.Close()
	}
}
