package store

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

// Key is one use of an idempotency key. Fingerprint tells one action from another.
type Key struct{ Name, Fingerprint string }

// maxKey bounds a key's name, in bytes.
const maxKey = 255

// Check refuses a name that is not 1 to 255 bytes of printable characters.
func (k Key) Check() error {
	if k.Name == "" || len(k.Name) > maxKey || !printable(k.Name) {
		return &session.InvalidError{Field: "key", Reason: fmt.Sprintf("%q is not 1 to %d bytes of printable characters", k.Name, maxKey)}
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// KeyUse is the first use of an idempotency key.
type KeyUse struct {
	Fingerprint string
	Version     int64 // 0: written with the tail, not sealed yet
}
