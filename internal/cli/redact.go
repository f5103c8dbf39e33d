package cli

import (
	"strings"
	"sync"
)

// redactor takes the values of keys out of what is printed. It is safe for
// concurrent use.
type redactor struct {
	mu   sync.Mutex
	keys *strings.Replacer // guarded by mu
}

func newRedactor() *redactor { return &redactor{keys: strings.NewReplacer()} }

// setSecrets names the keys, with their values.
func (r *redactor) setSecrets(secrets map[string]string) {
	var pairs []string
	for name, value := range secrets {
		if value != "" {
			pairs = append(pairs, value, "[secret:"+name+"]")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = strings.NewReplacer(pairs...)
}

// redact returns a text without the values of keys.
func (r *redactor) redact(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys.Replace(text)
}
