package setup

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

// againstServer are the commands that work against a server, which has the sessions
// and runs the agents. Those that need no sessions never ask for one.
var againstServer = []string{
	"ask", "chat", "send", "models list", "definitions list", "acp", "mcp", "pending", "pending show", "respond", "run", "task", "sessions", "import", "open", "keys", "schedules", "nodes",
}

// hereOnly are the commands that work on a store or on files of this machine, and
// why.
var hereOnly = map[string]string{
	"doctor":         "it looks into the files of a store",
	"serve":          "it is a server itself",
	"work":           "it works on a store itself; a server does that on its own",
	"replay":         "it needs the log and the tools of the store's machine",
	"recover":        "a server continues what was interrupted on its own",
	"sessions copy":  "it copies between stores that --from and --to name",
	"task workspace": "tasks of a server work in the workspace that \"holdfast serve --workspace\" names",
}

// HereFlags are what the command line of a server says, not that of its users.
var HereFlags = []string{
	"tenant", "offline", "no-web", "no-titles", "allow-write", "allow-shell", "allow-network", "allow-web", "allow-mcp", "workspace", "permission-mode",
}

// agentsWork are the commands that have agents work.
var agentsWork = []string{
	"ask", "chat", "send", "acp", "mcp", "respond", "run", "sessions continue", "sessions retry", "sessions resume",
	"task start", "task resume", "task continue", "task retry", "task approve", "task deny", "task send",
}

// FindServer returns the server that was asked for and the file of its key: on
// the command line, else in the environment, else in the file of settings; ""
// where none was. A store on the command line counts before a server elsewhere.
func (p *Setup) FindServer() (url, keyFile string, err error) {
	if p.Server != "" && p.Store != "" {
		return "", "", &session.InvalidError{Field: "server", Reason: "give either --server or --store: a server has its own store"}
	}
	if p.Store != "" {
		return "", "", nil
	}
	inFile, err := readSettings(p.Getenv("HOLDFAST_CONFIG"))
	if err != nil {
		return "", "", err
	}
	setting := func(flag, name, key string) string {
		return cmp.Or(flag, p.Getenv(name), strings.Join(inFile[key], ","))
	}
	return setting(p.Server, "HOLDFAST_SERVER", "server"), setting(p.KeyFile, "HOLDFAST_KEY_FILE", "key-file"), nil
}

// OpenServer returns the sessions of the server that was asked for, nil where
// none was.
func (p *Setup) OpenServer() (*Env, error) {
	url, keyFile, err := p.FindServer()
	if err != nil || url == "" {
		return nil, err
	}
	if err := p.CheckAgainstServer(url); err != nil {
		return nil, err
	}
	key, err := p.serverKey(keyFile)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{URL: url, Key: key, Backoff: 100 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	return &Env{sessions: c, Server: c}, nil
}

// CheckAgainstServer refuses what only the machine with the store can do.
func (p *Setup) CheckAgainstServer(url string) error {
	path := strings.TrimPrefix(p.Command.CommandPath(), "holdfast ")
	group, _, _ := strings.Cut(path, " ")
	if why := hereOnly[path]; why != "" || !slices.Contains(againstServer, group) && !slices.Contains(againstServer, path) {
		return &UnavailableError{
			What:   fmt.Sprintf("\"holdfast %s\" does not work against the server %s: %s", path, url, cmp.Or(why, "it needs no sessions")),
			Remedy: "run it where the store is, with --store or without HOLDFAST_SERVER",
		}
	}
	if p.Getenv("HOLDFAST_NO_WEB") != "" && slices.Contains(agentsWork, path) {
		return &session.InvalidError{Field: "HOLDFAST_NO_WEB", Reason: "the server decides whether its agents use the web: unset it here, and set it where \"holdfast serve\" runs"}
	}
	var refused error
	p.Command.Flags().Visit(func(f *pflag.Flag) {
		if refused == nil && slices.Contains(HereFlags, f.Name) {
			why := "the flags of \"holdfast serve\" say what its agents may do and where"
			if f.Name == "tenant" {
				why = "the key says the tenant"
			}
			refused = &session.InvalidError{Field: "--" + f.Name, Reason: "the server decides it: " + why}
		}
	})
	return refused
}

// CheckHere refuses a part of a command that needs the store itself.
func (e *Env) CheckHere(what string) error {
	if e.Server == nil {
		return nil
	}
	return &UnavailableError{What: what + " does not work against a server", Remedy: "run it where the store is"}
}

// ForkRun forks a run with other variables and answers.
func (e *Env) ForkRun(ctx context.Context, id string, o workflow.ForkOptions) (session.Session, error) {
	if e.Server == nil {
		return workflow.Fork(ctx, e.Runtime, id, o)
	}
	return e.Server.ForkRun(ctx, id, o)
}

// SuspendRun keeps a run from continuing. Pending says that whoever works on it
// was asked to stop.
func (e *Env) SuspendRun(ctx context.Context, id string) (pending bool, err error) {
	if e.Server == nil {
		return workflow.Suspend(ctx, e.Runtime, id)
	}
	r, err := e.Server.SuspendRun(ctx, id)
	return r.Session.Status != session.Suspended, err
}

// CancelRun ends a run for good. Pending says that whoever works on it was
// asked to stop.
func (e *Env) CancelRun(ctx context.Context, id string) (pending bool, err error) {
	if e.Server == nil {
		return workflow.Cancel(ctx, e.Runtime, id)
	}
	r, err := e.Server.CancelRun(ctx, id)
	return r.Status != workflow.StatusCancelled, err
}

// serverKey returns the key that is shown to a server. It is never a flag:
// everybody on a machine sees the command lines of all.
func (p *Setup) serverKey(file string) (string, error) {
	if key := p.Getenv("HOLDFAST_KEY"); key != "" {
		return key, nil
	}
	if file == "" {
		return "", &UnavailableError{What: "a server needs a key, and there is none", Remedy: "set HOLDFAST_KEY, or name a file with it by --key-file; \"holdfast keys create\" makes one where the store is"}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the key: %w", err)
	}
	if key := strings.TrimSpace(string(data)); key != "" {
		return key, nil
	}
	return "", &session.InvalidError{Field: "key-file", Reason: file + " is empty"}
}

// CreateFor makes a session of the user that this command line names.
func (e *Env) CreateFor(ctx context.Context, p *Setup, def session.Definition, name string) (session.Session, error) {
	opts := []holdfast.Option{holdfast.WithName(name)}
	if user := p.userName(); e.Server != nil && user != "" { // a runtime here knows who acts
		opts = append(opts, holdfast.WithUser(user))
	}
	return e.Create(ctx, def, opts...)
}

// ToolNames are the tools that all agents are offered.
func (e *Env) ToolNames(ctx context.Context) ([]string, error) {
	if e.Server != nil {
		return e.Server.Tools(ctx)
	}
	return e.Tools.Names(), nil
}

// userName is the owner of new sessions.
func (p *Setup) userName() string { return cmp.Or(p.User, p.Getenv("HOLDFAST_USER")) }

// AddServerFlags lets every command reach a server.
func (p *Setup) AddServerFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&p.Server, "server", "", "`URL` of a server that has the sessions and runs the agents, in place of a store\n(default $HOLDFAST_SERVER)")
	f.StringVar(&p.KeyFile, "key-file", "", "`FILE` with the key for the server\n(default $HOLDFAST_KEY_FILE; $HOLDFAST_KEY is the key itself)")
}
