package holdfast

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// Config says how a runtime works. Store is required; every other field
// has a useful zero value.
type Config struct {
	Store store.Store

	// Loop runs executions. Nil: agent.Loop.
	Loop Loop

	Models       llm.Models // nil: no model, so SendMessage is refused
	DefaultModel string     // for definitions that name none
	Tools        tool.Set
	Skills       map[string]string     // named texts a definition may add to its prompt
	Capabilities map[string]Capability // named bundles of tools and prompt text

	// Embedder makes what was said and stored findable by meaning, after it was
	// saved and in the background. Nil: memory is searched by words alone.
	Embedder llm.Embedder

	// Titles has the model of a chat without a name write its title, once, in a
	// short request beside a turn. The title becomes the name of the chat, and is
	// saved with the turn or a later one. Models that work offline are not asked.
	Titles bool

	// MCP reaches the tool servers that definitions list, each once for all
	// sessions and until the runtime is closed. Nil: there are none.
	MCP Dial

	Definitions Definitions // agents that others may give work to; nil: none
	MaxDepth    int         // how deep they may lie below each other; 0: 3

	MaxToolResult int // how many bytes of a tool's result are kept and shown; 0: 256 KiB

	Hooks Hook // nil: none; several go into a HookStack

	DefaultBudget *session.Budget // nil: at most 50 steps
	ModelRetries  *int            // nil: 3
	Backoff       func(attempt int) time.Duration

	// Permissions decides which tool calls of conversations run without asking.
	// Nil: all of them.
	Permissions *Permissions
	// PendingTimeout is how long a pending call waits for a response. 0: for ever.
	PendingTimeout time.Duration

	// RecoverLimit is how often Recover continues one execution that nobody asks
	// for before it sets the session aside. 0: 5.
	RecoverLimit int

	// Address is where other processes reach this one, such as
	// http://10.0.0.7:8420. They read it from the lease of a session that this
	// process works on; see AddressOf. Empty: nowhere.
	Address string

	BusyWait time.Duration // how long Wait waits for a lease; 0: 30 s
	Lease    time.Duration // length of a lease; 0: 10 s
	Poll     time.Duration // how often to look where the store cannot wake; 0: 200 ms

	// Requests maps requests whose payload has neither a text nor a message to
	// actions. Nil: there are none.
	Requests        func(session.Request) (Action, error)
	MaxRequestBytes int // how large a request may be; 0: 1 MiB

	Limits Limits // how large messages, sessions and requests to models may be

	Offline bool // refuse every model that is not marked as offline

	// Secrets are values, by name, that must never be written: they are
	// masked as [secret:NAME] in everything before it reaches a store, and in
	// the text of errors. A value has at least 8 bytes, or none.
	Secrets map[string]string
	// Redact may rewrite a message before it is first written. It may see one
	// message several times and must then find nothing more to do.
	Redact func(session.Message) session.Message

	Logger *slog.Logger // nil: silent
	Now    func() time.Time
	NewID  func() string // nil: random UUIDs
}

// Loop runs the open execution of a session. agent.Loop is the one used by
// default; another one keeps its promises, which the methods of agent.Loop
// state.
type Loop interface {
	// Run continues the open execution to its end, or until calls wait.
	Run(ctx context.Context, c agent.Config, s session.Session) (session.Session, error)
	// Settle brings the calls of the open step to results, so that something new
	// can be said.
	Settle(ctx context.Context, c agent.Config, s session.Session) (session.Session, error)
}

// Capability is a named bundle of tools and prompt text.
type Capability struct {
	Prompt string
	Tools  []tool.Tool
}

// withDefaults checks a configuration and fills in what was left out.
func (c Config) withDefaults() (Config, error) {
	if c.Store == nil {
		return c, &session.InvalidError{Field: "Config.Store", Reason: "is required"}
	}
	if c.BusyWait < 0 || c.Lease < 0 || c.Poll < 0 || c.PendingTimeout < 0 || c.MaxRequestBytes < 0 || c.RecoverLimit < 0 {
		return c, &session.InvalidError{Field: "Config", Reason: "BusyWait, Lease, Poll, PendingTimeout, MaxRequestBytes and RecoverLimit are not negative"}
	}
	if c.ModelRetries != nil && *c.ModelRetries < 0 {
		return c, &session.InvalidError{Field: "Config.ModelRetries", Reason: "is negative"}
	}
	if err := checkSecretValues(c.Secrets); err != nil {
		return c, err
	}
	var err error
	if c.Limits, err = c.Limits.withDefaults(); err != nil {
		return c, err
	}
	steps, retries := int64(50), 3
	c.BusyWait = cmp.Or(c.BusyWait, 30*time.Second)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.Poll = cmp.Or(c.Poll, 200*time.Millisecond)
	c.RecoverLimit = cmp.Or(c.RecoverLimit, 5)
	c.MaxDepth = cmp.Or(c.MaxDepth, defaultDepth)
	c.MaxRequestBytes = cmp.Or(c.MaxRequestBytes, defaultRequestBytes)
	c.DefaultBudget = cmp.Or(c.DefaultBudget, &session.Budget{MaxSteps: &steps})
	c.ModelRetries = cmp.Or(c.ModelRetries, &retries)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Address != "" {
		if u, err := url.Parse(c.Address); err != nil || u.Host == "" || u.User != nil || strings.Contains(c.Address, addressMark) {
			return c, &session.InvalidError{Field: "Address", Reason: fmt.Sprintf("%q is not an address such as http://10.0.0.7:8420", c.Address)}
		}
	}
	if c.Loop == nil {
		c.Loop = agent.Loop{}
	}
	if c.Hooks == nil {
		c.Hooks = HookStack{}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = uuid.NewString
	}
	return c, nil
}
