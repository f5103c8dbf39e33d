package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/docsite"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/web"
	"github.com/holdfast-dev/holdfast/node"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/worker"
)

// serving is how a server runs.
type serving struct {
	listen    string
	advertise string
	listener  net.Listener
	prefix    string
	hosts     []string
	origins   []string
	cert, key string
	quiet     bool
	noWork    bool
	slots     slots
	oidc      server.OIDC
}

func (p *program) serveCommand() *cobra.Command {
	var s serving
	cmd := &cobra.Command{
		Use: "serve", Short: "offer the sessions of a store over HTTP", Args: cobra.NoArgs,
		Long: `Offer the sessions of a store over HTTP, until Ctrl-C or SIGTERM.

  holdfast serve                                     on 127.0.0.1:8420, for this machine
  holdfast serve --listen :8420 --host api.example   for others, behind a proxy that ends TLS
  holdfast serve --demo                              with sample sessions, to look around
  curl -H "Authorization: Bearer $KEY" localhost:8420/v1/sessions

Every request needs a key, also on this machine: "holdfast keys create" makes one. The
first start makes an administrator's key and prints it once. Every start prints an address
that logs a browser in as an administrator, once. docs/server.md has the first requests,
docs/openapi.json every route.

Beside that it works on what waits in the store, as "holdfast work" does: interrupted
turns, inboxes, tasks, runs and schedules. --no-work leaves that to others.

At the end the server takes no new streams, gives turns --drain to finish and then
interrupts them: nothing is lost, any process can continue them.`,
		PreRunE: p.chooseDemoStore,
		RunE: func(cmd *cobra.Command, args []string) error {
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", s.listen)
			if err != nil {
				var failed *net.OpError
				if errors.As(err, &failed) { // it names the address again
					err = failed.Err
				}
				return fmt.Errorf("listen on %s: %w; --listen names another address", s.listen, err)
			}
			defer func() { _ = listener.Close() }() // the server has closed it
			s.listener, p.Address = listener, s.address(listener.Addr())
			if p.Demo {
				remove, err := p.prepareDemo()
				if err != nil {
					return err
				}
				defer remove()
			}
			return p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error { return p.serve(ctx, e, s) })(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.listen, "listen", "127.0.0.1:8420", "the `ADDRESS` to listen on")
	f.StringVar(&s.advertise, "advertise", "", "the `URL` at which other nodes reach this one (default: made of --listen)")
	f.StringVar(&s.prefix, "prefix", "", "serve everything below this `PATH`, such as /holdfast, for a proxy that serves other things too")
	f.StringSliceVar(&s.hosts, "host", nil, "a `NAME` that requests may be addressed to, besides localhost and IP addresses")
	f.StringSliceVar(&s.origins, "cors-origin", nil, "an `ORIGIN` whose pages may read responses, such as https://app.example")
	f.StringVar(&s.cert, "tls-cert", "", "`FILE` with the certificate of the server")
	f.StringVar(&s.key, "tls-key", "", "`FILE` with the key of the certificate")
	f.StringVar(&s.oidc.Issuer, "oidc-issuer", "", "accept tokens of the OpenID Connect issuer at this `URL` beside keys")
	f.StringVar(&s.oidc.Audience, "oidc-audience", "", "the `NAME` that tokens must be meant for")
	f.StringVar(&s.oidc.TenantClaim, "oidc-tenant-claim", "tenant", "the `CLAIM` with the tenant")
	f.StringVar(&s.oidc.UserClaim, "oidc-user-claim", "sub", "the `CLAIM` with the user")
	f.StringVar(&s.oidc.ScopeClaim, "oidc-scope-claim", "scope", "the `CLAIM` with the scopes: read, write, approve, admin, metrics")
	f.StringVar(&s.oidc.ClientID, "oidc-client-id", "", "this server as the issuer knows it, for browsers that log in there (default: the audience;\na secret comes from HOLDFAST_OIDC_CLIENT_SECRET)")
	s.slots.addFlags(cmd)
	p.addTraceFlag(cmd)
	f.BoolVar(&p.Demo, "demo", false, "begin with sample sessions, in memory unless --store is given, on a model that needs no key")
	f.BoolVar(&s.noWork, "no-work", false, "only answer requests; leave what waits to other processes")
	f.BoolVar(&s.quiet, "quiet", false, "do not log requests")
	p.addAgentsFileFlag(cmd)
	return p.AddSettings(p.AddPermissionFlags(cmd))
}

// address returns where other nodes reach the server, "" if it cannot be known.
func (s serving) address(listening net.Addr) string {
	host, port, err := net.SplitHostPort(listening.String())
	if s.advertise != "" || err != nil {
		return s.advertise
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return ""
		}
	}
	return s.scheme() + "://" + net.JoinHostPort(host, port) + s.prefix
}

// pageURL returns the address of a path for a browser on this machine.
func (s serving) pageURL(listener net.Addr, path string) string {
	host, port, err := net.SplitHostPort(listener.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return s.scheme() + "://" + net.JoinHostPort(host, port) + path
}

func (s serving) scheme() string {
	if s.cert != "" {
		return "https"
	}
	return "http"
}

// serve runs a server until the context ends.
func (p *program) serve(ctx context.Context, e *setup.Env, s serving) error {
	if (s.cert == "") != (s.key == "") {
		return &session.InvalidError{Field: "tls-cert", Reason: "give both --tls-cert and --tls-key"}
	}
	if err := e.Runtime.CheckDurable(); err != nil {
		p.Err.Warn("%v", err)
	}
	e.Embedder.Start() // requests search by meaning
	page, err := web.New(s.prefix)
	if err != nil {
		return err
	}
	pages, err := docsite.New(page)
	if err != nil {
		return err
	}
	keys := apikey.New(e.Runtime, p.Now)
	config := server.Config{
		Runtime: e.Runtime, Keys: keys, Schedules: schedule.New(e.Runtime, p.Now, nil), Work: workOf(e.Store), Address: p.Address, Page: pages, Agents: e.Agents.Registry(), Models: e.ModelNames, Tools: e.ToolList,
		Missing: e.Missing, Prefix: s.prefix, Hosts: s.hosts, Origins: s.origins, Version: setup.ThisBuild().Version, Logger: p.RequestLog(s.quiet), Now: p.Now,
	}
	config.Nodes, config.Node = node.New(e.Runtime, p.Now), p.newSelf()
	if s.oidc.Issuer != "" || s.oidc.Audience != "" {
		s.oidc.ClientSecret = p.Getenv("HOLDFAST_OIDC_CLIENT_SECRET")
		config.OIDC = &s.oidc
	}
	if err := p.addWork(e, &config); err != nil {
		return err
	}
	var background *worker.Worker
	if config.Work != nil && !s.noWork {
		var err error
		if background, err = p.newWorker(e, config, s.slots, config.Node, config.Logger); err != nil {
			return err
		}
		config.Loads = background.Loads
	}
	api, err := server.New(config)
	if err != nil {
		return err
	}
	defer api.Close()
	first, err := p.firstKey(ctx, keys)
	if err != nil {
		return err
	}
	listening := &http.Server{
		Handler: api, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(p.RequestLog(s.quiet).Handler(), slog.LevelWarn),
	}
	listening.RegisterOnShutdown(api.Drain)
	p.Err.Status("listening on %s://%s%s · store %s", s.scheme(), s.listener.Addr(), s.prefix, e.URL)
	p.Err.Status("open %s in a browser, once and within ten minutes", s.pageURL(s.listener.Addr(), api.LoginPath(apikey.Key{Scopes: []apikey.Scope{apikey.Admin}})))
	if first != "" {
		p.Err.Status("an administrator's key, shown this once: %s", first)
	}
	leave := p.beNode(ctx, e, config.Node)
	defer leave()
	worked := make(chan struct{})
	go func() {
		defer close(worked)
		if background != nil {
			background.Run(ctx)
		}
	}()
	ended := make(chan error, 1)
	go func() {
		if s.cert != "" {
			ended <- listening.ServeTLS(s.listener, s.cert, s.key)
			return
		}
		ended <- listening.Serve(s.listener)
	}()
	if p.Demo {
		if err := p.fillDemo(ctx, e, keys, s.pageURL(s.listener.Addr(), s.prefix)); err != nil {
			p.Err.Warn("%v", err)
		}
	}
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	config.Node.Drain()
	p.Err.Status("ending: turns have %s to finish", s.slots.drain)
	err = p.endServer(context.WithoutCancel(ctx), listening, s.slots.drain)
	<-worked
	return err
}

// workOf returns what says which work waits in a store; nil if it cannot.
func workOf(st store.Store) store.Work {
	work, _ := st.(store.Work)
	return work
}

// endServer ends a server: streams at once, requests when they are done or
// their time is over. What is interrupted then can be continued.
func (p *program) endServer(ctx context.Context, listening *http.Server, drain time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	if err := listening.Shutdown(ctx); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	p.Err.Status("the time is over: what still runs is interrupted and can be continued")
	return listening.Close()
}

// firstKey makes an administrator's key in a store that has no key yet. Of nodes
// that start together one gets its secret.
func (p *program) firstKey(ctx context.Context, keys *apikey.Keys) (string, error) {
	list, err := keys.List(ctx, "")
	if err != nil || len(list) > 0 {
		return "", err
	}
	_, secret, err := keys.CreateOnce(ctx, apikey.Key{Label: "first key", Scopes: []apikey.Scope{apikey.Admin}}, "cli", "first key")
	return secret, err
}
