package catalog

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/llm/anthropic"
	"github.com/holdfast-dev/holdfast/llm/openai"
	"github.com/holdfast-dev/holdfast/session"
)

// Protocol is the API of a server.
type Protocol string

// The protocols.
const (
	OpenAI    Protocol = "openai" // Chat Completions, which most servers speak
	Anthropic Protocol = "anthropic"
)

// Provider is a server of models.
type Provider struct {
	Name     string // the part of a model's name before the slash
	Protocol Protocol
	URL      string // for OpenAI with /v1 or the server's equivalent
	KeyEnv   string // the variable with the key; empty: no key needed
	Key      string // instead of the variable
	Header   http.Header

	ReasoningField string // see openai.Config
	TellsCost      bool   // see openai.Config
}

// KeyError says which variable to set for a provider's key.
type KeyError struct{ Provider, Variable string }

func (e *KeyError) Error() string {
	return fmt.Sprintf("provider %q has no key: set %s", e.Provider, e.Variable)
}

// Unwrap makes a KeyError match ErrUnsupported: not configured here.
func (e *KeyError) Unwrap() error { return session.ErrUnsupported }

// provider is a Provider with its key.
type provider struct {
	Provider
	keyless bool // it may be used without a key
}

func (p provider) missing() string {
	if p.Key != "" || p.keyless {
		return ""
	}
	return p.KeyEnv
}

// minSecret is the shortest value that the runtime masks.
const minSecret = 8

func (p provider) secrets() map[string]string {
	found := map[string]string{}
	add := func(name, value string) {
		if len(value) >= minSecret {
			found[name] = value
		}
	}
	name := p.KeyEnv
	if name == "" {
		name = p.Name + " key"
	}
	add(name, p.Key)
	if u, err := url.Parse(p.URL); err == nil {
		password, _ := u.User.Password()
		add(p.Name+" password", password)
		for key, values := range u.Query() {
			if session.SecretKey(key) || key == "key" {
				add(p.Name+" "+key, strings.Join(values, ""))
			}
		}
	}
	return found
}

// address returns the URL without credentials.
func (p provider) address() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// environment holds variables by name. A blank variable counts as not set.
type environment map[string]string

func readEnvironment(environ []string) environment {
	env := environment{}
	for _, line := range environ {
		name, value, _ := strings.Cut(line, "=")
		if value = strings.TrimSpace(value); value != "" {
			env[name] = value
		}
	}
	return env
}

// findProviders collects the built-in providers, those of the environment and
// those of the configuration; a later one replaces an earlier one of its name.
func findProviders(c Config) (map[string]provider, error) {
	env := readEnvironment(c.Environ)
	named, err := env.named()
	if err != nil {
		return nil, err
	}
	found := map[string]provider{}
	for _, p := range slices.Concat(env.wellKnown(), named) {
		found[p.Name] = p
	}
	for _, given := range c.Providers {
		found[given.Name] = provider{Provider: given, keyless: given.KeyEnv == ""}
	}
	for name, p := range found {
		if p.Key == "" {
			p.Key = env[p.KeyEnv]
		}
		if err := p.check(); err != nil {
			return nil, err
		}
		found[name] = p
	}
	return found, nil
}

// wellKnown lists the providers that need only a key. With another server in
// their place even the key is optional.
func (env environment) wellKnown() []provider {
	list := []provider{
		{Provider: Provider{Name: "openai", Protocol: OpenAI, URL: openai.DefaultURL, KeyEnv: "OPENAI_API_KEY"}},
		{Provider: Provider{Name: "anthropic", Protocol: Anthropic, URL: anthropic.DefaultURL, KeyEnv: "ANTHROPIC_API_KEY"}},
		{Provider: Provider{Name: "openrouter", Protocol: OpenAI, URL: "https://openrouter.ai/api/v1", KeyEnv: "OPENROUTER_API_KEY", TellsCost: true}},
		{Provider: Provider{Name: "ollama", Protocol: OpenAI, URL: ollamaURL(env["OLLAMA_HOST"])}, keyless: true},
	}
	for i, variable := range []string{"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"} {
		if own, ok := env[variable]; ok {
			list[i].URL, list[i].keyless = own, true
		}
	}
	return list
}

// ollamaURL reads the value of OLLAMA_HOST: a host, a port or both, with or
// without a scheme.
func ollamaURL(host string) string {
	scheme, rest, found := strings.Cut(host, "://")
	if !found {
		scheme, rest = "http", host
	}
	rest, path, _ := strings.Cut(rest, "/")
	name, port, err := net.SplitHostPort(rest)
	if err != nil {
		name, port = strings.Trim(rest, "[]"), "11434"
		if found { // with a scheme the scheme's port applies
			return strings.TrimSuffix(scheme+"://"+rest+"/"+path, "/") + "/v1"
		}
	}
	if name == "" || name == "0.0.0.0" || name == "::" { // it listens there, but is reached at localhost
		name = "127.0.0.1"
	}
	return strings.TrimSuffix(scheme+"://"+net.JoinHostPort(name, port)+"/"+path, "/") + "/v1"
}

// providerVariable configures any other server: its URL, the variable with its
// key if it needs one, and its protocol if that is not OpenAI's.
var providerVariable = regexp.MustCompile(`^HOLDFAST_PROVIDER_([A-Z0-9]+(?:_[A-Z0-9]+)*?)_(URL|KEY_ENV|PROTOCOL)$`)

func (env environment) named() ([]provider, error) {
	found := map[string]*provider{}
	for variable, value := range env {
		parts := providerVariable.FindStringSubmatch(variable)
		if len(parts) != 3 {
			continue
		}
		name := strings.ToLower(strings.ReplaceAll(parts[1], "_", "-"))
		if found[name] == nil {
			found[name] = &provider{Provider: Provider{Name: name, Protocol: OpenAI}, keyless: true}
		}
		switch p := found[name]; parts[2] {
		case "URL":
			p.URL = value
		case "KEY_ENV":
			p.KeyEnv, p.keyless = value, false
		case "PROTOCOL":
			p.Protocol = Protocol(value)
		}
	}
	var list []provider
	for _, name := range slices.Sorted(maps.Keys(found)) {
		p := found[name]
		if p.URL == "" {
			variable := "HOLDFAST_PROVIDER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_URL"
			return nil, &session.InvalidError{Field: variable, Reason: "is not set, but other variables of this provider are"}
		}
		list = append(list, *p)
	}
	return list, nil
}

var (
	providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// check refuses an invalid provider. The error contains no value of a variable:
// a key may be set there by mistake.
func (p provider) check() error {
	bad := func(format string, args ...any) error {
		return &session.InvalidError{Field: fmt.Sprintf("provider %q", p.Name), Reason: fmt.Sprintf(format, args...)}
	}
	if !providerName.MatchString(p.Name) {
		return bad("may have only lower case letters, digits, dots, hyphens and underscores")
	}
	if p.Protocol != OpenAI && p.Protocol != Anthropic {
		return bad("the protocol must be %s or %s", OpenAI, Anthropic)
	}
	if p.KeyEnv != "" && !variableName.MatchString(p.KeyEnv) {
		return bad("KeyEnv must be the name of a variable, not the key itself")
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return bad("the URL must be an http or https address")
	}
	return nil
}
