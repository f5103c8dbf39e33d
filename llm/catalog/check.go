package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// Status shows the configuration of a provider, without secrets.
type Status struct {
	Name     string   `json:"name"`
	Protocol Protocol `json:"protocol"`
	URL      string   `json:"url"`
	KeyEnv   string   `json:"keyEnv,omitempty"`  // the variable of its key
	Missing  string   `json:"missing,omitempty"` // the variable to set before it can be used
	Known    []string `json:"known,omitempty"`   // its models with a card
}

// Ready reports whether the provider can be used.
func (s Status) Ready() bool { return s.Missing == "" }

// Providers lists the providers by name, ready or not.
func (c *Catalog) Providers() []Status {
	var list []Status
	for _, name := range c.names {
		p := c.providers[name]
		s := Status{Name: name, Protocol: p.Protocol, URL: p.address(), KeyEnv: p.KeyEnv, Missing: p.missing()}
		for model := range c.cards {
			if strings.HasPrefix(model, name+"/") {
				s.Known = append(s.Known, model)
			}
		}
		slices.Sort(s.Known)
		list = append(list, s)
	}
	return list
}

// Health is the result of a check.
type Health struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model,omitempty"`  // that answered
	Models   []string      `json:"models,omitempty"` // that the provider offers
	Took     time.Duration `json:"took"`
	Usage    session.Usage `json:"usage"`
	Cost     session.Cost  `json:"cost"`
}

// lister is an adapter that can list its server's models.
type lister interface {
	Models(ctx context.Context) ([]string, error)
}

// checkTokens limits the answer to a check.
const checkTokens = 16

// Check asks a provider for its models, which is free, or, for provider/model,
// asks that model for one word. Errors are those of Model and of the server.
func (c *Catalog) Check(ctx context.Context, name string) (Health, error) {
	start := time.Now()
	if strings.Contains(name, "/") {
		h, err := c.checkModel(ctx, name)
		h.Took = time.Since(start)
		return h, err
	}
	p, ok := c.providers[name]
	if !ok {
		return Health{}, &session.NotFoundError{What: "provider", ID: name, Available: c.names}
	}
	if missing := p.missing(); missing != "" {
		return Health{}, &KeyError{Provider: name, Variable: missing}
	}
	server, err := c.open(p, "any", Card{}) // the list does not depend on a model
	if err != nil {
		return Health{}, fmt.Errorf("provider %q: %w", name, err)
	}
	models, err := server.Models(ctx)
	var refused *llm.ProviderError
	if errors.As(err, &refused) {
		refused.Model = ""
	}
	return Health{Provider: name, Models: models, Took: time.Since(start)}, err
}

func (c *Catalog) checkModel(ctx context.Context, name string) (Health, error) {
	m, err := c.Model(name)
	if err != nil {
		return Health{}, err
	}
	most := checkTokens
	response, err := m.Infer(ctx, llm.Request{
		Model: name, Params: session.ModelParams{MaxOutputTokens: &most},
		Messages: []session.Message{{ID: "check", Role: session.RoleUser, Content: session.Text("Say ok.")}},
	}, nil)
	if err != nil {
		return Health{}, err
	}
	provider, _, _ := split(name)
	h := Health{Provider: provider, Model: response.Model, Usage: response.Usage, Cost: response.Cost}
	if priced, ok := m.(llm.Priced); ok {
		h.Cost = priced.Cost(response.Usage)
	}
	return h, nil
}
