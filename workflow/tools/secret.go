package tools

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// reference matches ${NAME}, which stands for the value of a secret.
var reference = regexp.MustCompile(`\$\{([^{}]+)\}`)

// minSecret is the shortest value that is masked; shorter ones look like
// ordinary text.
const minSecret = 8

// secrets are values that a call has taken from the environment, by name. They
// live as long as the call.
type secrets map[string]string

// expand replaces references by their values. A name without a value becomes
// empty, with a warning.
func (b *Box) expand(text string, used secrets) string {
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		name := ref[2 : len(ref)-1]
		value := strings.TrimSpace(b.lookUpSecret(name))
		if value == "" {
			b.warnOnce(fmt.Sprintf("${%s} is not set and is sent as nothing", name))
			return ""
		}
		used[name] = value
		return value
	})
}

// lookUpSecret reads the variable of the secret with this name, or else the
// variable of this name.
func (b *Box) lookUpSecret(name string) string {
	i := slices.IndexFunc(b.config.Spec.Env.Secrets, func(s spec.Secret) bool {
		return s.Name == name || s.Name == "" && s.Key == name
	})
	if i >= 0 {
		if value := b.config.Getenv(b.config.Spec.Env.Secrets[i].Key); value != "" {
			return value
		}
	}
	return b.config.Getenv(name)
}

// mask replaces the values in a text, the longest first so that one inside
// another leaves nothing behind.
func (s secrets) mask(text string) string {
	var names []string
	for name, value := range s {
		if len(value) >= minSecret {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(s[b]) - len(s[a]) })
	for _, name := range names {
		for _, form := range forms(s[name]) {
			text = strings.ReplaceAll(text, form, "[secret:"+name+"]")
		}
	}
	return text
}

// forms lists how a value may be written in an answer that repeats it.
func forms(value string) []string {
	all := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	if raw, err := json.Marshal(value); err == nil {
		all = append(all, strings.Trim(string(raw), `"`))
	}
	return all
}
