package definition

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
)

// reference is ${NAME}: the name of a secret in place of its value.
var reference = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

func (r *reader) foundSecret(path string) { r.secret = cmp.Or(r.secret, path) }

// secretKeys looks for credentials at any depth. Keys alone decide: values are
// never judged, and never shown.
func (r *reader) secretKeys(v value) {
	for i := range v.Items {
		r.secretKeys(v.Item(i))
	}
	if v.Kind != document.Map {
		return
	}
	document.Entries(func(key string, inner value) {
		if session.SecretKey(key) {
			r.foundSecret(inner.Path)
		}
		r.secretKeys(inner)
	})(v)
}

// variables reads the environment or the headers of a tool server. A
// credential, by its name, may only be referred to.
func (r *reader) variables(into *map[string]string) field {
	return document.Entries(func(key string, v value) {
		if *into == nil {
			*into = map[string]string{}
		}
		var text string
		if session.SecretKey(key) && (v.Kind != document.String || !refers(v.Text)) {
			r.foundSecret(v.Path)
		} else {
			str(&text)(v)
		}
		(*into)[key] = text
	})
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

// address reads a URL and refuses one that carries a password or a key.
func (r *reader) address(into *string) field {
	return func(v value) {
		if !v.Is(document.String) {
			return
		}
		*into = v.Text
		u, err := url.Parse(reference.ReplaceAllString(v.Text, ""))
		if err != nil {
			v.Problem("is not a URL")
			return
		}
		if password, _ := u.User.Password(); password != "" {
			r.foundSecret(v.Path)
		}
		for key, values := range u.Query() {
			if session.SecretKey(key) && strings.Join(values, "") != "" {
				r.foundSecret(v.Path + "?" + key)
			}
		}
	}
}
