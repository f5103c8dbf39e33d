package egress

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// ErrBinary is matched by the errors of answers that are no text.
var ErrBinary = errors.New("it is no text and cannot be shown")

// Text returns the body of an answer as text in UTF-8, by the type it was sent
// with, and whether it is HTML. Without a type it is looked at.
func Text(contentType string, raw []byte) (text string, html bool, err error) {
	if len(raw) == 0 {
		return "", false, nil
	}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind == "" || kind == "application/octet-stream" {
		kind, params, err = mime.ParseMediaType(http.DetectContentType(raw))
	}
	if err != nil || !textual(kind) || strings.ContainsRune(string(raw[:min(len(raw), 1024)]), 0) {
		return "", false, fmt.Errorf("%s, %d bytes: %w", kind, len(raw), ErrBinary)
	}
	return decode(raw, params["charset"]), kind == "text/html" || kind == "application/xhtml+xml", nil
}

func textual(kind string) bool {
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") {
		return true
	}
	switch strings.TrimPrefix(strings.TrimPrefix(kind, "application/"), "x-") {
	case "json", "xml", "javascript", "ecmascript", "yaml", "toml", "ndjson", "jsonl", "www-form-urlencoded", "sql", "sh", "graphql":
		return true
	}
	return false
}

// decode converts a body to UTF-8. Besides UTF-8 the old western character set is
// understood, which is also what servers mean that name none and send no UTF-8.
func decode(raw []byte, charset string) string {
	switch strings.ToLower(charset) {
	case "iso-8859-1", "latin1", "windows-1252", "us-ascii", "":
		if utf8.Valid(raw) {
			break
		}
		if text, err := charmap.Windows1252.NewDecoder().Bytes(raw); err == nil {
			return string(text)
		}
	}
	return string(raw)
}
