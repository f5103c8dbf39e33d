// Package catalog finds models by names like openai/gpt-4.1: their server, its
// key, their prices and context lengths. Providers come from the environment or
// from a configuration, facts about models from a built-in file and from files
// of your own.
package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/anthropic"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
)

// Config says where providers and facts come from. The zero value uses the
// environment of the process.
type Config struct {
	Environ   []string   // NAME=value; nil: os.Environ()
	Providers []Provider // in addition; they replace those of the environment
	Cards     Cards      // in addition; they replace built-in ones

	// Counter returns a token counter for a model, or for the tokenizer that
	// its card names. The counter's name changes when its counts change; ok is
	// false for unknown names. tiktoken.Counter is one. Nil: package memory
	// estimates.
	Counter func(name string) (count func(session.Message) int, counter string, ok bool)

	Client *http.Client  // for all providers; nil: http.DefaultTransport
	Idle   time.Duration // the longest pause in an answer; 0: the adapter's default
}

// Catalog finds models. It is safe for concurrent use.
type Catalog struct {
	config    Config
	providers map[string]provider
	names     []string // of the providers, sorted
	cards     Cards
	date      time.Time // of the built-in cards

	mu     sync.Mutex // guards models
	models map[string]llm.Model
}

// New reads the environment once. A missing key is not an error here, but in
// Model.
func New(c Config) (*Catalog, error) {
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	cards, date, err := parseCards(builtin)
	if err != nil {
		return nil, fmt.Errorf("built-in model cards: %w", err)
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
	return &Catalog{config: c, providers: providers, names: slices.Sorted(maps.Keys(providers)), cards: cards, date: date, models: map[string]llm.Model{}}, nil
}

// checkTokenizers refuses a card with an unknown tokenizer: its model would
// silently be counted by an estimate.
func (c Config) checkTokenizers(cards Cards) error {
	for _, name := range slices.Sorted(maps.Keys(cards)) {
		tokenizer := cards[name].Tokenizer
		if c.Counter == nil || tokenizer == "" {
			continue
		}
		if _, _, ok := c.Counter(tokenizer); !ok {
			return &session.InvalidError{Field: "models." + name, Reason: fmt.Sprintf("has the unknown tokenizer %q", tokenizer)}
		}
	}
	return nil
}

// maxModels bounds the cache of models: definitions may use any number of names.
const maxModels = 256

// Model returns the model with the name provider/model. It does not check that
// the provider has such a model. An unknown provider is a NotFoundError that
// lists the known ones; a provider without its key is a KeyError. The model is
// llm.Priced only if its price is known, and counts tokens if Config.Counter
// can.
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

// server is a model that can list the other models of its server.
type server interface {
	llm.Model
	lister
}

// maxAnswer is the most tokens of an answer if the session sets no limit.
const maxAnswer = 32_000

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

// split splits a name at its first slash.
func split(name string) (provider, model string, ok bool) {
	provider, model, ok = strings.Cut(name, "/")
	return provider, model, ok && provider != "" && strings.TrimSpace(model) != ""
}

func (c *Catalog) available() []string {
	list := []string{}
	for _, name := range c.names {
		list = append(list, name+"/MODEL")
	}
	return list
}

// withCard adds the facts of a card to a model.
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

// CountTokens counts a message; without a counter its name is empty.
func (m *sizedModel) CountTokens(message session.Message) (tokens int, counter string) {
	if m.count == nil {
		return 0, ""
	}
	return m.count(message), m.counter
}

// ContextLength returns 0 if the length is not known.
func (m *sizedModel) ContextLength() int { return m.context }

type pricedModel struct {
	*sizedModel
	card Card
}

// Cost is what an answer cost.
func (m *pricedModel) Cost(u session.Usage) session.Cost { return m.card.cost(u) }

// Card returns the facts about a model, if there are any.
func (c *Catalog) Card(name string) (Card, bool) {
	card, ok := c.cards[name]
	return card, ok
}

// Date returns the day of the built-in facts.
func (c *Catalog) Date() time.Time { return c.date }

// Secrets returns the keys that were found, by the names of their variables, for
// the runtime to mask. Short values are left out: local servers accept any word
// as a key.
func (c *Catalog) Secrets() map[string]string {
	secrets := map[string]string{}
	for _, p := range c.providers {
		maps.Copy(secrets, p.secrets())
	}
	return secrets
}
