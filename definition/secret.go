package definition

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// reference is ${NAME}: where a secret's name stands instead of its value.
var reference = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// secretKeys looks for credentials at any depth. Keys alone decide: a value
// is never judged, and never shown.
func (r *reader) secretKeys(path string, n *node) {
	for i, item := range n.items {
		r.secretKeys(fmt.Sprintf("%s[%d]", path, i), item)
	}
	for _, e := range n.entries {
		at := join(path, e.key)
		if session.SecretKey(e.key) {
			r.foundSecret(at)
		}
		r.secretKeys(at, e.value)
	}
}

// variablesField reads the environment or the headers of a tool server. What
// is a credential by its name may only be referred to.
func variablesField(into *map[string]string) field {
	return func(r *reader, path string, n *node) {
		if !r.is(path, n, object) || len(n.entries) == 0 {
			return
		}
		variables := map[string]string{}
		for _, e := range n.entries {
			at := join(path, e.key)
			if _, ok := variables[e.key]; ok {
				r.problem(at, e.line, "is there twice")
				continue
			}
			var value string
			if session.SecretKey(e.key) && (e.value.kind != text || !refers(e.value.text)) {
				r.foundSecret(at)
			} else {
				textField(&value)(r, at, e.value)
			}
			variables[e.key] = value
		}
		*into = variables
	}
}

// refers reports a value made of references alone, at most behind the name of
// a scheme: "${TOKEN}", "Bearer ${TOKEN}".
func refers(value string) bool {
	if !reference.MatchString(value) {
		return false
	}
	rest := strings.ToLower(strings.Trim(reference.ReplaceAllString(value, ""), " :"))
	return rest == "" || rest == "bearer" || rest == "basic" || rest == "token"
}

// addressField reads a URL and refuses one that carries a password or a key.
func addressField(into *string) field {
	return func(r *reader, path string, n *node) {
		if !r.is(path, n, text) {
			return
		}
		*into = n.text
		u, err := url.Parse(reference.ReplaceAllString(n.text, ""))
		if err != nil {
			r.problem(path, n.line, "is not a URL")
			return
		}
		if password, _ := u.User.Password(); password != "" {
			r.foundSecret(path)
		}
		for key, values := range u.Query() {
			if session.SecretKey(key) && strings.Join(values, "") != "" {
				r.foundSecret(path + "?" + key)
			}
		}
	}
}
