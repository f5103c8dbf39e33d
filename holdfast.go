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
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

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
	storeAbilities
	bus        *eventBus
	queues     sessionQueues
	broadcasts broadcasts
	holder     string

	closing context.Context // ends when Close is called
	close   context.CancelFunc
	mu      sync.Mutex // makes begin and Close meet in order
	work    sync.WaitGroup

	servers   *servers
	embedWake chan struct{} // holds one call to embed; nil: nobody does
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
	a := storeAbilities{store: c.Store}
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
	core := &core{config: c, storeAbilities: a, bus: &eventBus{logger: c.Logger}, holder: processHolder(c.NewID()), servers: &servers{dial: c.MCP}}
	core.closing, core.close = context.WithCancel(context.Background())
	core.servers.life = core.closing
	rt := &Runtime{core: core, who: Identity{Tenant: session.DefaultTenant}}
	if rt.canEmbed() {
		core.embedWake = make(chan struct{}, 1)
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
func (rt *Runtime) beginCall(ctx context.Context) (context.Context, func(), error) {
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
