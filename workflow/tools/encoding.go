package tools

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/holdfast-dev/holdfast/session"
)

// charset converts between the bytes of a file and its text.
type charset struct {
	name string
	of   encoding.Encoding // nil: UTF-8 or ASCII
	wide bool              // its text has NUL bytes
}

// charsetOf finds a charset by one of the names Python has for it.
func findCharset(name string) (charset, error) {
	switch strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(strings.TrimSpace(name))) {
	case "", "utf-8", "utf8", "u8":
		return charset{name: "utf-8"}, nil
	case "utf-8-sig":
		return charset{name: "utf-8-sig", of: unicode.UTF8BOM}, nil
	case "ascii", "us-ascii":
		return charset{name: "ascii"}, nil
	case "latin-1", "latin1", "iso-8859-1", "iso8859-1", "l1":
		return charset{name: "latin-1", of: charmap.ISO8859_1}, nil
	case "cp1252", "windows-1252":
		return charset{name: "cp1252", of: charmap.Windows1252}, nil
	case "utf-16", "utf16":
		return charset{name: "utf-16", of: unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), wide: true}, nil
	case "utf-16-le", "utf-16le":
		return charset{name: "utf-16-le", of: unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), wide: true}, nil
	case "utf-16-be", "utf-16be":
		return charset{name: "utf-16-be", of: unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), wide: true}, nil
	}
	return charset{}, &session.InvalidError{Field: "encoding", Reason: fmt.Sprintf(
		"%q is not known; there are utf-8, utf-8-sig, ascii, latin-1, cp1252, utf-16, utf-16-le and utf-16-be", name)}
}

var errBinary = errors.New("is binary and cannot be read as text")

// decode returns the exact text of a file.
func (c charset) decode(data []byte) (string, error) {
	if !c.wide && bytes.IndexByte(data, 0) >= 0 {
		return "", errBinary
	}
	if c.of == nil {
		if !c.plain(string(data)) {
			return "", fmt.Errorf("is not %s; another encoding may fit, such as latin-1", c.name)
		}
		return string(data), nil
	}
	text, err := c.of.NewDecoder().Bytes(data)
	if err != nil || bytes.IndexByte(text, 0) >= 0 || bytes.ContainsRune(text, utf8.RuneError) {
		return "", fmt.Errorf("is not %s", c.name)
	}
	return string(text), nil
}

// encode returns the bytes of a text.
func (c charset) encode(text string) ([]byte, error) {
	if !utf8.ValidString(text) {
		return nil, &session.InvalidError{Field: "content", Reason: "is not UTF-8"}
	}
	if c.of == nil {
		if !c.plain(text) {
			return nil, &session.InvalidError{Field: "content", Reason: "has characters that are not in " + c.name}
		}
		return []byte(text), nil
	}
	data, err := c.of.NewEncoder().Bytes([]byte(text))
	if err != nil {
		return nil, &session.InvalidError{Field: "content", Reason: "has characters that are not in " + c.name}
	}
	return data, nil
}

// plain reports whether a text needs no conversion.
func (c charset) plain(text string) bool {
	if c.name == "ascii" {
		return strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
	}
	return utf8.ValidString(text)
}
