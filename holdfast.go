// Package holdfast keeps agent sessions: conversations, tasks and workflow
// runs of language-model agents that survive the process, the machine and the
// bug.
//
// A Runtime loads a session, executes an action on it and saves the result as
// exactly one new version:
//
//	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": offline.Model{}}})
//	s, err := rt.Create(ctx, session.Definition{Name: "weather", Model: "demo"})
//	s, err = rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Do I need a coat?"})
//	fmt.Println(s.Reply(), s.Version())
//
// Everything that changes a session passes the pipelines of pipeline.go.
package holdfast

import (
	"cmp"
	"context"
	"sync"

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
	who  Identity
	once *once // the request that the view is for; nil: any
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
	mu      sync.Mutex // orders beginCall and Close; guards facts and titles
	work    sync.WaitGroup

	servers     *servers
	secrets     []secret // those with a value, the longest first
	memoryTools func() (memoryTools, error)
	embedWake   chan struct{} // holds one wake-up; nil: nothing is embedded
	embedding   embedding
	facts       factQueue
	titles      map[titleKey]*session.SessionTitled // that were asked for and not saved; nil: not answered
}

// New makes a runtime on a store. The caller closes it, and then the store.
func New(c Config) (*Runtime, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	core := &core{
		config: c, storeAbilities: findAbilities(c.Store), bus: &eventBus{logger: c.Logger}, holder: processHolder(c.NewID(), c.Address),
		servers: &servers{dial: c.MCP}, secrets: sortSecrets(c.Secrets), memoryTools: sync.OnceValues(makeMemoryTools),
		embedding: embedding{making: make(chan struct{}, 1)}, facts: factQueue{making: make(chan struct{}, 1)},
	}
	core.closing, core.close = context.WithCancel(context.Background())
	core.servers.life = core.closing
	rt := &Runtime{core: core, who: Identity{Tenant: session.DefaultTenant}}
	if rt.canEmbed() {
		core.embedWake = make(chan struct{}, 1)
		core.work.Go(rt.embedInBackground)
	}
	return rt, nil
}

// For returns a view of the runtime that sees one tenant only: to it, a session of
// another tenant does not exist. Views share everything else and need no Close.
func (rt *Runtime) For(who Identity) *Runtime {
	who.Tenant = cmp.Or(who.Tenant, session.DefaultTenant)
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

// beginCall refuses calls after Close, and ends the context of a running call
// with it. The caller calls done.
func (rt *Runtime) beginCall(ctx context.Context) (_ context.Context, done func(), err error) {
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
