package setup

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/internal/demo"
	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// AgentSetup is what this command line gives to agents: models, tools and other
// agents.
type AgentSetup struct {
	*toolbox
	Models   models
	Model    string // for definitions that name none
	Agents   agents
	Skills   Skills
	mcp      bool // tool servers may be reached
	Embedder *lazyEmbedder
	warn     func(format string, args ...any)
}

// NewAgentSetup reads the environment and the flags. The caller closes it when no
// agent is working.
func (p *Setup) NewAgentSetup(st store.Store) (*AgentSetup, error) {
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
	o := &AgentSetup{
		toolbox:  tools,
		Models:   models{local: llm.Map{offline.Name: offline.Model{Pace: pace}}, Providers: providers, offline: p.Offline},
		Agents:   agents{Registry: sync.OnceValue(func() *definition.Registry { return p.Registry() })},
		Skills:   p.Skills(),
		mcp:      p.Permissions.mcp,
		Embedder: newLazyEmbedder(),
		warn:     p.Err.Warn,
	}
	o.Model, _ = p.defaultModel(providers)
	if p.Demo {
		o.Models.local[demo.Name] = demo.Model{Pace: pace}
	}
	return o, nil
}

// CheckDefaultModel refuses a model of the environment that could not answer, before
// a session is made that nobody can talk to.
func (o *AgentSetup) CheckDefaultModel() error {
	if o == nil {
		return nil
	}
	_, err := o.Models.Model(o.Model)
	if errors.Is(err, session.ErrNotFound) {
		return &UnknownModelError{By: "HOLDFAST_MODEL", Err: err}
	}
	return err
}

// UnknownModelError is a model that was asked for and that nobody has. By is what
// asked for it. It counts as a definition that cannot be used, as one that names
// such a model.
type UnknownModelError struct {
	By  string
	Err error
}

func (e *UnknownModelError) Error() string { return e.By + ": " + e.Err.Error() }

// Unwrap lets it match as a definition that cannot be used.
func (e *UnknownModelError) Unwrap() []error { return []error{session.ErrDefinition, e.Err} }

// ModelOf returns who answers in a session.
func (o *AgentSetup) ModelOf(s session.Session) string {
	if o == nil {
		return cmp.Or(s.Model(), "the server's default model")
	}
	return cmp.Or(s.Model(), o.Model)
}

// models are those built in and those of providers.
type models struct {
	local     llm.Map
	Providers providers
	offline   bool // only those built in
}

// Model finds a model. A provider without its key is a KeyError.
func (m models) Model(name string) (llm.Model, error) {
	if model, ok := m.local[name]; ok {
		return model, nil
	}
	model, err := m.Providers.Model(name)
	var unknown *session.NotFoundError
	switch {
	case errors.As(err, &unknown):
		return nil, nearMiss(&session.NotFoundError{What: unknown.What, ID: unknown.ID, Available: append(m.local.Names(), unknown.Available...)})
	case m.offline:
		return nil, &UnavailableError{What: fmt.Sprintf("the model %q runs on a server, and --offline refuses it", name), Remedy: "run without --offline"}
	case err != nil:
		return nil, err
	}
	return model, nil
}

// nearMiss adds the model that was likely meant to the error of one whose
// provider is not known.
func nearMiss(unknown *session.NotFoundError) error {
	provider, model, _ := strings.Cut(unknown.ID, "/")
	var providers []string
	for _, name := range unknown.Available {
		known, _, _ := strings.Cut(name, "/")
		providers = append(providers, known)
	}
	if near := document.Nearest(provider, providers); near != "" && model != "" && near != provider {
		return fmt.Errorf("%w; did you mean %s/%s?", unknown, near, model)
	}
	return unknown
}

// agents are the definitions that others may give work to. They are read when
// one is first asked for.
type agents struct{ Registry func() *definition.Registry }

// Get returns the definition of that name.
func (a agents) Get(name string) (session.Definition, error) { return a.Registry().Get(name) }

// UnavailableError is something this command line does not offer, and what
// would change that.
type UnavailableError struct{ What, Remedy string }

func (e *UnavailableError) Error() string { return e.What + ": " + e.Remedy }

// Unwrap lets it match as something that is not set up here.
func (e *UnavailableError) Unwrap() error { return session.ErrUnsupported }

// Explain returns why an agent cannot run, in a way that one can act on: a key
// that is not set, tools that need a flag. Other errors stay as they are.
func (o *AgentSetup) Explain(err error, def session.Definition, model string) error {
	if o == nil || !errors.Is(err, session.ErrDefinition) {
		return err
	}
	return cmp.Or(o.FindMissing(def, model), err)
}

// Missing says what an agent of a server lacks; nil: nothing.
func (o *AgentSetup) Missing(def session.Definition, model string) error {
	if def.Model == "" && model == "" {
		if err := o.CheckDefaultModel(); err != nil {
			return err
		}
	}
	return o.FindMissing(def, model)
}

// FindMissing says what an agent lacks that the command line or the environment
// could give it; nil: nothing.
func (o *AgentSetup) FindMissing(def session.Definition, model string) error {
	if o == nil { // the server says it
		return nil
	}
	if _, err := o.Models.Model(cmp.Or(model, o.Model)); errors.Is(err, session.ErrUnsupported) {
		return err
	}
	for _, name := range def.Tools {
		if flag := FlagFor(name); flag != "" && !o.HasTool(name) {
			return &UnavailableError{What: fmt.Sprintf("the agent %s needs the tool %q", def.Name, name), Remedy: "offer it with " + flag}
		}
	}
	if err := o.missingSkill(def); err != nil {
		return err
	}
	if len(def.MCP) > 0 && !o.mcp {
		return &UnavailableError{What: fmt.Sprintf("the agent %s needs its tool servers", def.Name), Remedy: "start them with --allow-mcp"}
	}
	return nil
}

// HasTool reports whether a tool is among those agents get.
func (o *AgentSetup) HasTool(name string) bool {
	_, ok := o.Tools.Get(name)
	return ok
}
