package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Editor reads what a person types at a terminal, a line or several: Enter
// sends, Alt-Enter and a backslash at the end begin another line. The arrow keys and the usual
// control keys edit, up and down bring earlier messages back, also those of
// earlier chats, Ctrl-R searches them, Tab completes commands and file names,
// and what is pasted is kept as it is. The terminal is in raw mode only while
// something is read.
type Editor struct {
	in       *Input
	out      *Screen
	screens  []*Screen // all that are this terminal
	keys     *keyboard
	History  *History
	commands []string          // that Tab completes
	pressed  <-chan keyOrError // nil: no key is waited for

	mu     sync.Mutex
	before *term.State // guarded by mu; nil: the terminal is as it was found
	closed bool        // guarded by mu
}

type keyOrError struct {
	key key
	err error
}

// NewEditor returns nil where lines cannot be edited: in a pipe, or at a terminal that
// cannot move its cursor.
func (p *Console) NewEditor(commands []string) *Editor {
	if !p.In.Terminal || !p.Out.Terminal || p.In.file == nil || p.Getenv("TERM") == "dumb" {
		return nil
	}
	screens := []*Screen{p.Out}
	if p.Err.Terminal {
		screens = append(screens, p.Err)
	}
	return &Editor{in: p.In, out: p.Out, screens: screens, keys: &keyboard{from: p.In}, History: &History{}, commands: commands}
}

// Message reads what a person says to the agent, which can be brought back
// later. The text is there to be edited.
func (e *Editor) Message(prompt, text string) (string, error) {
	return e.read(prompt, text, e.History)
}

// Response reads what a person says about something else.
func (e *Editor) Response(prompt string) (string, error) { return e.read(prompt, "", &History{}) }

// Show leaves a message on the screen as if it had been typed at the prompt.
func (e *Editor) Show(prompt, text string) {
	d := &draft{out: e.out, prompt: prompt}
	d.line.set(text)
	d.draw()
	d.leave("")
}

// read returns what a person types at the prompt. Ctrl-C drops what was typed; with
// nothing typed it ends the input, as Ctrl-D does: io.EOF.
func (e *Editor) read(prompt, text string, history *History) (string, error) {
	if err := e.open(); err != nil {
		return "", err
	}
	defer e.restore()
	resized, stop := notifyResize()
	defer stop()
	d := &draft{out: e.out, prompt: prompt, history: history, commands: e.commands, recalled: -1}
	d.line.set(text)
	d.draw()
	for {
		if e.pressed == nil {
			e.pressed = e.waitForKey()
		}
		select {
		case <-resized:
			d.resize()
		case pressed := <-e.pressed:
			e.pressed = nil
			if IsEOF(pressed.err) {
				return "", io.EOF
			}
			if pressed.err != nil {
				return "", fmt.Errorf("read terminal: %w", pressed.err)
			}
			switch d.press(pressed.key) {
			case draftSent:
				text := strings.TrimRight(d.line.text(), "\n")
				history.Add(text)
				return text, nil
			case draftEnded:
				return "", io.EOF
			}
		}
	}
}

// waitForKey reads a key beside the drawing. A read that waits for a person
// cannot be interrupted: it is left behind and ends with the program.
func (e *Editor) waitForKey() <-chan keyOrError {
	pressed := make(chan keyOrError, 1)
	go func() {
		k, err := e.keys.next()
		pressed <- keyOrError{k, err}
	}()
	return pressed
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
	e.out.writeNow(pasteOn)
	return nil
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
	e.out.writeNow(pasteOff)
	_ = term.Restore(int(e.in.file.Fd()), e.before)
	e.before = nil
}
