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

// Status is how a provider is set up. It holds no secret.
type Status struct {
	Name     string   `json:"name"`
	Protocol Protocol `json:"protocol"`
	URL      string   `json:"url"`
	KeyEnv   string   `json:"keyEnv,omitempty"`  // the variable its key comes from
	Missing  string   `json:"missing,omitempty"` // the variable to set before it can be used
	Known    []string `json:"known,omitempty"`   // its models of which something is known
}

// Ready reports a provider that can be asked.
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

// Health is what a check found.
type Health struct {
	Provider string        `json:"provider"`
	Model    string        `json:"model,omitempty"`  // that answered
	Models   []string      `json:"models,omitempty"` // that the provider offers
	Took     time.Duration `json:"took"`
	Usage    session.Usage `json:"usage"`
	Cost     session.Cost  `json:"cost"`
}

// lister is an adapter that can ask its server what it offers.
type lister interface {
	Models(ctx context.Context) ([]string, error)
}

// checkTokens is how long the answer to a check may be.
const checkTokens = 16

// Check asks a provider for its models, which costs nothing, or with
// provider/model that model for a word. Errors are those of Model and of the
// model itself.
func (c *Catalog) Check(ctx context.Context, name string) (Health, error) {
	began := time.Now()
	if strings.Contains(name, "/") {
		h, err := c.checkModel(ctx, name)
		h.Took = time.Since(began)
		return h, err
	}
	p, ok := c.providers[name]
	if !ok {
		return Health{}, &session.NotFoundError{What: "provider", ID: name, Available: c.names}
	}
	if missing := p.missing(); missing != "" {
		return Health{}, &KeyError{Provider: name, Variable: missing}
	}
	server, err := c.open(p, "any", Card{}) // a list of models is no model's
	if err != nil {
		return Health{}, fmt.Errorf("provider %q: %w", name, err)
	}
	models, err := server.Models(ctx)
	var told *llm.ProviderError
	if errors.As(err, &told) {
		told.Model = ""
	}
	return Health{Provider: name, Models: models, Took: time.Since(began)}, err
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
