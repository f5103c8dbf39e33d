package setup

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
	ExtractFacts(ctx context.Context, id string) (int, error)
	Forget(ctx context.Context, f memory.Forgetting) (memory.Forgotten, error)

	Log(ctx context.Context, id string, after int64) iter.Seq2[session.LogEntry, error]
	Watch(ctx context.Context, id string, after int64) iter.Seq2[session.LogEntry, error]
	Follow(ctx context.Context, id string, after int64) iter.Seq2[holdfast.Update, error]
	Diff(ctx context.Context, id string, from, to int64) ([]session.LogEntry, error)
	Commits(ctx context.Context, id string, after int64) ([]store.CommitInfo, error)

	Pending(ctx context.Context, q holdfast.PendingQuery) (holdfast.PendingPage, error)
	Respond(ctx context.Context, id string, r session.Response) error
}

// Env is what a command works with: sessions, and where they are. Here that is
// a store, a runtime on it and the set-up of agents; else it is a server, and
// those are nil.
type Env struct {
	sessions
	Server *client.Client // nil: the sessions are here

	*AgentSetup
	Runtime  *holdfast.Runtime
	Store    store.Store
	URL      StoreURL
	Tenant   string
	Identity holdfast.Identity
}

// InEnv makes the work of a command that needs sessions. A signal ends its
// context.
func (p *Setup) InEnv(work func(ctx context.Context, e *Env, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := p.Interrupts.Watch(cmd.Context())
		defer stop()
		return p.WithEnv(ctx, func(e *Env) error { return work(ctx, e, args) })
	}
}

// WithEnv opens the store, does the work and closes what it opened.
func (p *Setup) WithEnv(ctx context.Context, work func(*Env) error) (err error) {
	e, err := p.openEnv(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return work(e)
}

func (p *Setup) openEnv(ctx context.Context) (*Env, error) {
	if e, err := p.OpenServer(); e != nil || err != nil {
		return e, err
	}
	url, err := p.storeURL()
	if err != nil {
		return nil, err
	}
	return p.OpenEnvAt(ctx, url)
}

// OpenEnvAt opens a store. The caller closes it.
func (p *Setup) OpenEnvAt(ctx context.Context, url StoreURL) (*Env, error) {
	tenant := p.Tenant
	if tenant == "" {
		tenant = session.DefaultTenant
	}
	if err := session.CheckTenant(tenant); err != nil {
		return nil, err
	}
	st, err := p.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	given, err := p.NewAgentSetup(st)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	who := holdfast.Identity{Tenant: tenant, UserID: p.userName(), Actor: "cli"}
	rt, err := p.Runtime(st, given, given.Models.Providers.Secrets, who)
	if err != nil {
		return nil, errors.Join(err, st.Close(), given.Close())
	}
	return &Env{sessions: rt, Runtime: rt, AgentSetup: given, Store: st, URL: url, Tenant: tenant, Identity: who}, nil
}

// Close closes what was opened.
func (e *Env) Close() error {
	if e.Server != nil {
		return nil
	}
	return errors.Join(e.Runtime.Close(), e.Store.Close(), e.AgentSetup.Close())
}

// storeURL returns the store that was asked for on the command line, else in the
// environment, else the user's own.
func (p *Setup) storeURL() (StoreURL, error) {
	text := p.Store
	if text == "" {
		text = p.Getenv("HOLDFAST_STORE")
	}
	if text == "" {
		text = "sqlite:"
	}
	return p.ParseStoreURL(text)
}

// Runtime runs agents on a store with what this command line gives them. The
// secrets, keys of providers among them, never reach the store.
func (p *Setup) Runtime(st store.Store, given *AgentSetup, secrets map[string]string, who holdfast.Identity) (*holdfast.Runtime, error) {
	p.Redactor.SetSecrets(secrets)
	permissions, err := p.NewPermissions(st)
	if err != nil {
		return nil, err
	}
	hooks := holdfast.HookStack{}.With(given.Embedder, 0, "meaning")
	if p.OTLP != "" {
		logs, _ := st.(store.Logs)
		exporter, err := trace.New(trace.Config{Endpoint: p.OTLP, Version: ThisBuild().Version, Logger: p.RequestLog(false), Logs: logs})
		if err != nil {
			return nil, err
		}
		given.CloseLater(exporter)
		hooks = hooks.With(exporter, 0, "trace")
	}
	rt, err := holdfast.New(holdfast.Config{
		Store:        st,
		Address:      p.Address,
		Loop:         p.Loop,
		Embedder:     given.Embedder,
		Titles:       !p.NoTitles,
		Hooks:        hooks,
		MCP:          p.dial,
		Models:       given.Models,
		DefaultModel: given.Model,
		Offline:      p.Offline,
		Tools:        given.Tools,
		Skills:       given.Skills.texts(),
		Capabilities: given.capabilities(),
		Definitions:  given.Agents,
		Permissions:  permissions,
		Secrets:      secrets,
		Now:          p.Now,
	})
	if err != nil {
		return nil, err
	}
	rt = rt.For(who)
	if permissions != nil {
		permissions.Rules = p.NewRules(rt)
	}
	return rt, nil
}

// pace returns the pause between two words of the offline model: short for a
// person, none for a program. HOLDFAST_OFFLINE_PACE sets it, so that tests and
// demonstrations have the time to interrupt an answer.
func (p *Setup) pace() (time.Duration, error) {
	text := p.Getenv("HOLDFAST_OFFLINE_PACE")
	switch pace, err := time.ParseDuration(text); {
	case text != "" && (err != nil || pace < 0):
		return 0, &session.InvalidError{Field: "HOLDFAST_OFFLINE_PACE", Reason: fmt.Sprintf("%q is not a duration such as 50ms", text)}
	case text != "":
		return pace, nil
	case p.Out.Terminal:
		return 30 * time.Millisecond, nil
	}
	return 0, nil
}
