package setup

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/demo"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/anthropic"
	"github.com/holdfast-dev/holdfast/llm/catalog"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// SpecModels finds the models of the specs that are run here.
type SpecModels struct {
	*Setup
	Instead string // the name of a model that is asked in place of those of specs; empty: none

	mu    sync.Mutex
	found map[spec.Connection]llm.Model // guarded by mu
}

// OfflineProvider is the provider of the model that needs nothing.
const OfflineProvider = "offline"

// Env returns what there is to run specs with.
func (e *SpecModels) Env() spec.Env {
	made := spec.Env{Getenv: e.Getenv, Providers: []string{OfflineProvider}}
	if e.Instead != "" {
		made.Reach = func(spec.Model) error {
			_, _, err := e.modelInstead()
			return err
		}
	}
	return made
}

// modelInstead finds the model that is asked in place of those of specs.
func (e *SpecModels) modelInstead() (string, llm.Model, error) {
	if e.Instead == offline.Name {
		pace, err := e.pace()
		return offline.Name, offline.Model{Pace: pace}, err
	}
	if e.Offline {
		return "", nil, e.refuseServer(fmt.Sprintf("the model %q", e.Instead))
	}
	all, err := e.Catalog()
	if err != nil {
		return "", nil, err
	}
	model, err := all.Model(e.Instead)
	return e.Instead, model, err
}

// refuseServer says that something runs on a server where there is to be none.
func (e *SpecModels) refuseServer(what string) error {
	return &UnavailableError{What: what + " runs on a server, and --offline refuses it", Remedy: "run without --offline"}
}

// Model finds a model. It is a workflow.Host's Models.
func (e *SpecModels) Model(m spec.Model) (string, llm.Model, error) {
	if e.Instead != "" {
		return e.modelInstead()
	}
	if m.Provider == OfflineProvider {
		pace, err := e.pace()
		if e.Demo {
			return demo.Name, demo.Model{Pace: pace}, err
		}
		return offline.Name, offline.Model{Pace: pace}, err
	}
	conn, ok := m.Connection(e.Env())
	if !ok { // a spec with such a model is refused before it is run
		return "", nil, &UnavailableError{What: fmt.Sprintf("the provider %q is not set up", m.Provider), Remedy: "see: holdfast models list"}
	}
	name := conn.Provider + "/" + conn.ModelID
	if e.Offline { // of a spec that was changed meanwhile
		return "", nil, e.refuseServer(fmt.Sprintf("the model %q", name))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if model, ok := e.found[conn]; ok {
		return name, model, nil
	}
	model, err := e.connect(conn)
	if err != nil {
		return "", nil, err
	}
	if e.found == nil {
		e.found = map[spec.Connection]llm.Model{}
	}
	e.found[conn] = model
	return name, model, nil
}

// Check refuses a spec with models on servers where there is to be none.
func (e *SpecModels) Check(s *spec.Spec) error {
	if e.Instead != "" {
		return nil // env refuses that one
	}
	for _, a := range s.Agents {
		if e.Offline && s.ModelOf(a.Value).Provider != OfflineProvider {
			return e.refuseServer(fmt.Sprintf("the model of agent %q", a.Name))
		}
	}
	return nil
}

// connect makes a model that costs what the catalog knows it to cost.
func (e *SpecModels) connect(conn spec.Connection) (llm.Model, error) {
	provider := catalog.Provider{Name: catalogName(conn.Provider), Protocol: catalog.OpenAI, URL: conn.BaseURL, KeyEnv: conn.KeyEnv}
	own := openai.DefaultURL
	if conn.Protocol == spec.AnthropicProtocol {
		provider.Protocol, own = catalog.Anthropic, anthropic.DefaultURL
	}
	if provider.URL == "" {
		provider.URL = own
	}
	var (
		all *catalog.Catalog
		err error
	)
	if conn.Provider == "ollama" { // it knows the forms of such an address
		all, err = e.catalogWith([]string{"OLLAMA_HOST=" + strings.TrimSuffix(strings.TrimRight(conn.BaseURL, "/"), "/v1")})
	} else {
		all, err = e.catalogWith(nil, provider)
	}
	if err != nil {
		return nil, err
	}
	return all.Model(provider.Name + "/" + conn.ModelID)
}

// catalogName returns the name of a provider in the form that catalogs take.
func catalogName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

// reference is where a variable's value is to stand.
var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Secrets returns the values that a spec uses and that must stay out of its
// session, by the name of their variable.
func (e *SpecModels) Secrets(s *spec.Spec) map[string]string {
	found := e.likelySecrets()
	add := func(name string) {
		if value := e.Getenv(name); len(value) >= LeastSecret {
			found[name] = value
		}
	}
	for _, secret := range s.Env.Secrets {
		add(secret.Key)
	}
	look := func(values spec.Map[string]) {
		for _, v := range values {
			for _, match := range reference.FindAllStringSubmatch(v.Value, -1) {
				add(SecretVariable(s, match[1]))
			}
		}
	}
	for _, x := range s.Tools.HTTPExecutors {
		look(x.Headers)
	}
	for _, server := range s.Tools.MCP {
		look(server.Env)
		look(server.Headers)
	}
	for _, a := range s.Agents {
		if conn, ok := s.Connection(a.Value, e.Env()); ok && conn.KeyEnv != "" {
			add(conn.KeyEnv)
		}
	}
	return found
}

// SecretVariable returns the variable that ${NAME} means in a spec.
func SecretVariable(s *spec.Spec, name string) string {
	for _, secret := range s.Env.Secrets {
		if secret.Name == name || secret.Key == name {
			return secret.Key
		}
	}
	return name
}
