package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/catalog"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/llm/tiktoken"
	"github.com/holdfast-dev/holdfast/session"
)

// catalog has the providers of the environment, what is known of models, and
// what the user knows better.
func (p *program) catalog() (*catalog.Catalog, error) { return p.catalogWith(nil) }

// catalogWith returns a catalog with further variables and providers, which win.
func (p *program) catalogWith(variables []string, more ...catalog.Provider) (*catalog.Catalog, error) {
	c := catalog.Config{Environ: slices.Concat([]string{}, p.environ, variables), Providers: more, Counter: tiktoken.Counter}
	if path := p.getenv("HOLDFAST_MODEL_CARDS"); path != "" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("HOLDFAST_MODEL_CARDS: %w", err)
		}
		c.Cards, _, err = catalog.ReadCards(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("HOLDFAST_MODEL_CARDS %s: %w", path, err)
		}
	}
	if text := p.getenv("HOLDFAST_MODEL_SILENCE"); text != "" {
		silence, err := time.ParseDuration(text)
		if err != nil || silence <= 0 {
			return nil, &session.InvalidError{Field: "HOLDFAST_MODEL_SILENCE", Reason: fmt.Sprintf("%q is not a duration such as 20m", text)}
		}
		c.Idle = silence
	}
	return catalog.New(c)
}

// providers are those of the environment. Where that cannot be right, asking
// for one of their models returns why; everything else works.
type providers struct {
	*catalog.Catalog
	wrong   error // nil: nothing is
	secrets map[string]string
}

// providers reads the environment. What is wrong there is an error only for
// commands on which agents run.
func (p *program) providers() (providers, error) {
	all, wrong := p.catalog()
	if wrong == nil {
		return providers{Catalog: all, secrets: all.Secrets()}, nil
	}
	if p.agentsRun {
		return providers{}, wrong
	}
	p.err.warn("the models of providers cannot be used: %v", wrong)
	bare, err := catalog.New(catalog.Config{Environ: []string{}})
	return providers{Catalog: bare, wrong: wrong, secrets: p.likelySecrets()}, err
}

// Model returns a model of a provider.
func (s providers) Model(name string) (llm.Model, error) {
	if s.wrong != nil {
		return nil, s.wrong
	}
	return s.Catalog.Model(name)
}

// defaultModels are the models of providers that answer where nobody names one:
// of each provider one that does well at a middling price.
var defaultModels = map[string]string{"anthropic": "anthropic/claude-sonnet-5-5", "openai": "openai/gpt-5.4"}

// defaultModel returns the model of agents that name none, and why it is that
// one: a setting, the key of a provider, or nothing at all.
func (p *program) defaultModel(given providers) (model, from string) {
	if model := p.getenv("HOLDFAST_MODEL"); model != "" {
		return model, "HOLDFAST_MODEL"
	}
	for _, status := range given.Providers() {
		if model, ok := defaultModels[status.Name]; ok && p.getenv(status.KeyEnv) != "" && !p.offline && given.wrong == nil {
			return model, status.KeyEnv
		}
	}
	return offline.Name, "default"
}

// leastSecret is how long a value must be to be masked: shorter ones turn up by
// chance.
const leastSecret = 8

// likelySecrets returns the keys in an environment that was not understood: those
// with the name of one, and those that a provider's variables name.
func (p *program) likelySecrets() map[string]string {
	secrets := map[string]string{}
	add := func(name, value string) {
		if len(value) >= leastSecret {
			secrets[name] = value
		}
	}
	for _, variable := range p.environ {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasSuffix(name, "_API_KEY") {
			add(name, value)
		}
		if strings.HasPrefix(name, "HOLDFAST_PROVIDER_") && strings.HasSuffix(name, "_KEY_ENV") {
			add(value, p.getenv(value))
		}
	}
	return secrets
}
