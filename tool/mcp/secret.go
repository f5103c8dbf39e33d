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

// reference matches ${NAME}, which stands for the value of a variable.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// minSecret is the shortest value to mask: a shorter one may be an ordinary word.
const minSecret = 8

// secrets holds values of the environment by the name of their variable.
type secrets map[string]string

// Secrets returns the values that the servers' configurations refer to, by the
// name of their variable. This package masks them in results, errors and logs;
// give them to the runtime so that it masks them everywhere else. Variables
// that are not set are left out.
func (c Config) Secrets(servers ...session.MCPServer) map[string]string {
	c = c.withDefaults()
	found := map[string]string{}
	for _, server := range servers {
		_, of, _ := c.resolve(server) // Connect reports missing variables
		maps.Copy(found, of)
	}
	return found
}

// resolve replaces references by values. The error names every variable that is
// not set.
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
		return server, found, fmt.Errorf("environment variables that are not set: %s", strings.Join(slices.Compact(missing), ", "))
	}
	return server, found, nil
}

// mask replaces the values in a text, the longest first: one secret may contain
// another.
func (s secrets) mask(text string) string {
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

// redactError removes the secrets from an error's text.
func (s secrets) redactError(err error) error {
	text := err.Error()
	if masked := s.mask(text); masked != text {
		return &redactedError{masked, err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }
