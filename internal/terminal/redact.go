package terminal

import (
	"strings"
	"sync"
)

// Redactor takes the values of keys out of what is printed. It is safe for
// concurrent use.
type Redactor struct {
	mu   sync.Mutex
	keys *strings.Replacer // guarded by mu
}

// NewRedactor returns one that knows no keys yet.
func NewRedactor() *Redactor { return &Redactor{keys: strings.NewReplacer()} }

// SetSecrets names the keys, with their values.
func (r *Redactor) SetSecrets(secrets map[string]string) {
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

// Redact returns a text without the values of keys.
func (r *Redactor) Redact(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys.Replace(text)
}
