package catalog

import (
	"fmt"
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

// Protocol is the language of a server.
type Protocol string

// The protocols.
const (
	OpenAI    Protocol = "openai" // Chat Completions, which most servers speak
	Anthropic Protocol = "anthropic"
)

// Provider is a server of models.
type Provider struct {
	Name     string // before the slash of a model's name
	Protocol Protocol
	URL      string // OpenAI: with /v1 or what stands for it
	KeyEnv   string // the variable that holds the key; empty: it needs none
	Key      string // in place of the variable
	Header   http.Header

	ReasoningField string // see openai.Config
	TellsCost      bool   // see openai.Config
}

// KeyError is a provider whose key is not set. It names the variable to set.
type KeyError struct{ Provider, Variable string }

func (e *KeyError) Error() string {
	return fmt.Sprintf("provider %q has no key: set %s", e.Provider, e.Variable)
}

// Unwrap lets a KeyError match as something that is not set up here.
func (e *KeyError) Unwrap() error { return session.ErrUnsupported }

// provider is a Provider with its key.
type provider struct {
	Provider
	keyless bool // it may do without
}

func (p provider) missing() string {
	if p.Key != "" || p.keyless {
		return ""
	}
	return p.KeyEnv
}

// minSecret is the length below which the runtime takes nothing for a secret.
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

// address is the URL as it may be shown.
func (p provider) address() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// environment is the process's variables. A variable that is blank is not set.
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

// findProviders are those built in, then those of the environment, then those
// of the configuration; a later one takes the place of an earlier one.
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

// wellKnown are the providers that need no more than a key. A server of one's
// own in place of theirs may need none.
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

// ollamaURL is the address of a server as Ollama's own variable names it: a
// host, a port or both, with or without a scheme.
func ollamaURL(host string) string {
	scheme, rest, found := strings.Cut(host, "://")
	if !found {
		scheme, rest = "http", host
	}
	rest, path, _ := strings.Cut(rest, "/")
	name, port, err := net.SplitHostPort(rest)
	if err != nil {
		name, port = strings.Trim(rest, "[]"), "11434"
		if found { // an address with a scheme has its scheme's port
			return strings.TrimSuffix(scheme+"://"+rest+"/"+path, "/") + "/v1"
		}
	}
	if name == "" || name == "0.0.0.0" || name == "::" { // where it listens is not where it is reached
		name = "127.0.0.1"
	}
	return strings.TrimSuffix(scheme+"://"+net.JoinHostPort(name, port)+"/"+path, "/") + "/v1"
}

// providerVariable is how any other server is set up: its URL, the variable
// with its key if it needs one, and its protocol if that is not OpenAI's.
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
	for _, name := range sortedNames(found) {
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

// check refuses a provider that cannot be spoken to. What it says holds no
// value of a variable that may be a secret by mistake.
func (p provider) check() error {
	bad := func(format string, args ...any) error {
		return &session.InvalidError{Field: fmt.Sprintf("provider %q", p.Name), Reason: fmt.Sprintf(format, args...)}
	}
	if !providerName.MatchString(p.Name) {
		return bad("is not a name of lower case letters, digits, dots, hyphens or underscores")
	}
	if p.Protocol != OpenAI && p.Protocol != Anthropic {
		return bad("the protocol is neither %s nor %s", OpenAI, Anthropic)
	}
	if p.KeyEnv != "" && !variableName.MatchString(p.KeyEnv) {
		return bad("the variable for its key has no name of a variable; it takes the name, not the key")
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return bad("its URL is not an http or https address")
	}
	return nil
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
