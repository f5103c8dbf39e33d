package mcp

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// reference is ${NAME}: where the name of a variable stands for its value.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// minSecret is how long a value must be to be told from ordinary text.
const minSecret = 8

// secrets are values that came from the environment, by name.
type secrets map[string]string

// Secrets are the values, by the name of their variable, that connecting the
// servers will use. They do not leave this package in a result, an error or a
// log; a runtime that is told them keeps them out of everything else, too.
// Variables that are not set are left out.
func (c Config) Secrets(servers ...session.MCPServer) map[string]string {
	c = c.withDefaults()
	found := map[string]string{}
	for _, server := range servers {
		_, of, _ := c.resolve(server) // Connect tells what is not set
		maps.Copy(found, of)
	}
	return found
}

// resolve puts values in the place of references. Every variable that is not
// set is named in the error.
func (c Config) resolve(server session.MCPServer) (session.MCPServer, secrets, error) {
	found := secrets{}
	var missing []string
	expand := func(text string) string {
		return reference.ReplaceAllStringFunc(text, func(ref string) string {
			name := ref[2 : len(ref)-1]
			value, ok := c.LookupEnv(name)
			if !ok || value == "" {
				missing = append(missing, name)
				return ""
			}
			found[name] = value
			return value
		})
	}
	expandAll := func(in map[string]string) map[string]string {
		out := make(map[string]string, len(in))
		for key, value := range in {
			out[key] = expand(value)
		}
		return out
	}
	server.URL, server.Env, server.Headers = expand(server.URL), expandAll(server.Env), expandAll(server.Headers)
	if len(missing) > 0 {
		slices.Sort(missing)
		return server, found, fmt.Errorf("not set in the environment: %s", strings.Join(slices.Compact(missing), ", "))
	}
	return server, found, nil
}

// masked is text without the values, the longest first so that one inside
// another leaves nothing behind.
func (s secrets) masked(text string) string {
	names := slices.SortedFunc(maps.Keys(s), func(a, b string) int {
		return len(s[b]) - len(s[a])
	})
	for _, name := range names {
		if len(s[name]) < minSecret {
			continue
		}
		for _, form := range []string{s[name], url.QueryEscape(s[name]), url.PathEscape(s[name])} {
			text = strings.ReplaceAll(text, form, "[secret:"+name+"]")
		}
	}
	return text
}

// told is an error that can be shown.
func (s secrets) told(err error) error {
	text := err.Error()
	if masked := s.masked(text); masked != text {
		return &hidden{masked, err}
	}
	return err
}

// hidden is an error whose text would tell a secret.
type hidden struct {
	text string
	err  error
}

func (e *hidden) Error() string { return e.text }
func (e *hidden) Unwrap() error { return e.err }
