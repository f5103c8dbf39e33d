package holdfast

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// Config is what a runtime is made of. Store is required; every other field
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

	BusyWait time.Duration // how long Wait waits for a lease; 0: 30 s
	Lease    time.Duration // length of a lease; 0: 10 s
	Poll     time.Duration // how often to look where no bell rings; 0: 200 ms

	// Requests maps requests whose payload has neither a text nor a message to
	// actions. Nil: there are none.
	Requests        func(session.Request) (Action, error)
	MaxRequestBytes int // how large a request may be; 0: 1 MiB

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
