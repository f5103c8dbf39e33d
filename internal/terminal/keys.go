package terminal

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// key is what a person pressed: a key with a name, or text that was typed or
// pasted.
type key struct {
	name keyName
	text string // of keyText
}

type keyName int

const (
	keyNone keyName = iota
	keyText
	keyEnter
	keyNewLine
	keyInterrupt
	keyEndOfInput
	keyBackspace
	keyDelete
	keyDeleteWord
	keyDeleteToStart
	keyDeleteToEnd
	keyLeft
	keyRight
	keyWordLeft
	keyWordRight
	keyHome
	keyEnd
	keyUp
	keyDown
	keyComplete
	keySearch
	keyCancel
	keyClear
)

const (
	pasteOn    = "\x1b[?2004h" // have the terminal mark what is pasted
	pasteOff   = "\x1b[?2004l"
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// controls are the keys of one byte.
var controls = map[byte]keyName{
	1: keyHome, 2: keyLeft, 3: keyInterrupt, 4: keyEndOfInput, 5: keyEnd, 6: keyRight, 7: keyCancel, 8: keyBackspace, '\t': keyComplete, '\n': keyEnter,
	11: keyDeleteToEnd, 12: keyClear, '\r': keyEnter, 14: keyDown, 16: keyUp, 18: keySearch, 21: keyDeleteToStart, 23: keyDeleteWord, 0x7f: keyBackspace,
}

// altKeys are those that are pressed together with Alt.
var altKeys = map[byte]keyName{'\r': keyNewLine, '\n': keyNewLine, 'b': keyWordLeft, 'f': keyWordRight, 0x7f: keyDeleteWord}

// sequences are the keys of more than one byte, after the bracket.
var sequences = map[string]keyName{
	"A": keyUp, "B": keyDown, "C": keyRight, "D": keyLeft, "H": keyHome, "F": keyEnd, "1~": keyHome, "7~": keyHome, "4~": keyEnd, "8~": keyEnd, "3~": keyDelete,
	"1;5C": keyWordRight, "1;3C": keyWordRight, "1;5D": keyWordLeft, "1;3D": keyWordLeft, "13;2u": keyNewLine, "13;3u": keyNewLine, "27;2;13~": keyNewLine,
}

// keyboard reads keys from a terminal in raw mode. What was read and is no key
// yet stays here for the next line.
type keyboard struct {
	from io.Reader
	raw  []byte // read and not yet decoded
}

// next waits for a key.
func (k *keyboard) next() (key, error) {
	for {
		for len(k.raw) > 0 {
			pressed, size := decodeKey(k.raw)
			if size == 0 {
				break // only what follows can tell
			}
			k.raw = k.raw[size:]
			if pressed.name != keyNone {
				return pressed, nil
			}
		}
		data := make([]byte, 4096)
		n, err := k.from.Read(data)
		if n == 0 && err != nil {
			return key{}, err
		}
		k.raw = append(k.raw, data[:n]...)
	}
}

// decodeKey returns the first key and how many bytes it has; 0 where it is not
// whole. Keys that the editor does not know have no name.
func decodeKey(raw []byte) (key, int) {
	switch {
	case raw[0] == 0x1b:
		return decodeEscape(raw)
	case raw[0] < ' ' || raw[0] == 0x7f:
		return key{name: controls[raw[0]]}, 1
	}
	end := bytes.IndexFunc(raw, unicode.IsControl)
	if end < 0 {
		end = len(raw)
	}
	text, size := decodeText(raw[:end])
	if size == 0 && end < len(raw) { // the character never came whole
		return key{keyText, string(unicode.ReplacementChar)}, end
	}
	return key{keyText, text}, size
}

// decodeText returns whole characters. What is none is shown as U+FFFD.
func decodeText(raw []byte) (text string, size int) {
	var b strings.Builder
	for size < len(raw) && utf8.FullRune(raw[size:]) {
		r, n := utf8.DecodeRune(raw[size:])
		b.WriteRune(r) // utf8.RuneError is U+FFFD
		size += n
	}
	return b.String(), size
}

func decodeEscape(raw []byte) (key, int) {
	switch {
	case bytes.HasPrefix(raw, []byte(pasteStart)):
		end := bytes.Index(raw, []byte(pasteEnd))
		if end < 0 {
			return key{}, 0
		}
		return key{keyText, cleanPaste(raw[len(pasteStart):end])}, end + len(pasteEnd)
	case len(raw) == 1:
		return key{}, 0
	case raw[1] == 0x1b:
		return key{}, 1
	case raw[1] != '[' && raw[1] != 'O':
		return key{name: altKeys[raw[1]]}, 2
	}
	for i := 2; i < len(raw); i++ {
		if raw[i] >= 0x40 && raw[i] <= 0x7e {
			return key{name: sequences[string(raw[2:i+1])]}, i + 1
		}
	}
	return key{}, 0
}

// cleanPaste returns what was pasted as text: line ends are newlines, tabs stay,
// and what could drive a terminal is shown as U+FFFD.
func cleanPaste(raw []byte) string {
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(string(raw), "\uFFFD"))
	return Printable(text)
}
