package terminal

import (
	"fmt"
	"io"
	"sync"

	"golang.org/x/term"
)

// Editor reads lines from a person's terminal: arrow keys and the usual control
// keys edit the line, up and down bring earlier ones back, also those of earlier
// chats, Tab completes commands and file names, and what is pasted is one piece
// of text. The terminal is in raw mode only while a line is read.
type Editor struct {
	in       *Input
	out      *Screen
	keys     *keyboard
	History  *History
	commands []string // that Tab completes

	mu     sync.Mutex
	before *term.State // guarded by mu; nil: the terminal is as it was found
	closed bool        // guarded by mu
}

// NewEditor returns nil where lines cannot be edited: in a pipe, or at a terminal that
// cannot move its cursor.
func (p *Console) NewEditor(commands []string) *Editor {
	if !p.In.Terminal || !p.Out.Terminal || p.In.file == nil || p.Getenv("TERM") == "dumb" {
		return nil
	}
	return &Editor{in: p.In, out: p.Out, keys: &keyboard{from: p.In, to: p.Out}, History: &History{}, commands: commands}
}

// Message reads what a person says to the agent, which can be brought back later.
func (e *Editor) Message(prompt string) (string, error) { return e.line(prompt, e.History) }

// Response reads what a person says about something else.
func (e *Editor) Response(prompt string) (string, error) { return e.line(prompt, &History{}) }

// line returns what a person types at the prompt. Ctrl-C drops what was typed; with
// nothing typed it ends the input, as Ctrl-D does: io.EOF.
func (e *Editor) line(prompt string, history *History) (string, error) {
	if err := e.open(); err != nil {
		return "", err
	}
	defer e.restore()
	for {
		e.keys.begin()
		// A Terminal that has seen Ctrl-C reports it for ever.
		t := term.NewTerminal(e.keys, prompt)
		t.History, t.AutoCompleteCallback = history, e.completeAtTab
		if columns := e.out.Width(); columns > 0 {
			if err := t.SetSize(columns, 24); err != nil {
				return "", fmt.Errorf("size terminal: %w", err)
			}
		}
		text, err := t.ReadLine()
		switch {
		case err == nil:
			return cleanLine(text), nil
		case !IsEOF(err):
			return "", fmt.Errorf("read terminal: %w", err)
		case !e.keys.broken || !e.keys.touched:
			return "", io.EOF
		}
		if err := e.out.Print("^C\r\n"); err != nil {
			return "", err
		}
	}
}

// completeAtTab completes the word before the cursor.
func (e *Editor) completeAtTab(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	more := completeLine(line[:pos], e.commands)
	return line[:pos] + more + line[pos:], pos + len(more), true
}

func (e *Editor) open() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return io.EOF
	}
	before, err := term.MakeRaw(int(e.in.file.Fd()))
	if err != nil {
		return fmt.Errorf("set terminal: %w", err)
	}
	e.before = before
	return e.out.Print(pasteOn)
}

// Close ends the reading. It may be called while a line is read that nobody
// waits for any more, and more than once.
func (e *Editor) Close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	if !e.closed {
		e.History.close()
	}
	e.closed = true
	e.mu.Unlock()
	e.restore()
}

// restore makes the terminal what it was. What cannot be restored is left: the
// terminal is gone then.
func (e *Editor) restore() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.before == nil {
		return
	}
	_ = e.out.Print(pasteOff)
	_ = term.Restore(int(e.in.file.Fd()), e.before)
	e.before = nil
}
