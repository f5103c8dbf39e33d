package cli

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/internal/demo"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// agentSetup is what this command line gives to agents: models, tools and other
// agents.
type agentSetup struct {
	*toolbox
	models   models
	model    string // for definitions that name none
	agents   agents
	skills   skills
	mcp      bool // tool servers may be reached
	embedder *lazyEmbedder
	warn     func(format string, args ...any)
}

// newAgentSetup reads the environment and the flags. The caller closes it when no
// agent is working.
func (p *program) newAgentSetup(st store.Store) (*agentSetup, error) {
	pace, err := p.pace()
	if err != nil {
		return nil, err
	}
	providers, err := p.providers()
	if err != nil {
		return nil, err
	}
	tools, err := p.openTools(st)
	if err != nil {
		return nil, err
	}
	o := &agentSetup{
		toolbox:  tools,
		models:   models{local: llm.Map{offline.Name: offline.Model{Pace: pace}}, providers: providers, offline: p.offline},
		agents:   agents{registry: sync.OnceValue(func() *definition.Registry { return p.registry() })},
		skills:   p.skills(),
		mcp:      p.permissions.mcp,
		embedder: newLazyEmbedder(),
		warn:     p.err.warn,
	}
	o.model, _ = p.defaultModel(providers)
	if p.demo {
		o.models.local[demo.Name] = demo.Model{Pace: pace}
	}
	return o, nil
}

// checkDefaultModel refuses a model of the environment that could not answer, before
// a session is made that nobody can talk to.
func (o *agentSetup) checkDefaultModel() error {
	if o == nil {
		return nil
	}
	_, err := o.models.Model(o.model)
	if errors.Is(err, session.ErrNotFound) {
		return &unavailableError{what: "HOLDFAST_MODEL: " + err.Error(), remedy: "see: holdfast models list"}
	}
	return err
}

// modelOf returns who answers in a session.
func (o *agentSetup) modelOf(s session.Session) string {
	if o == nil {
		return cmp.Or(s.Model(), "the server's default model")
	}
	return cmp.Or(s.Model(), o.model)
}

// models are those built in and those of providers.
type models struct {
	local     llm.Map
	providers providers
	offline   bool // only those built in
}

// Model finds a model. A provider without its key is a KeyError.
func (m models) Model(name string) (llm.Model, error) {
	if model, ok := m.local[name]; ok {
		return model, nil
	}
	model, err := m.providers.Model(name)
	var unknown *session.NotFoundError
	switch {
	case errors.As(err, &unknown):
		return nil, &session.NotFoundError{What: unknown.What, ID: unknown.ID, Available: append(m.local.Names(), unknown.Available...)}
	case m.offline:
		return nil, &unavailableError{what: fmt.Sprintf("the model %q runs on a server, and --offline refuses it", name), remedy: "run without --offline"}
	case err != nil:
		return nil, err
	}
	return model, nil
}

// agents are the definitions that others may give work to. They are read when
// one is first asked for.
type agents struct{ registry func() *definition.Registry }

// Get returns the definition of that name.
func (a agents) Get(name string) (session.Definition, error) { return a.registry().Get(name) }

// unavailableError is something this command line does not offer, and what
// would change that.
type unavailableError struct{ what, remedy string }

func (e *unavailableError) Error() string { return e.what + ": " + e.remedy }

// Unwrap lets it match as something that is not set up here.
func (e *unavailableError) Unwrap() error { return session.ErrUnsupported }

// explain returns why an agent cannot run, in a way that one can act on: a key
// that is not set, tools that need a flag. Other errors stay as they are.
func (o *agentSetup) explain(err error, def session.Definition, model string) error {
	if o == nil || !errors.Is(err, session.ErrDefinition) {
		return err
	}
	return cmp.Or(o.findMissing(def, model), err)
}

// missing says what an agent of a server lacks; nil: nothing.
func (o *agentSetup) missing(def session.Definition, model string) error {
	if def.Model == "" && model == "" {
		if err := o.checkDefaultModel(); err != nil {
			return err
		}
	}
	return o.findMissing(def, model)
}

// findMissing says what an agent lacks that the command line or the environment
// could give it; nil: nothing.
func (o *agentSetup) findMissing(def session.Definition, model string) error {
	if o == nil { // the server says it
		return nil
	}
	if _, err := o.models.Model(cmp.Or(model, o.model)); errors.Is(err, session.ErrUnsupported) {
		return err
	}
	for _, name := range def.Tools {
		if flag := flagFor(name); flag != "" && !o.hasTool(name) {
			return &unavailableError{what: fmt.Sprintf("the agent %s needs the tool %q", def.Name, name), remedy: "offer it with " + flag}
		}
	}
	if err := o.missingSkill(def); err != nil {
		return err
	}
	if len(def.MCP) > 0 && !o.mcp {
		return &unavailableError{what: fmt.Sprintf("the agent %s needs its tool servers", def.Name), remedy: "start them with --allow-mcp"}
	}
	return nil
}

// hasTool reports whether a tool is among those agents get.
func (o *agentSetup) hasTool(name string) bool {
	_, ok := o.tools.Get(name)
	return ok
}
