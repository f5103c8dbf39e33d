package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/demo"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/anthropic"
	"github.com/holdfast-dev/holdfast/llm/catalog"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/mcp"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// engine finds the models of the specs that are run here.
type engine struct {
	*program
	instead string // the name of a model that is asked in place of those of specs; empty: none

	mu    sync.Mutex
	found map[spec.Connection]llm.Model // guarded by mu
}

// offlineProvider is the provider of the model that needs nothing.
const offlineProvider = "offline"

// env returns what there is to run specs with.
func (e *engine) env() spec.Env {
	made := spec.Env{Getenv: e.getenv, Providers: []string{offlineProvider}}
	if e.instead != "" {
		made.Reach = func(spec.Model) error {
			_, _, err := e.modelInstead()
			return err
		}
	}
	return made
}

// modelInstead finds the model that is asked in place of those of specs.
func (e *engine) modelInstead() (string, llm.Model, error) {
	if e.instead == offline.Name {
		pace, err := e.pace()
		return offline.Name, offline.Model{Pace: pace}, err
	}
	if e.offline {
		return "", nil, e.refuseServer(fmt.Sprintf("the model %q", e.instead))
	}
	all, err := e.catalog()
	if err != nil {
		return "", nil, err
	}
	model, err := all.Model(e.instead)
	return e.instead, model, err
}

// refuseServer says that something runs on a server where there is to be none.
func (e *engine) refuseServer(what string) error {
	return &unavailableError{what: what + " runs on a server, and --offline refuses it", remedy: "run without --offline"}
}

// model finds a model. It is a workflow.Host's Models.
func (e *engine) model(m spec.Model) (string, llm.Model, error) {
	if e.instead != "" {
		return e.modelInstead()
	}
	if m.Provider == offlineProvider {
		pace, err := e.pace()
		if e.demo {
			return demo.Name, demo.Model{Pace: pace}, err
		}
		return offline.Name, offline.Model{Pace: pace}, err
	}
	conn, ok := m.Connection(e.env())
	if !ok { // a spec with such a model is refused before it is run
		return "", nil, &unavailableError{what: fmt.Sprintf("the provider %q is not set up", m.Provider), remedy: "see: holdfast models list"}
	}
	name := conn.Provider + "/" + conn.ModelID
	if e.offline { // of a spec that was changed meanwhile
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

// check refuses a spec with models on servers where there is to be none.
func (e *engine) check(s *spec.Spec) error {
	if e.instead != "" {
		return nil // env refuses that one
	}
	for _, a := range s.Agents {
		if e.offline && s.ModelOf(a.Value).Provider != offlineProvider {
			return e.refuseServer(fmt.Sprintf("the model of agent %q", a.Name))
		}
	}
	return nil
}

// connect makes a model that costs what the catalog knows it to cost.
func (e *engine) connect(conn spec.Connection) (llm.Model, error) {
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

// secrets returns the values that a spec uses and that must stay out of its
// session, by the name of their variable.
func (e *engine) secrets(s *spec.Spec) map[string]string {
	found := e.likelySecrets()
	add := func(name string) {
		if value := e.getenv(name); len(value) >= leastSecret {
			found[name] = value
		}
	}
	for _, secret := range s.Env.Secrets {
		add(secret.Key)
	}
	look := func(values spec.Map[string]) {
		for _, v := range values {
			for _, match := range reference.FindAllStringSubmatch(v.Value, -1) {
				add(secretVariable(s, match[1]))
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
		if conn, ok := s.Connection(a.Value, e.env()); ok && conn.KeyEnv != "" {
			add(conn.KeyEnv)
		}
	}
	return found
}

// secretVariable returns the variable that ${NAME} means in a spec.
func secretVariable(s *spec.Spec, name string) string {
	for _, secret := range s.Env.Secrets {
		if secret.Name == name || secret.Key == name {
			return secret.Key
		}
	}
	return name
}

// kit is the tools of a run: those that come with the program, and those of
// the spec's tool servers.
type kit struct {
	box    *tools.Box
	served []tool.Tool
	links  []io.Closer
}

// kit makes the tools of a run. A server that does not start is told of, and
// its tools are missing.
func (j *job) kit(ctx context.Context, s *spec.Spec, snap *spec.Snapshot) (workflow.Toolbox, error) {
	box, err := tools.New(tools.Config{
		Spec: s, Snapshot: snap, AllowPaths: j.order.paths, HTTP: j.http, NoWeb: j.noWeb, Getenv: j.getenv,
		Providers: []string{offlineProvider}, Now: j.now, Warn: func(text string) { j.view.warn("%s", text) },
	})
	if err != nil {
		return nil, err
	}
	k := &kit{box: box}
	if g := s.Security.Guardrails; g != nil && g.DenyNetwork {
		return k, nil
	}
	patience, err := j.startupTimeout()
	if err != nil {
		return nil, err
	}
	servers := make([]struct {
		tools []tool.Tool
		link  io.Closer
		err   error
	}, len(s.Tools.MCP))
	var all sync.WaitGroup
	for i, server := range s.Tools.MCP {
		all.Go(func() {
			at := &servers[i]
			at.tools, at.link, at.err = mcp.Config{Dir: ".", StartTimeout: patience, LookupEnv: func(name string) (string, bool) {
				value := j.getenv(secretVariable(s, name))
				return value, value != ""
			}}.Dial(ctx, session.MCPServer{
				ID: server.ID, Command: server.Command, Args: server.Args, Env: asMap(server.Env), URL: server.URL, Headers: asMap(server.Headers),
			})
		})
	}
	all.Wait()
	for i, at := range servers {
		if at.err != nil {
			j.view.warn("the tool server %s is not there: %v", s.Tools.MCP[i].ID, at.err)
			continue
		}
		k.served, k.links = append(k.served, box.FromServer(s.Tools.MCP[i].ID, at.tools)...), append(k.links, at.link)
	}
	return k, nil
}

// startupTimeout returns how long a tool server has to start.
func (p *program) startupTimeout() (time.Duration, error) {
	text := p.getenv("MCP_STARTUP_TIMEOUT_S")
	if text == "" {
		return 30 * time.Second, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds <= 0 || seconds > 3600 {
		return 0, &session.InvalidError{Field: "MCP_STARTUP_TIMEOUT_S", Reason: fmt.Sprintf("%q is not a number of seconds up to 3600", text)}
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// For returns the tools of a unit.
func (k *kit) For(names []string, listed bool, loaded func(skill string) bool) ([]tool.Tool, error) {
	return slices.Concat(k.box.Loaded(loaded).For(names, listed), k.served), nil
}

// Close ends the tool servers.
func (k *kit) Close() error {
	var errs []error
	for _, link := range k.links {
		errs = append(errs, link.Close())
	}
	return errors.Join(errs...)
}
