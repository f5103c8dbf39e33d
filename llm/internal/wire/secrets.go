package wire

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// minSecret keeps ordinary words from being taken for secrets.
const minSecret = 8

// hiddenSecret stands where a secret stood.
const hiddenSecret = "[secret]"

// starred is a secret that a server has half hidden itself.
var starred = regexp.MustCompile(`[A-Za-z0-9_-]*\*{3,}[A-Za-z0-9_*-]*`)

// secretsOf is everything in a configuration that may be a credential, the
// longest first so that one inside another leaves nothing behind.
func secretsOf(c Config, base *url.URL) []string {
	var found []string
	for name, values := range c.Header {
		if !session.SecretKey(name) {
			continue
		}
		for _, v := range values {
			found = append(found, v)
			if _, token, ok := strings.Cut(v, " "); ok { // Bearer …
				found = append(found, token)
			}
		}
	}
	if password, ok := base.User.Password(); ok {
		found = append(found, password, url.QueryEscape(password))
	}
	for _, values := range base.Query() {
		for _, v := range values {
			found = append(found, v, url.QueryEscape(v))
		}
	}
	found = slices.DeleteFunc(found, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(found)
}

// scrub takes secrets out of a text from outside: a server may repeat the key
// it refuses, whole or half hidden.
func (c *Client) scrub(text string) string {
	for _, s := range c.secrets {
		text = strings.ReplaceAll(text, s, hiddenSecret)
	}
	return starred.ReplaceAllString(text, hiddenSecret)
}

// clean is a text from outside as it may stand in an error. Secrets go first:
// a cut through one would leave half of it.
func (c *Client) clean(text string, most int) string { return short(c.scrub(text), most) }
