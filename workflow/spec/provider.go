package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Protocol is the language of a model's server.
type Protocol string

// The protocols.
const (
	OpenAIProtocol    Protocol = "openai"
	AnthropicProtocol Protocol = "anthropic"
)

// Connection is how a model is reached. Secrets stay where they are: KeyEnv only
// names the variable that holds the key.
type Connection struct {
	Provider string
	Protocol Protocol
	ModelID  string
	BaseURL  string // empty: the provider's own
	KeyEnv   string // empty: it is asked without a key
}

// provider is what is known of a provider by name.
type provider struct {
	protocol  Protocol
	endpoint  string   // where it is, if that is not the protocol's own place
	model     string   // the default
	keys      []string // variables that may hold its key, the usual one first
	urls      []string // variables that say where it is
	needsHost bool
}

var providers = map[string]provider{
	"openai":    {protocol: OpenAIProtocol, model: "gpt-4o-mini", keys: []string{"OPENAI_API_KEY"}, urls: []string{"OPENAI_BASE_URL"}},
	"anthropic": {protocol: AnthropicProtocol, model: "claude-sonnet-4-20250514", keys: []string{"ANTHROPIC_API_KEY"}, urls: []string{"ANTHROPIC_BASE_URL"}},
	"ollama":    {protocol: OpenAIProtocol, model: "gpt-oss", urls: []string{"OLLAMA_HOST"}, needsHost: true},
	"gemini": {
		protocol: OpenAIProtocol, model: "gemini-2.5-flash", keys: []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"},
		endpoint: "https://generativelanguage.googleapis.com/v1beta/openai",
	},
}

// Name returns provider/model, with the provider's usual model where m names none.
func (m Model) Name() string {
	return m.Provider + "/" + cmp.Or(m.ModelID, providers[m.Provider].model)
}

// missing is a setting without which a model cannot be reached.
type missing struct {
	key                 string // of the runtime or an agent
	reason, remediation string
}

// connect finds the way to a model. A server of the user's own may do without a
// key; a provider's does not.
func (m Model) connect(getenv func(string) string) (Connection, *missing) {
	known, isKnown := providers[m.Provider]
	own := "HOLDFAST_" + variable(m.Provider)
	if !isKnown {
		known = provider{protocol: OpenAIProtocol, keys: []string{own + "_API_KEY"}, needsHost: true}
	}
	r := Connection{Provider: m.Provider, Protocol: known.protocol, ModelID: m.ModelID, BaseURL: m.Host}
	urls := append([]string{own + "_BASE_URL"}, known.urls...)
	if name := firstSet(getenv, urls); name != "" {
		r.BaseURL = getenv(name)
	}
	if r.BaseURL == "" && known.needsHost {
		where := "set " + strings.Join(urls, " or ")
		if isKnown {
			return r, &missing{"provider", fmt.Sprintf("provider %q has no host", m.Provider), where + ", or write runtime.host"}
		}
		return r, &missing{
			"provider", fmt.Sprintf("provider %q is reached through an OpenAI-compatible server, and none is named", m.Provider),
			where + " to its base URL, or use openai, anthropic, gemini or ollama",
		}
	}
	if r.ModelID = cmp.Or(r.ModelID, known.model); r.ModelID == "" {
		return r, &missing{"model_id", fmt.Sprintf("provider %q has no default model", m.Provider), "write model_id"}
	}
	r.KeyEnv = firstSet(getenv, known.keys)
	if r.KeyEnv == "" && len(known.keys) > 0 && r.BaseURL == "" {
		return r, &missing{"provider", fmt.Sprintf("provider %q has no key", m.Provider), "set " + strings.Join(known.keys, " or ")}
	}
	r.BaseURL = cmp.Or(r.BaseURL, known.endpoint)
	return r, nil
}

// variable is a provider's name as a part of a variable's.
func variable(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return c - 'a' + 'A'
		case c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
			return c
		}
		return '_'
	}, name)
}

func firstSet(getenv func(string) string, names []string) string {
	i := slices.IndexFunc(names, func(name string) bool { return strings.TrimSpace(getenv(name)) != "" })
	if i < 0 {
		return ""
	}
	return names[i]
}
