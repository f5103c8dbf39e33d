package setup

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

// Catalog has the providers of the environment, what is known of models, and
// what the user knows better.
func (p *Setup) Catalog() (*catalog.Catalog, error) { return p.catalogWith(nil) }

// catalogWith returns a catalog with further variables and providers, which win.
func (p *Setup) catalogWith(variables []string, more ...catalog.Provider) (*catalog.Catalog, error) {
	c := catalog.Config{Environ: slices.Concat([]string{}, p.environ, variables), Providers: more, Counter: tiktoken.Counter}
	if path := p.Getenv("HOLDFAST_MODEL_CARDS"); path != "" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("HOLDFAST_MODEL_CARDS: %w", err)
		}
		c.Cards, _, err = catalog.ReadCards(file)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("HOLDFAST_MODEL_CARDS %s: %w", path, err)
		}
	}
	if text := p.Getenv("HOLDFAST_MODEL_SILENCE"); text != "" {
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
	Secrets map[string]string
}

// providers reads the environment. What is wrong there is an error only for
// commands on which agents run.
func (p *Setup) providers() (providers, error) {
	all, wrong := p.Catalog()
	if wrong == nil {
		return providers{Catalog: all, Secrets: all.Secrets()}, nil
	}
	if p.AgentsRun {
		return providers{}, wrong
	}
	p.Err.Warn("the models of providers cannot be used: %v", wrong)
	bare, err := catalog.New(catalog.Config{Environ: []string{}})
	return providers{Catalog: bare, wrong: wrong, Secrets: p.likelySecrets()}, err
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
func (p *Setup) defaultModel(given providers) (model, from string) {
	if model := p.Getenv("HOLDFAST_MODEL"); model != "" {
		return model, "HOLDFAST_MODEL"
	}
	for _, status := range given.Providers() {
		if model, ok := defaultModels[status.Name]; ok && p.Getenv(status.KeyEnv) != "" && !p.Offline && given.wrong == nil {
			return model, status.KeyEnv
		}
	}
	return offline.Name, "default"
}

// LeastSecret is how long a value must be to be masked: shorter ones turn up by
// chance.
const LeastSecret = 8

// likelySecrets returns the keys in an environment that was not understood: those
// with the name of one, and those that a provider's variables name.
func (p *Setup) likelySecrets() map[string]string {
	secrets := map[string]string{}
	add := func(name, value string) {
		if len(value) >= LeastSecret {
			secrets[name] = value
		}
	}
	for _, variable := range p.environ {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasSuffix(name, "_API_KEY") {
			add(name, value)
		}
		if strings.HasPrefix(name, "HOLDFAST_PROVIDER_") && strings.HasSuffix(name, "_KEY_ENV") {
			add(value, p.Getenv(value))
		}
	}
	return secrets
}

// ContextLength returns how many tokens fit into a model, 0 where that is not known.
func (o *AgentSetup) ContextLength(name string) int {
	model, err := o.Models.Model(name)
	if err != nil {
		return 0
	}
	if sized, ok := model.(llm.ContextLength); ok {
		return sized.ContextLength()
	}
	return 0
}

// ModelOffer is what models there are.
type ModelOffer struct {
	Date      string           `json:"date"` // of the prices
	Providers []catalog.Status `json:"providers"`
	Models    []offeredModel   `json:"models"`
}

type offeredModel struct {
	Name    string         `json:"name"`
	Context int            `json:"context"` // tokens; 0: not known
	Output  int            `json:"output"`
	Price   *catalog.Price `json:"price"` // of a million tokens; null: not known
}

// OfferOf collects what a catalog has, with the models of all providers or of
// those that are ready.
func OfferOf(c *catalog.Catalog, all bool) ModelOffer {
	o := ModelOffer{Date: c.Date().Format(time.DateOnly), Providers: c.Providers()}
	o.Models = []offeredModel{{Name: offline.Name, Price: &catalog.Price{}}}
	for _, provider := range o.Providers {
		if !all && !provider.Ready() {
			continue
		}
		for _, name := range provider.Known {
			card, _ := c.Card(name)
			o.Models = append(o.Models, offeredModel{Name: name, Context: card.Context, Output: card.Output, Price: card.Price})
		}
	}
	return o
}

// UsableProviders returns the providers that somebody has set up: those that are ready, but
// of a server that is only looked for in its usual place not even that.
func (p *Setup) UsableProviders(c *catalog.Catalog) []string {
	var names []string
	for _, provider := range c.Providers() {
		if provider.Ready() && (provider.Name != "ollama" || p.Getenv("OLLAMA_HOST") != "") {
			names = append(names, provider.Name)
		}
	}
	return names
}

// ModelNames lists the models that can be used.
func (o *AgentSetup) ModelNames() []string {
	names := o.Models.local.Names()
	for _, m := range OfferOf(o.Models.Providers.Catalog, false).Models {
		if !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}
