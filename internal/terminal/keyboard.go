package terminal

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// keyboard is what a person types at a terminal in raw mode, passed to a line
// editor so that nothing is lost: a pasted block is one piece of text with its
// line ends, and text may be of any length. One Read ends at the end of a line
// at the latest, so what was typed ahead stays here for the next line.
type keyboard struct {
	from io.Reader
	to   io.Writer

	text    []byte // of the current read, not passed on yet
	keys    []byte // to pass to the editor, in order
	rune    []byte // the beginning of a character
	escape  []byte // the beginning of an escape sequence
	pasting bool
	cr      bool   // a pasted CR came last: an LF after it is the same line end
	raw     []byte // read and not yet looked at

	touched bool // something was typed since the line began
	broken  bool // Ctrl-C was passed on last
}

const (
	ctrlC   = 3
	escape  = 0x1b
	newLine = '\U0010FF0A' // stands for a line end inside of a line
	tab     = '\U0010FF09' // stands for a tab
	unknown = '\U0010FFFD' // stands for what is no text
)

const (
	pasteOn    = "\x1b[?2004h" // have the terminal mark what is pasted
	pasteOff   = "\x1b[?2004l"
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// Read passes the next keys on. Text looks as if it were pasted: an editor takes
// no more than some thousand characters otherwise.
func (k *keyboard) Read(p []byte) (int, error) {
	for len(k.keys) == 0 {
		if len(k.raw) == 0 {
			buf := make([]byte, 4096)
			n, err := k.from.Read(buf)
			if n == 0 && err != nil {
				return 0, err
			}
			k.raw = buf[:n]
		}
		for len(k.raw) > 0 && !k.take(k.raw[0]) {
			k.raw = k.raw[1:]
		}
		if len(k.raw) > 0 { // a line ended
			k.raw = k.raw[1:]
		}
		k.flush()
	}
	n := copy(p, k.keys)
	k.keys = k.keys[n:]
	return n, nil
}

// Write shows what stands for something else in a column of its own.
func (k *keyboard) Write(data []byte) (int, error) {
	if _, err := k.to.Write(bytes.Map(replaceControls('↵', ' '), data)); err != nil {
		return 0, err
	}
	return len(data), nil
}

// begin forgets the line before.
func (k *keyboard) begin() { k.touched, k.broken, k.keys = false, false, nil }

// cleanLine returns the text that a line of the editor stands for, without the line ends
// after it.
func cleanLine(line string) string {
	return strings.TrimRight(strings.Map(replaceControls('\n', '\t'), line), "\n")
}

// replaceControls maps what stands for something else in a line of the editor.
func replaceControls(end, space rune) func(rune) rune {
	return func(r rune) rune {
		switch r {
		case newLine:
			return end
		case tab:
			return space
		case unknown:
			return unicode.ReplacementChar
		}
		return r
	}
}

// take looks at a byte and reports whether it ends the line.
func (k *keyboard) take(b byte) (ends bool) {
	switch {
	case len(k.escape) > 0:
		k.sequence(b)
	case b == escape:
		k.escape = append(k.escape, b)
	case k.pasting:
		k.pasted(b)
	case b < ' ' || b == 0x7f:
		return k.control(b)
	default:
		k.letter(b)
	}
	return false
}

func (k *keyboard) control(b byte) (ends bool) {
	k.rune = k.rune[:0]
	k.flush()
	k.keys = append(k.keys, b)
	k.broken = b == ctrlC
	return k.broken || b == '\r' || b == '\n'
}

// pasted takes a byte between the marks. Line ends are CR, LF or both.
func (k *keyboard) pasted(b byte) {
	again := b == '\n' && k.cr
	k.cr = b == '\r'
	switch {
	case again:
	case b == '\r' || b == '\n':
		k.add(newLine)
	case b == '\t':
		k.add(tab)
	case b < ' ' || b == 0x7f:
		k.add(unknown)
	default:
		k.letter(b)
	}
}

// letter takes a byte of a character.
func (k *keyboard) letter(b byte) {
	k.rune = append(k.rune, b)
	for len(k.rune) > 0 && utf8.FullRune(k.rune) {
		r, size := utf8.DecodeRune(k.rune)
		k.rune = k.rune[size:]
		if r == utf8.RuneError || unicode.IsControl(r) {
			r = unknown
		}
		k.text = utf8.AppendRune(k.text, r)
		k.touched = true
	}
}

// add takes a whole character. One that began before it never came whole.
func (k *keyboard) add(r rune) {
	if len(k.rune) > 0 {
		k.text = utf8.AppendRune(k.text, unknown)
	}
	k.rune = k.rune[:0]
	k.text = utf8.AppendRune(k.text, r)
	k.touched = true
}

// sequence takes a byte of an escape sequence: a key of more than one byte, or
// a mark around what is pasted. Keys that no editor knows are dropped.
func (k *keyboard) sequence(b byte) {
	k.escape = append(k.escape, b)
	seq := k.escape
	switch {
	case k.pasting && bytes.HasPrefix([]byte(pasteEnd), seq):
		if len(seq) == len(pasteEnd) {
			k.pasting, k.cr, k.escape = false, false, nil
		}
	case k.pasting: // an escape that was pasted
		k.escape = nil
		k.add(unknown)
		for _, b := range seq[1:] {
			k.take(b)
		}
	case b == escape:
		k.escape = []byte{escape}
	case len(seq) == 2 && (b == '[' || b == 'O'):
	case len(seq) == 2:
		k.escape = nil
	case seq[1] == '[' && (b < 0x40 || b > 0x7e): // not its end yet
	case string(seq) == pasteStart:
		k.pasting, k.escape = true, nil
	default:
		k.escape = nil
		if unicode.IsLetter(rune(b)) || b == '~' {
			k.flush()
			k.keys = append(append(k.keys, escape, '['), seq[2:]...)
			k.touched = true
		}
	}
}

// flush tells the text that came before a key.
func (k *keyboard) flush() {
	if len(k.text) == 0 {
		return
	}
	k.keys = append(append(append(k.keys, pasteStart...), k.text...), pasteEnd...)
	k.text = k.text[:0]
}
