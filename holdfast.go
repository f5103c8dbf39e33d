// Package holdfast keeps agent sessions: conversations, tasks and workflow
// runs of language-model agents that survive the process, the machine and the
// bug.
//
// A Runtime loads a session, executes an action on it and saves the result as
// exactly one new version:
//
//	rt, err := holdfast.New(holdfast.Config{Store: st, Models: models})
//	s, err := rt.Create(ctx, session.Definition{Name: "weather", Model: "offline/echo"})
//	s, err = rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Do I need a coat?"})
//	fmt.Println(s.Reply(), s.Version())
//
// Everything that changes a session passes the pipelines of pipeline.go.
package holdfast

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

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

// Identity is on whose behalf a runtime's view acts.
type Identity struct {
	Tenant string // empty: the default tenant
	UserID string // owner of sessions created through the view
	Actor  string // recorded with every commit
}

// Runtime creates sessions, acts on them and saves them. It is safe for
// concurrent use. A Runtime value sees the sessions of one tenant; For gives
// views for others.
type Runtime struct {
	*core
	who Identity
}

// core is what all views of a runtime share.
type core struct {
	config Config
	abilities
	bus        *bus
	lines      lines
	broadcasts broadcasts
	holder     string

	closing context.Context // ends when Close is called
	close   context.CancelFunc
	mu      sync.Mutex // makes begin and Close meet in order
	work    sync.WaitGroup

	servers    *servers
	unembedded chan struct{} // holds one call to embed; nil: nobody does
}

// abilities are the optional parts of the store, nil where it lacks them.
type abilities struct {
	store   store.Store
	tails   store.Tails
	leases  store.Leases
	starts  store.Starts
	logs    store.Logs
	forks   store.Forks
	inboxes store.Inboxes
	wakes   store.Wakes
	keys    store.Keys
	sweeps  store.Sweeps

	memories store.Memories
	vectors  store.Vectors
}

// New is a runtime on a store. The caller closes it, and then the store.
func New(c Config) (*Runtime, error) {
	if c.Store == nil {
		return nil, &session.InvalidError{Field: "Config.Store", Reason: "is required"}
	}
	if c.BusyWait < 0 || c.Lease < 0 || c.Poll < 0 || c.PendingTimeout < 0 || c.MaxRequestBytes < 0 {
		return nil, &session.InvalidError{Field: "Config", Reason: "BusyWait, Lease, Poll, PendingTimeout and MaxRequestBytes are not negative"}
	}
	if err := checkSecretValues(c.Secrets); err != nil {
		return nil, err
	}
	c.BusyWait, c.Lease, c.Poll = orDefault(c.BusyWait, 30*time.Second), orDefault(c.Lease, 10*time.Second), orDefault(c.Poll, 200*time.Millisecond)
	if c.Loop == nil {
		c.Loop = agent.Loop{}
	}
	if c.MaxDepth == 0 {
		c.MaxDepth = defaultDepth
	}
	if c.MaxRequestBytes == 0 {
		c.MaxRequestBytes = defaultRequestBytes
	}
	if c.DefaultBudget == nil {
		steps := int64(50)
		c.DefaultBudget = &session.Budget{MaxSteps: &steps}
	}
	if c.ModelRetries == nil {
		retries := 3
		c.ModelRetries = &retries
	}
	if *c.ModelRetries < 0 {
		return nil, &session.InvalidError{Field: "Config.ModelRetries", Reason: "is negative"}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = uuid.NewString
	}
	if c.Hooks == nil {
		c.Hooks = HookStack{}
	}
	a := abilities{store: c.Store}
	a.tails, _ = c.Store.(store.Tails)
	a.leases, _ = c.Store.(store.Leases)
	if a.leases != nil && a.tails != nil {
		a.starts, _ = c.Store.(store.Starts)
	}
	a.logs, _ = c.Store.(store.Logs)
	a.forks, _ = c.Store.(store.Forks)
	a.inboxes, _ = c.Store.(store.Inboxes)
	a.wakes, _ = c.Store.(store.Wakes)
	a.keys, _ = c.Store.(store.Keys)
	a.sweeps, _ = c.Store.(store.Sweeps)
	a.memories, _ = c.Store.(store.Memories)
	a.vectors, _ = c.Store.(store.Vectors)
	core := &core{config: c, abilities: a, bus: &bus{logger: c.Logger}, holder: processHolder(c.NewID()), servers: &servers{dial: c.MCP}}
	core.closing, core.close = context.WithCancel(context.Background())
	core.servers.life = core.closing
	rt := &Runtime{core: core, who: Identity{Tenant: session.DefaultTenant}}
	if rt.embeds() {
		core.unembedded = make(chan struct{}, 1)
		core.work.Go(rt.embedInBackground)
	}
	return rt, nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// For is a view of the runtime that sees one tenant only: to it, a session of
// another tenant does not exist. Views share everything else and need no Close.
func (rt *Runtime) For(who Identity) *Runtime {
	if who.Tenant == "" {
		who.Tenant = session.DefaultTenant
	}
	return &Runtime{core: rt.core, who: who}
}

// Close interrupts what is executing, waits for it and refuses further calls.
// It does not close the store. It may be called twice.
func (rt *Runtime) Close() error {
	rt.mu.Lock()
	rt.close()
	rt.mu.Unlock()
	rt.work.Wait()
	return rt.servers.close()
}

// begin refuses calls after Close and ends the work of a call with it.
func (rt *Runtime) begin(ctx context.Context) (context.Context, func(), error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closing.Err() != nil {
		return ctx, nil, session.ErrClosed
	}
	rt.work.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(rt.closing, func() { cancel(session.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		rt.work.Done()
	}, nil
}

func (rt *Runtime) ref(id string) (store.Ref, error) {
	r := store.Ref{Tenant: rt.who.Tenant, ID: id}
	return r, r.Check()
}

// unsupported is the error for an ability the store lacks.
func (rt *Runtime) unsupported(ability string) error {
	return &session.UnsupportedError{Store: storeName(rt.store), Ability: ability}
}

func storeName(s store.Store) string {
	if named, ok := s.(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprintf("store %T", s)
}
