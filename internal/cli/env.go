package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/trace"
)

// sessions are the verbs on sessions that commands need. A runtime has them,
// and so has the client of a server.
type sessions interface {
	Create(ctx context.Context, def session.Definition, opts ...holdfast.Option) (session.Session, error)
	Fork(ctx context.Context, id string, opts ...holdfast.Option) (session.Session, error)
	Execute(ctx context.Context, id string, a holdfast.Action, opts ...holdfast.Option) (session.Session, error)
	Cancel(ctx context.Context, id string) error
	Purge(ctx context.Context, id string, opts ...holdfast.Option) error
	Import(ctx context.Context, s session.Session) (session.Session, error)
	Sweep(ctx context.Context, r holdfast.Retention) ([]string, error)

	Resolve(ctx context.Context, ref string) (session.Info, error)
	Info(ctx context.Context, id string) (session.Info, error)
	Get(ctx context.Context, id string, opts ...holdfast.Option) (session.Session, error)
	List(ctx context.Context, q store.Query) (store.Page, error)
	Holder(ctx context.Context, id string) (store.Lease, bool, error)
	Memory(ctx context.Context, id string) (memory.Handle, error)

	Log(ctx context.Context, id string, after int64) iter.Seq2[session.LogEntry, error]
	Watch(ctx context.Context, id string, after int64) iter.Seq2[session.LogEntry, error]
	Follow(ctx context.Context, id string, after int64) iter.Seq2[holdfast.Update, error]
	Diff(ctx context.Context, id string, from, to int64) ([]session.LogEntry, error)
	Commits(ctx context.Context, id string, after int64) ([]store.CommitInfo, error)

	Pending(ctx context.Context, q holdfast.PendingQuery) (holdfast.PendingPage, error)
	Respond(ctx context.Context, id string, r session.Response) error
}

// env is what a command works with: sessions, and where they are. Here that is
// a store, a runtime on it and the set-up of agents; else it is a server, and
// those are nil.
type env struct {
	sessions
	server *client.Client // nil: the sessions are here

	*agentSetup
	rt       *holdfast.Runtime
	store    store.Store
	url      storeURL
	tenant   string
	identity holdfast.Identity
}

// inEnv makes the work of a command that needs sessions. A signal ends its
// context.
func (p *program) inEnv(work func(ctx context.Context, e *env, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := p.interrupts.watch(cmd.Context())
		defer stop()
		return p.withEnv(ctx, func(e *env) error { return work(ctx, e, args) })
	}
}

// withEnv opens the store, does the work and closes what it opened.
func (p *program) withEnv(ctx context.Context, work func(*env) error) (err error) {
	e, err := p.openEnv(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	return work(e)
}

func (p *program) openEnv(ctx context.Context) (*env, error) {
	if e, err := p.openServer(); e != nil || err != nil {
		return e, err
	}
	url, err := p.storeURL()
	if err != nil {
		return nil, err
	}
	return p.openEnvAt(ctx, url)
}

func (p *program) openEnvAt(ctx context.Context, url storeURL) (*env, error) {
	tenant := p.tenant
	if tenant == "" {
		tenant = session.DefaultTenant
	}
	if err := session.CheckTenant(tenant); err != nil {
		return nil, err
	}
	st, err := p.open(ctx, url)
	if err != nil {
		return nil, err
	}
	given, err := p.newAgentSetup(st)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	who := holdfast.Identity{Tenant: tenant, UserID: p.userName(), Actor: "cli"}
	rt, err := p.runtime(st, given, given.models.providers.secrets, who)
	if err != nil {
		return nil, errors.Join(err, st.Close(), given.close())
	}
	return &env{sessions: rt, rt: rt, agentSetup: given, store: st, url: url, tenant: tenant, identity: who}, nil
}

func (e *env) close() error {
	if e.server != nil {
		return nil
	}
	return errors.Join(e.rt.Close(), e.store.Close(), e.agentSetup.close())
}

// storeURL returns the store that was asked for on the command line, else in the
// environment, else the user's own.
func (p *program) storeURL() (storeURL, error) {
	text := p.store
	if text == "" {
		text = p.getenv("HOLDFAST_STORE")
	}
	if text == "" {
		text = "sqlite:"
	}
	return p.parseStoreURL(text)
}

// runtime runs agents on a store with what this command line gives them. The
// secrets, keys of providers among them, never reach the store.
func (p *program) runtime(st store.Store, given *agentSetup, secrets map[string]string, who holdfast.Identity) (*holdfast.Runtime, error) {
	p.redactor.setSecrets(secrets)
	permissions, err := p.newPermissions(st)
	if err != nil {
		return nil, err
	}
	hooks := holdfast.HookStack{}.With(given.embedder, 0, "meaning")
	if p.otlp != "" {
		logs, _ := st.(store.Logs)
		exporter, err := trace.New(trace.Config{Endpoint: p.otlp, Version: thisBuild().Version, Logger: p.requestLog(false), Logs: logs})
		if err != nil {
			return nil, err
		}
		given.closeLater(exporter)
		hooks = hooks.With(exporter, 0, "trace")
	}
	rt, err := holdfast.New(holdfast.Config{
		Store:        st,
		Address:      p.address,
		Loop:         p.loop,
		Embedder:     given.embedder,
		Hooks:        hooks,
		MCP:          p.dial,
		Models:       given.models,
		DefaultModel: given.model,
		Offline:      p.offline,
		Tools:        given.tools,
		Skills:       given.skills.texts(),
		Capabilities: given.capabilities(),
		Definitions:  given.agents,
		Permissions:  permissions,
		Secrets:      secrets,
		Now:          p.now,
	})
	if err != nil {
		return nil, err
	}
	rt = rt.For(who)
	if permissions != nil {
		permissions.Rules = p.newRules(rt)
	}
	return rt, nil
}

// pace returns the pause between two words of the offline model: short for a
// person, none for a program. HOLDFAST_OFFLINE_PACE sets it, so that tests and
// demonstrations have the time to interrupt an answer.
func (p *program) pace() (time.Duration, error) {
	text := p.getenv("HOLDFAST_OFFLINE_PACE")
	switch pace, err := time.ParseDuration(text); {
	case text != "" && (err != nil || pace < 0):
		return 0, &session.InvalidError{Field: "HOLDFAST_OFFLINE_PACE", Reason: fmt.Sprintf("%q is not a duration such as 50ms", text)}
	case text != "":
		return pace, nil
	case p.out.terminal:
		return 30 * time.Millisecond, nil
	}
	return 0, nil
}
