package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/store"
)

// The index holds tokens: one for each word, and one for each owner of the words,
// so that a search reads no other owner's. The first letter is the kind of token.
// No two words share a token, so what the index counts is exact.

// wordToken returns the token of a word. The tokenizer splits at everything but
// small letters, digits and what is beyond ASCII, so a word with such a character
// is encoded in hexadecimal.
func wordToken(word string) string {
	if plain(word) {
		return "w" + word
	}
	if !utf8.ValidString(word) || strings.ContainsFunc(word, splits) {
		return "x" + hex.EncodeToString([]byte(word))
	}
	return "w" + word
}

// plain reports a word that is certainly one token. Most are.
func plain(word string) bool {
	for i := range len(word) {
		if c := word[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func splits(r rune) bool {
	return r < utf8.RuneSelf && (r < '0' || r > '9') && (r < 'a' || r > 'z')
}

// logToken returns the token of a log.
func logToken(log int64) string { return "l" + strconv.FormatInt(log, 10) }

// ownerToken returns the token of a user or agent. A user's messages have it
// too. A collision does no harm: every hit is checked.
func ownerToken(o store.Owner) string {
	sum := sha256.Sum256([]byte(o.Tenant + "\x00" + string(o.Scope) + "\x00" + o.Name))
	return "o" + hex.EncodeToString(sum[:8])
}

// tokens returns what is indexed of a text, after its owners' tokens.
func tokens(text string, whose ...string) string {
	var b strings.Builder
	for _, t := range whose {
		b.WriteString(t)
		b.WriteByte(' ')
	}
	b.Grow(len(text) + len(text)/4)
	for _, word := range store.WordsUnsorted(text) {
		b.WriteString(wordToken(word))
		b.WriteByte(' ')
	}
	return b.String()
}

// having is the query for rows with a word and one of some tokens, if there are any.
func having(oneOf []string, word string) string {
	if len(oneOf) == 0 {
		return `"` + wordToken(word) + `"`
	}
	return `("` + strings.Join(oneOf, `" OR "`) + `") AND "` + wordToken(word) + `"`
}
