package foreign

import (
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// shape is a credential that is known by its look: how it begins, which
// characters follow and how many of them at least.
type shape struct {
	begin string
	of    string
	least int
	most  int // 0: any number
	dots  int // of them, at least
}

const (
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
	word    = letters + digits + "_"
	dashed  = word + "-"
	base64s = letters + digits + "+/="
)

// shapes are the keys of providers of models, code hosts, clouds, payments,
// chats and package registries.
var shapes = []shape{
	{begin: "sk-", of: dashed, least: 20}, {begin: "xai-", of: dashed, least: 20}, {begin: "gsk_", of: word, least: 20}, {begin: "hf_", of: word, least: 30},
	{begin: "sk_live_", of: word, least: 16}, {begin: "sk_test_", of: word, least: 16}, {begin: "rk_live_", of: word, least: 16}, {begin: "rk_test_", of: word, least: 16},
	{begin: "whsec_", of: base64s, least: 20},
	{begin: "ghp_", of: word, least: 30}, {begin: "gho_", of: word, least: 30}, {begin: "ghu_", of: word, least: 30}, {begin: "ghs_", of: word, least: 30}, {begin: "ghr_", of: word, least: 30},
	{begin: "github_pat_", of: word, least: 30}, {begin: "glpat-", of: dashed, least: 20},
	{begin: "AKIA", of: letters + digits, least: 16, most: 16}, {begin: "ASIA", of: letters + digits, least: 16, most: 16},
	{begin: "AIza", of: dashed, least: 35, most: 35}, {begin: "ya29.", of: dashed, least: 20},
	{begin: "AccountKey=", of: base64s, least: 40}, {begin: "SharedAccessKey=", of: base64s, least: 40}, {begin: "dop_v1_", of: word, least: 40},
	{begin: "xoxa-", of: dashed, least: 10}, {begin: "xoxb-", of: dashed, least: 10}, {begin: "xoxe-", of: dashed, least: 10}, {begin: "xoxp-", of: dashed, least: 10},
	{begin: "xoxr-", of: dashed, least: 10}, {begin: "xoxs-", of: dashed, least: 10}, {begin: "xapp-", of: dashed, least: 10},
	{begin: "https://hooks.slack.com/services/", of: dashed + "/", least: 20}, {begin: "https://discord.com/api/webhooks/", of: dashed + "/", least: 20},
	{begin: "SG.", of: dashed + ".", least: 40, dots: 1}, {begin: "npm_", of: word, least: 30}, {begin: "pypi-", of: dashed, least: 30},
	{begin: "eyJ", of: dashed + ".", least: 30, dots: 2}, {begin: "AGE-SECRET-KEY-1", of: letters + digits, least: 40},
}

// MaskText replaces the credentials of a text: keys that are known by their
// look, private keys, passwords in addresses, what follows Bearer, and values
// behind names such as password, where they look like values. The time it takes
// grows with the text alone.
func MaskText(text string) string {
	var found []span
	for _, s := range shapes {
		found = s.find(text, found)
	}
	found = findPrivateKeys(text, found)
	found = findPasswords(text, found)
	found = findBearers(text, found)
	found = findAssigned(text, found)
	if len(found) == 0 {
		return text
	}
	slices.SortStableFunc(found, func(a, b span) int { return a.from - b.from })
	var b strings.Builder
	end := 0
	for _, s := range found {
		if s.from < end { // inside the one before
			if s.to > end {
				end = s.to
			}
			continue
		}
		b.WriteString(text[end:s.from])
		b.WriteString(s.mask)
		end = s.to
	}
	b.WriteString(text[end:])
	return b.String()
}

// span is a part of a text and what stands there instead.
type span struct {
	from, to int
	mask     string
}

func (s shape) find(text string, found []span) []span {
	for at := 0; ; {
		i := strings.Index(text[at:], s.begin)
		if i < 0 {
			return found
		}
		from := at + i
		begin := from + len(s.begin)
		at = begin
		if from > 0 && strings.IndexByte(word, text[from-1]) >= 0 {
			continue
		}
		// Where the characters are too few, no other key can begin among them.
		at += runOf(text[begin:], s.of)
		n := at - begin
		if n >= s.least && (s.most == 0 || n <= s.most) && strings.Count(text[begin:at], ".") >= s.dots {
			found = append(found, span{from, at, "[secret:key]"})
		}
	}
}

// runOf returns how many bytes at the beginning of a text are among those.
func runOf(text, of string) int {
	for i := range len(text) {
		if strings.IndexByte(of, text[i]) < 0 {
			return i
		}
	}
	return len(text)
}

// findPrivateKeys finds what PEM calls a private key. One that is cut off ends
// with the text.
func findPrivateKeys(text string, found []span) []span {
	for at := 0; ; {
		i := strings.Index(text[at:], "-----BEGIN ")
		if i < 0 {
			return found
		}
		from := at + i
		at = from + len("-----BEGIN ")
		label, _, _ := strings.Cut(text[at:min(at+80, len(text))], "-----")
		if !strings.Contains(label, "PRIVATE KEY") {
			continue
		}
		end := strings.Index(text[at:], "-----END "+label+"-----")
		if end < 0 {
			return append(found, span{from, len(text), "[secret:key]"})
		}
		at += end + len("-----END "+label+"-----")
		found = append(found, span{from, at, "[secret:key]"})
	}
}

const (
	maxUser  = 200 // bytes of what stands before the host of an address
	maxName  = 80
	maxGuess = 512 // bytes by which a value without quotes is judged
)

// findPasswords finds the passwords in addresses such as postgres://me:word@host.
func findPasswords(text string, found []span) []span {
	for at := 0; ; {
		i := strings.Index(text[at:], "://")
		if i < 0 {
			return found
		}
		at += i + len("://")
		user := text[at:min(at+maxUser, len(text))]
		if end := strings.IndexAny(user, "/?# \t\r\n\"'`<>\\"); end >= 0 {
			user = user[:end]
		}
		host := strings.LastIndexByte(user, '@')
		colon := strings.IndexByte(user, ':')
		if host > 0 && colon >= 0 && colon+1 < host {
			found = append(found, span{at + colon + 1, at + host, "[secret:password]"})
		}
	}
}

// findBearers finds what follows the word Bearer, where it is no ordinary word.
func findBearers(text string, found []span) []span {
	for _, begin := range []string{"Bearer ", "bearer ", "BEARER "} {
		for at := 0; ; {
			i := strings.Index(text[at:], begin)
			if i < 0 {
				break
			}
			from := at + i + len(begin)
			at = from + runOf(text[from:], dashed+".~+/=")
			if at-from >= 16 && strings.ContainsAny(text[from:at], digits) {
				found = append(found, span{from, at, "[secret:bearer]"})
			}
		}
	}
	return found
}

// findAssigned finds values behind a name and a colon or an equals sign: in
// JSON, environments, headers, queries and configurations.
func findAssigned(text string, found []span) []span {
	for at := 0; ; {
		i := strings.IndexAny(text[at:], ":=")
		if i < 0 {
			return found
		}
		sign := at + i
		at = sign + 1
		name, quoted := nameBefore(text, sign)
		var from, to int
		switch {
		case strings.HasSuffix(text[:sign], "[secret"): // a mask
		case namesSecret(name):
			from, to = valueAfter(text, at, name, quoted)
		case isBotToken(name, text[at:]):
			from, to, name = at, at+botToken, "key"
		}
		if to > from {
			found = append(found, span{from, to, maskOf(name)})
			at = to
		}
	}
}

const botToken = 35

// isBotToken reports a token of Telegram: a number, a colon and 35 characters.
func isBotToken(name, rest string) bool {
	return len(name) >= 8 && len(name) <= 10 && runOf(name, digits) == len(name) && runOf(rest[:min(len(rest), botToken+1)], dashed) == botToken
}

// nameBefore returns the name that stands before a sign, and whether it stands in
// quotes.
func nameBefore(text string, sign int) (name string, quoted bool) {
	text = text[max(0, sign-maxName):sign]
	text = strings.TrimRight(text, " \t")
	bare := strings.TrimRight(text, `"'\`)
	from := len(bare)
	for from > 0 && strings.IndexByte(dashed+".", bare[from-1]) >= 0 {
		from--
	}
	return strings.TrimLeft(bare[from:], "-."), len(bare) < len(text)
}

// valueAfter returns where the value of a name stands. Without quotes it must
// look like one: code and prose have names and colons too.
func valueAfter(text string, at int, name string, quotedName bool) (from, to int) {
	value := strings.TrimLeft(text[at:], " \t")
	from = len(text) - len(value)
	if !session.SecretKey(name) { // a cookie is the rest of the line
		return from, from + endOf(value, "\"\n")
	}
	for _, quote := range []string{`\"`, `"`, `'`, "`"} {
		inside, ok := strings.CutPrefix(value, quote)
		if !ok {
			continue
		}
		inside = inside[:endOf(inside, "\n")]
		end := strings.Index(inside, quote)
		if end < 0 {
			return 0, 0
		}
		from += len(quote)
		return from + schemeOf(inside[:end]), from + end
	}
	scheme := schemeOf(value)
	from, value = from+scheme, value[scheme:]
	const ends = " \t\r\n\"'`,;&()[]{}<>\\"
	guess := value[:min(len(value), maxGuess)]
	guess = guess[:endOf(guess, ends)]
	environment := name == strings.ToUpper(name) && strings.Contains(name, "_") && !strings.HasPrefix(guess, "$")
	telling := len(guess) >= 8 && strings.ContainsAny(guess, digits) && !strings.Contains(guess, ".")
	if quotedName || !environment && !telling && scheme == 0 {
		return 0, 0
	}
	return from, from + endOf(value, ends)
}

// endOf returns where the first of some characters stands, else the end.
func endOf(text, ends string) int {
	if i := strings.IndexAny(text, ends); i >= 0 {
		return i
	}
	return len(text)
}

// schemeOf returns the length of the word before the credential in a header.
func schemeOf(value string) int {
	for _, scheme := range []string{"Bearer ", "Basic ", "Token "} {
		if len(value) > len(scheme) && strings.EqualFold(value[:len(scheme)], scheme) {
			return len(scheme)
		}
	}
	return 0
}
