package terminal

import (
	"fmt"
	"slices"
	"strings"
)

// draft is a message while a person writes it, and its drawing.
type draft struct {
	out      *Screen
	prompt   string
	history  *History
	commands []string
	line     line
	above    []string // lines above the prompt
	hint     string   // below the text until the next key
	hidden   bool     // somebody else draws it

	recalled int    // the line of the history that is shown; -1: none
	written  string // what was there before that

	searching bool
	query     string

	rows   []string // that are on the screen
	row    int      // of them, the one with the cursor
	column int      // of the cursor
}

// draftState is what becomes of a draft.
type draftState int

const (
	draftOpen draftState = iota
	draftSent
	draftEnded
)

// press takes a key, and draws what comes of it.
func (d *draft) press(k key) draftState {
	d.hint = ""
	if d.searching && d.pressInSearch(k) {
		d.draw()
		return draftOpen
	}
	switch {
	case k.name == keyEnter && d.line.at == len(d.line.characters) && strings.HasSuffix(d.line.text(), `\`):
		d.line.remove(d.line.at - 1)
		d.line.insert("\n")
	case k.name == keyEnter:
		d.line.moveTo(len(d.line.characters))
		d.draw()
		d.leave("")
		return draftSent
	case k.name == keyInterrupt && len(d.line.characters) == 0, k.name == keyEndOfInput && len(d.line.characters) == 0:
		d.leave("")
		return draftEnded
	case k.name == keyInterrupt:
		d.line.moveTo(len(d.line.characters))
		d.draw()
		d.leave("^C")
		d.line, d.recalled = line{}, -1
	default:
		d.edit(k)
	}
	d.draw()
	return draftOpen
}

// edit changes the text or moves the cursor.
func (d *draft) edit(k key) {
	l := &d.line
	switch k.name {
	case keyText:
		l.insert(k.text)
	case keyNewLine:
		l.insert("\n")
	case keyBackspace:
		l.remove(max(0, l.at-1))
	case keyDelete, keyEndOfInput:
		l.remove(min(len(l.characters), l.at+1))
	case keyDeleteWord:
		l.remove(l.wordLeft())
	case keyDeleteToStart:
		l.remove(l.lineStart())
	case keyDeleteToEnd:
		l.remove(l.lineEnd())
	case keyLeft:
		l.moveTo(l.at - 1)
	case keyRight:
		l.moveTo(l.at + 1)
	case keyWordLeft:
		l.moveTo(l.wordLeft())
	case keyWordRight:
		l.moveTo(l.wordRight())
	case keyHome:
		l.moveTo(l.lineStart())
	case keyEnd:
		l.moveTo(l.lineEnd())
	case keyUp:
		if !d.moveUp() {
			d.recall(d.recalled + 1)
		}
	case keyDown:
		if !d.moveDown() {
			d.recall(d.recalled - 1)
		}
	case keyComplete:
		d.complete()
	case keySearch:
		d.searching, d.query, d.written = true, "", l.text()
	case keyClear:
		d.out.writeNow("\x1b[H\x1b[2J")
		d.rows, d.row = nil, 0
	}
}

// moveUp and moveDown move between the lines of a text that has several.
func (d *draft) moveUp() bool {
	l := &d.line
	start := l.lineStart()
	if start == 0 {
		return false
	}
	offset := l.at - start
	l.moveTo(start - 1)
	l.moveTo(min(l.lineStart()+offset, l.at))
	return true
}

func (d *draft) moveDown() bool {
	l := &d.line
	end := l.lineEnd()
	if end == len(l.characters) {
		return false
	}
	offset := l.at - l.lineStart()
	l.moveTo(end + 1)
	l.moveTo(min(l.at+offset, l.lineEnd()))
	return true
}

// recall shows a message of the history, 0 the newest; -1 is what was written
// before.
func (d *draft) recall(i int) {
	if i < -1 || i >= d.history.Len() {
		return
	}
	if d.recalled == -1 {
		d.written = d.line.text()
	}
	d.recalled = i
	if i == -1 {
		d.line.set(d.written)
		return
	}
	d.line.set(d.history.At(i))
}

// complete completes the word before the cursor, or shows what it may become.
func (d *draft) complete() {
	more, choices := completeLine(d.line.before(), d.commands)
	d.line.insert(more)
	if more == "" && len(choices) > 1 {
		d.hint = Printable(strings.Join(choices, "  "))
	}
}

// pressInSearch takes a key while the history is searched. False: the search
// is over, and the key means what it always means.
func (d *draft) pressInSearch(k key) bool {
	switch k.name {
	case keyText:
		d.query += k.text
		d.find(max(0, d.recalled))
	case keyBackspace:
		if all := splitCharacters(d.query); len(all) > 0 {
			d.query = strings.Join(all[:len(all)-1], "")
		}
		d.find(0)
	case keySearch:
		d.find(d.recalled + 1)
	case keyCancel, keyInterrupt:
		d.searching, d.recalled = false, -1
		d.line.set(d.written)
	default:
		d.searching = false
		return false
	}
	return true
}

// find shows the newest message of the history, from one on, that has the text
// that is looked for. Where there is none, what is shown stays if it has the
// text, else what was written comes back.
func (d *draft) find(from int) {
	has := func(i int) bool {
		return strings.Contains(strings.ToLower(d.history.At(i)), strings.ToLower(d.query))
	}
	if d.query == "" {
		return
	}
	for i := from; i < d.history.Len(); i++ {
		if has(i) {
			d.recalled = i
			d.line.set(d.history.At(i))
			return
		}
	}
	d.hint = "no earlier message has " + OneLine(d.query)
	if d.recalled < 0 || !has(d.recalled) {
		d.recalled = -1
		d.line.set(d.written)
	}
}

// draw makes the drawing anew, in one write.
func (d *draft) draw() {
	if !d.hidden {
		d.out.writeNow(d.drawing())
	}
}

// drawing returns what draws the draft in its place. A text that is longer than
// the terminal is shown around the cursor.
func (d *draft) drawing() string {
	columns, height := d.out.size()
	prompt := d.prompt
	if d.searching {
		prompt = d.out.Paint(Dim, "search "+OneLine(d.query)+": ")
	}
	rows, row, column := d.line.layout(prompt, columns)
	for i, text := range d.above {
		rows = slices.Insert(rows, i, d.out.Paint(Dim, Cut(text, columns-1)))
		row++
	}
	if d.hint != "" {
		rows = append(rows, d.out.Paint(Dim, Cut(d.hint, columns-1)))
	}
	if most := max(1, height-1); len(rows) > most {
		first := min(max(0, row-most/2), len(rows)-most)
		rows, row = rows[first:first+most], row-first
	}
	var b strings.Builder
	d.toTop(&b)
	for i, text := range rows {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(text + "\x1b[K")
	}
	b.WriteString("\x1b[J") // what a longer drawing left
	if up := len(rows) - 1 - row; up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	if column > 0 {
		fmt.Fprintf(&b, "\x1b[%dC", column)
	}
	d.rows, d.row, d.column = rows, row, column
	return b.String()
}

// toTop moves to the beginning of the drawing.
func (d *draft) toTop(b *strings.Builder) {
	if d.row > 0 {
		fmt.Fprintf(b, "\x1b[%dA", d.row)
	}
	b.WriteString("\r")
}

// resize draws for another size.
func (d *draft) resize() {
	columns, _ := d.out.size()
	d.row = d.rowsAbove(columns)
	d.draw()
}

// rowsAbove returns how many rows are above the cursor on a terminal that has
// another size now. One that became narrower has broken the rows: what was one
// may be several.
func (d *draft) rowsAbove(columns int) int {
	above := d.column / columns
	for _, text := range d.rows[:min(d.row, len(d.rows))] {
		above += max(1, (visibleWidth(text)+columns-1)/columns)
	}
	return above
}

// leave leaves the text on the screen, with something behind it.
func (d *draft) leave(with string) {
	if !d.hidden {
		d.out.writeNow(with + "\r\n")
	}
	d.rows, d.row, d.column = nil, 0, 0
}
