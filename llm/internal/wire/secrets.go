package wire

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// minSecret is the shortest value to mask: a shorter one may be an ordinary word.
const minSecret = 8

const hiddenSecret = "[secret]"

// starred matches a secret that a server has partly masked itself.
var starred = regexp.MustCompile(`[A-Za-z0-9_-]*\*{3,}[A-Za-z0-9_*-]*`)

// findSecrets lists everything in a configuration that may be a credential, the
// longest first: one may contain another.
func findSecrets(c Config, base *url.URL) []string {
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

// scrub masks secrets in a server's text: it may repeat the key that it refuses,
// complete or partly masked.
func (c *Client) scrub(text string) string {
	for _, s := range c.secrets {
		text = strings.ReplaceAll(text, s, hiddenSecret)
	}
	return starred.ReplaceAllString(text, hiddenSecret)
}

// clean makes a server's text fit for an error. Secrets go first: a cut through
// one would leave half of it.
func (c *Client) clean(text string, most int) string { return oneLine(c.scrub(text), most) }
