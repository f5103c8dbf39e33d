package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/store"
)

// The index holds tokens, one for each word and some that say whose the words
// are, so that a search meets nobody else's. The first letter tells the kinds
// apart. No two words share a token: what the index counts is exact.

// wordToken stands for a word. The tokenizer keeps small letters, digits and
// everything beyond ASCII together; a word with anything else is spelled out.
func wordToken(word string) string {
	if plain(word) {
		return "w" + word
	}
	if !utf8.ValidString(word) || strings.ContainsFunc(word, splits) {
		return "x" + hex.EncodeToString([]byte(word))
	}
	return "w" + word
}

// plain reports a word that is surely one token, which most are.
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

// logToken stands for the log that a message is in.
func logToken(log int64) string { return "l" + strconv.FormatInt(log, 10) }

// ownerToken stands for the user or agent whose words they are. A user's
// messages have it too. Others may share it by a chance that harms nothing.
func ownerToken(o store.Owner) string {
	sum := sha256.Sum256([]byte(o.Tenant + "\x00" + string(o.Scope) + "\x00" + o.Name))
	return "o" + hex.EncodeToString(sum[:8])
}

// tokens is what the index holds of a text, after the tokens that say whose.
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

// having asks the index for rows with one of some tokens and a word.
func having(oneOf []string, word string) string {
	return `("` + strings.Join(oneOf, `" OR "`) + `") AND "` + wordToken(word) + `"`
}
