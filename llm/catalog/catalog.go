// Package catalog finds models by names like openai/gpt-4.1: which server they
// are on, the key to it, what they cost and how much they take in. Providers
// come from the environment or from a configuration, facts about models from a
// file this package is built with and from files of one's own.
package catalog

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/anthropic"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
)

// Config says where to look. The zero value looks into the environment of the
// process.
type Config struct {
	Environ   []string   // NAME=value; nil: os.Environ()
	Providers []Provider // besides those of the environment, and before them
	Cards     Cards      // besides those built in, and before them

	// Counter is how tokens are counted for a model, or for the tokenizer that
	// its card names. The name changes whenever the counts do; ok is false for
	// what it does not know. tiktoken.Counter is one. Nil: nobody counts, and
	// memory estimates.
	Counter func(name string) (count func(session.Message) int, counter string, ok bool)

	Client *http.Client  // for all providers; nil: http.DefaultTransport
	Idle   time.Duration // longest silence of a server; 0: the adapter's default
}

// Catalog finds models. It is safe for concurrent use.
type Catalog struct {
	config    Config
	providers map[string]provider
	names     []string // of the providers, sorted
	cards     Cards
	date      time.Time // of the cards built in

	mu     sync.Mutex // guards models
	models map[string]llm.Model
}

// New reads the environment once. Keys that are missing are no error yet: see
// Model.
func New(c Config) (*Catalog, error) {
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	cards, date, err := parseCards(builtin)
	if err != nil {
		return nil, fmt.Errorf("the cards built in: %w", err)
	}
	for name, card := range c.Cards {
		if err := card.check(name); err != nil {
			return nil, err
		}
		cards[name] = card
	}
	if err := c.checkTokenizers(cards); err != nil {
		return nil, err
	}
	providers, err := findProviders(c)
	if err != nil {
		return nil, err
	}
	return &Catalog{config: c, providers: providers, names: sortedNames(providers), cards: cards, date: date, models: map[string]llm.Model{}}, nil
}

// checkTokenizers refuses a card with a tokenizer that the counter does not
// know: its model would be counted by an estimate and nobody told.
func (c Config) checkTokenizers(cards Cards) error {
	for _, name := range sortedNames(cards) {
		tokenizer := cards[name].Tokenizer
		if c.Counter == nil || tokenizer == "" {
			continue
		}
		if _, _, ok := c.Counter(tokenizer); !ok {
			return &session.InvalidError{Field: "models." + name, Reason: fmt.Sprintf("has a tokenizer that is not known: %q", tokenizer)}
		}
	}
	return nil
}

// maxModels is how many models are kept at hand: names come from definitions,
// and there is no end to those.
const maxModels = 256

// Model is the model of that name, provider/model. Whether the provider has
// such a model only asking it shows. A provider nobody has set up is a
// NotFoundError with the names of those there are; one without its key is a
// KeyError. The model is llm.Priced only if its price is known, and counts
// tokens where Config.Counter can.
func (c *Catalog) Model(name string) (llm.Model, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m, ok := c.models[name]; ok {
		return m, nil
	}
	providerName, modelName, ok := split(name)
	p, known := c.providers[providerName]
	if !ok || !known {
		return nil, &session.NotFoundError{What: "model", ID: name, Available: c.available()}
	}
	if missing := p.missing(); missing != "" {
		return nil, &KeyError{Provider: p.Name, Variable: missing}
	}
	card := c.cards[name]
	m, err := c.open(p, modelName, card)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", name, err)
	}
	if len(c.models) >= maxModels {
		clear(c.models)
	}
	c.models[name] = c.withCard(m, name, card)
	return c.models[name], nil
}

// server is a model that can tell which others there are beside it.
type server interface {
	llm.Model
	lister
}

// maxAnswer is the longest answer that is asked for where nobody said how
// long: enough for any, and no licence to go on for ever.
const maxAnswer = 32_000

// open makes a model on a provider's server.
func (c *Catalog) open(p provider, model string, card Card) (server, error) {
	if p.Protocol == Anthropic {
		return anthropic.New(anthropic.Config{
			Model: model, Provider: p.Name, URL: p.URL, Key: p.Key, Header: p.Header, MaxTokens: min(card.Output, maxAnswer),
			Client: c.config.Client, Idle: c.config.Idle,
		})
	}
	return openai.New(openai.Config{
		Model: model, Provider: p.Name, URL: p.URL, Key: p.Key, Header: p.Header, ReasoningField: p.ReasoningField, TellsCost: p.TellsCost,
		Client: c.config.Client, Idle: c.config.Idle,
	})
}

// split parts a name at its first slash.
func split(name string) (provider, model string, ok bool) {
	provider, model, ok = strings.Cut(name, "/")
	return provider, model, ok && provider != "" && strings.TrimSpace(model) != ""
}

// available is how models may be named, one line for each provider.
func (c *Catalog) available() []string {
	list := []string{}
	for _, name := range c.names {
		list = append(list, name+"/MODEL")
	}
	return list
}

// withCard is the model with what is known of it.
func (c *Catalog) withCard(m llm.Model, name string, card Card) llm.Model {
	sized := &sizedModel{Model: m, context: card.Context}
	if c.config.Counter != nil {
		sized.count, sized.counter, _ = c.config.Counter(cmp.Or(card.Tokenizer, name))
	}
	if card.Price == nil {
		return sized
	}
	return &pricedModel{sizedModel: sized, card: card}
}

type sizedModel struct {
	llm.Model
	context int
	count   func(session.Message) int // nil: not known
	counter string
}

// CountTokens counts a message; without a counter by none.
func (m *sizedModel) CountTokens(message session.Message) (tokens int, counter string) {
	if m.count == nil {
		return 0, ""
	}
	return m.count(message), m.counter
}

// ContextLength is how many tokens the model takes, 0 where that is not known.
func (m *sizedModel) ContextLength() int { return m.context }

type pricedModel struct {
	*sizedModel
	card Card
}

// Cost is what an answer cost.
func (m *pricedModel) Cost(u session.Usage) session.Cost { return m.card.cost(u) }

// Card is what is known of a model, which may be nothing.
func (c *Catalog) Card(name string) (Card, bool) {
	card, ok := c.cards[name]
	return card, ok
}

// Date is the day of which the prices built in are.
func (c *Catalog) Date() time.Time { return c.date }

// Secrets are the values of the keys that were found, by the names of their
// variables, for the runtime to mask. Values so short that they are ordinary
// words are left out: local servers take anything as a key.
func (c *Catalog) Secrets() map[string]string {
	secrets := map[string]string{}
	for _, p := range c.providers {
		for name, value := range p.secrets() {
			secrets[name] = value
		}
	}
	return secrets
}
