package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/mattn/go-runewidth"
)

// Typed is what a person typed while something else was shown.
type Typed struct {
	Queued []string // messages that were sent with Enter, the first one first
	Text   string   // not sent yet
	Ended  bool     // Ctrl-D was pressed: nothing more comes
}

// PutBack makes what is queued part of the text that can be edited: whoever
// typed it decides again whether it is sent.
func (t *Typed) PutBack() {
	if len(t.Queued) == 0 {
		return
	}
	all := t.Queued
	if t.Text != "" {
		all = append(all, t.Text)
	}
	t.Queued, t.Text = nil, strings.Join(all, "\n")
}

// Composer lets a person type while an answer is shown. What is typed stands
// below what others write to the screens, and Enter adds it to the queue. With
// nothing typed it draws nothing.
type Composer struct {
	editor    *Editor
	typed     *Typed // read when the reading begins, and written when it ends
	interrupt func()
	stop      chan struct{}
	done      chan struct{} // closed when no key is read any more

	mu      sync.Mutex // guards the rest, and the order of what is written
	draft   *draft
	queued  []string
	ended   bool
	drawn   bool // the draft is on the screen, below the output
	off     bool // the screens belong to others again
	column  int  // at which the output stands
	wrapped bool // the output filled its line: the draft began where it goes on
}

// Compose begins to read beside the output, with what was typed before. Ctrl-C
// ends the reading and calls interrupt. The caller stops it.
func (e *Editor) Compose(prompt string, typed *Typed, interrupt func()) *Composer {
	c := &Composer{editor: e, typed: typed, interrupt: interrupt, stop: make(chan struct{}), done: make(chan struct{})}
	if e == nil || typed.Ended || e.open() != nil { // without it the terminal keeps the lines
		c.off = true
		close(c.done)
		return c
	}
	c.queued = typed.Queued
	c.draft = &draft{out: e.out, prompt: prompt, history: e.History, commands: e.commands, recalled: -1, hidden: true}
	c.draft.line.set(typed.Text)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range e.screens {
		s.composer.Store(c)
	}
	e.out.writeNow(c.show())
	go c.read()
	return c
}

// Stop ends the reading, takes what was typed off the screen and keeps it.
func (c *Composer) Stop() {
	select {
	case <-c.stop:
		return
	default:
	}
	close(c.stop)
	<-c.done
	c.leave("")
}

// read takes keys until it is stopped or interrupted.
func (c *Composer) read() {
	defer close(c.done)
	resized, stop := notifyResize()
	defer stop()
	e := c.editor
	for {
		if e.pressed == nil {
			e.pressed = e.waitForKey()
		}
		select {
		case <-c.stop:
			return
		case <-resized:
			c.resize()
		case pressed := <-e.pressed:
			e.pressed = nil
			switch {
			case pressed.err != nil: // whoever reads next meets it too
				return
			case pressed.key.name == keyInterrupt && !c.draft.searching:
				c.leave("^C")
				c.interrupt()
				return
			}
			c.press(pressed.key)
		}
	}
}

// press takes a key and shows what comes of it.
func (c *Composer) press(k key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	erased := c.hide()
	if k.name != keyClear { // the output is not ours to clear
		switch c.draft.press(k) {
		case draftSent:
			if text := strings.TrimRight(c.draft.line.text(), "\n"); strings.TrimSpace(text) != "" {
				c.draft.history.Add(text)
				c.queued = append(c.queued, text)
			}
			c.draft.line, c.draft.recalled = line{}, -1
		case draftEnded:
			c.ended = true
		}
	}
	c.editor.out.writeNow(erased + c.show())
}

// resize draws for another size. The terminal has broken the line of the output
// too, if that is too long now.
func (c *Composer) resize() {
	c.mu.Lock()
	defer c.mu.Unlock()
	columns, _ := c.editor.out.size()
	c.draft.row = c.draft.rowsAbove(columns)
	if c.column > columns {
		c.column %= columns
	}
	c.editor.out.writeNow(c.hide() + c.show())
}

// write writes the output of others above the draft, in one write.
func (c *Composer) write(to *Screen, data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off || len(data) == 0 {
		return to.write(data)
	}
	var b strings.Builder
	b.WriteString(c.hide())
	rest := data
	if c.wrapped {
		switch data[0] {
		case '\n':
			rest = data[1:] // the line has ended already
		case '\r':
			b.WriteString("\x1b[A")
		}
		c.wrapped = false
	}
	b.Write(bytes.ReplaceAll(rest, []byte("\n"), []byte("\r\n"))) // a raw terminal only moves down
	c.advance(string(rest))
	b.WriteString(c.show())
	if _, err := to.write([]byte(b.String())); err != nil {
		return 0, err
	}
	return len(data), nil
}

// hide returns what takes the draft off the screen and moves to where the
// output goes on.
func (c *Composer) hide() string {
	if !c.drawn {
		return ""
	}
	var b strings.Builder
	c.draft.toTop(&b)
	b.WriteString("\x1b[J")
	c.draft.rows, c.draft.row, c.draft.column, c.drawn = nil, 0, 0, false
	switch columns, _ := c.editor.out.size(); {
	case c.column >= columns:
		c.column, c.wrapped = 0, true
	case c.column > 0:
		fmt.Fprintf(&b, "\x1b[A\x1b[%dC", c.column)
	}
	return b.String()
}

// show returns the drawing of what was typed, below the output.
func (c *Composer) show() string {
	if len(c.draft.line.characters) == 0 && len(c.queued) == 0 && !c.ended && !c.draft.searching {
		return ""
	}
	c.draft.above = nil
	for _, text := range c.queued {
		c.draft.above = append(c.draft.above, "next: "+OneLine(text))
	}
	if c.ended {
		c.draft.above = append(c.draft.above, "next: leave")
	}
	c.drawn = true
	if c.column > 0 {
		return "\r\n" + c.draft.drawing()
	}
	return c.draft.drawing()
}

// advance follows the output to the column at which it stands.
func (c *Composer) advance(text string) {
	columns, _ := c.editor.out.size()
	for text != "" {
		if sequence, found := strings.CutPrefix(text, "\x1b["); found { // of colours, or clearing to the end of the line
			end := strings.IndexFunc(sequence, func(r rune) bool { return r >= 0x40 && r <= 0x7e })
			text = sequence[end+1:]
			continue
		}
		character := splitFirst(text)
		text = text[len(character):]
		switch character {
		case "\n", "\r", "\r\n":
			c.column = 0
		case "\t":
			c.column = min(c.column/8*8+8, columns-1)
		default:
			wide := runewidth.StringWidth(character)
			if c.column+wide > columns {
				c.column = 0
			}
			c.column += wide
		}
	}
}

// leave takes the draft off the screen, with something in its place, gives the
// screens back and keeps what was typed.
func (c *Composer) leave(with string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return
	}
	c.off = true
	c.editor.out.writeNow(c.hide() + with)
	for _, s := range c.editor.screens {
		s.composer.Store(nil)
	}
	c.editor.restore()
	c.typed.Queued, c.typed.Text, c.typed.Ended = c.queued, c.draft.line.text(), c.ended
}
