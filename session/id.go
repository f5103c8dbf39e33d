package session

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DefaultTenant owns every session that was created without a tenant.
const DefaultTenant = "default"

const (
	maxID         = 128
	maxName       = 200
	maxUserID     = 256
	maxKeyBytes   = 256
	maxSeq        = 1 << 53 // the last whole number every JSON reader keeps exactly
	maxMetadata   = 64 << 10
	maxVariable   = 256 << 10
	maxReason     = 2000
	reservedKey   = "tasks"
	reservedSpace = "holdfast."
)

var definitionPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,127}$`)

// CheckID refuses what is not a session id: 1 to 128 letters, digits, hyphens
// and underscores, the first of them a letter or digit. Ids are case-sensitive.
func CheckID(id string) error { return checkID("id", id) }

func checkID(field, id string) error {
	if isID(id) {
		return nil
	}
	return &InvalidError{Field: field, Reason: fmt.Sprintf(
		"%s is not 1 to 128 letters, digits, hyphens or underscores starting with a letter or digit", quoted(id))}
}

func isID(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && (c == '-' || c == '_'):
		default:
			return false
		}
	}
	return id != "" && len(id) <= maxID
}

// CheckTenant refuses what is not a tenant name; the rule is that of ids.
func CheckTenant(tenant string) error { return checkID("tenant", tenant) }

func checkUser(user string) error {
	if len(user) > maxUserID || !plain(user) {
		return &InvalidError{Field: "userId", Reason: fmt.Sprintf("%s is longer than %d bytes or holds control characters", quoted(user), maxUserID)}
	}
	return nil
}

func checkName(name string) error {
	if utf8.RuneCountInString(name) > maxName {
		return &InvalidError{Field: "name", Reason: fmt.Sprintf("is longer than %d characters", maxName)}
	}
	if !plain(name) || strings.TrimSpace(name) != name {
		return &InvalidError{Field: "name", Reason: fmt.Sprintf("%s holds control characters or outer spaces", quoted(name))}
	}
	return nil
}

// checkKey is the rule for metadata and variable keys.
func checkKey(key string) error {
	if key == "" || len(key) > maxKeyBytes || !plain(key) {
		return &InvalidError{Field: "key", Reason: fmt.Sprintf("%s is not 1 to %d bytes of UTF-8 without control characters", quoted(key), maxKeyBytes)}
	}
	return nil
}

// plain reports whether s is valid UTF-8 without control characters.
func plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// quoted is s for an error text: quoted, and cut where it is long.
func quoted(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(s[:most], "�"), len(s))
	}
	return fmt.Sprintf("%q", s)
}

// checkToken is the rule for ids that other programs choose: of messages, agents.
func checkToken(field, token string) error {
	if token == "" || len(token) > 255 || !plain(token) {
		return invalid(field, "%s is not 1 to 255 bytes of UTF-8 without control characters", quoted(token))
	}
	return nil
}

// clean is s as JSON can hold it: bytes that are no UTF-8 become U+FFFD.
func clean(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "�")
}

func cleanAll(texts ...*string) {
	for _, text := range texts {
		*text = clean(*text)
	}
}

// cleanList is a copy of texts as JSON can hold them; an empty one is nil.
func cleanList(texts []string) []string {
	if len(texts) == 0 {
		return nil
	}
	c := slices.Clone(texts)
	for i := range c {
		c[i] = clean(c[i])
	}
	return c
}
