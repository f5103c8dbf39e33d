package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/problem"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
)

// againstServer are the commands that work against a server, which has the sessions
// and runs the agents. Those that need no sessions never ask for one.
var againstServer = []string{
	"chat", "send", "acp", "mcp", "pending", "pending show", "respond", "run", "task", "sessions", "open", "keys", "schedules", "nodes",
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

// hereFlags are what the command line of a server says, not that of its users.
var hereFlags = []string{
	"tenant", "offline", "no-web", "allow-write", "allow-shell", "allow-network", "allow-web", "allow-mcp", "workspace", "permission-mode",
}

// agentsWork are the commands that have agents work.
var agentsWork = []string{
	"chat", "send", "acp", "mcp", "respond", "run", "sessions continue", "sessions retry", "sessions resume",
	"task start", "task resume", "task continue", "task retry", "task approve", "task deny", "task send",
}

// findServer returns the server that was asked for and the file of its key: on
// the command line, else in the environment, else in the file of settings; ""
// where none was. A store on the command line counts before a server elsewhere.
func (p *program) findServer() (url, keyFile string, err error) {
	if p.server != "" && p.store != "" {
		return "", "", &session.InvalidError{Field: "server", Reason: "give either --server or --store: a server has its own store"}
	}
	if p.store != "" {
		return "", "", nil
	}
	inFile, err := readSettings(p.getenv("HOLDFAST_CONFIG"))
	if err != nil {
		return "", "", err
	}
	setting := func(flag, name, key string) string {
		return cmp.Or(flag, p.getenv(name), strings.Join(inFile[key], ","))
	}
	return setting(p.server, "HOLDFAST_SERVER", "server"), setting(p.keyFile, "HOLDFAST_KEY_FILE", "key-file"), nil
}

// openServer returns the sessions of the server that was asked for, nil where
// none was.
func (p *program) openServer() (*env, error) {
	url, keyFile, err := p.findServer()
	if err != nil || url == "" {
		return nil, err
	}
	if err := p.checkAgainstServer(url); err != nil {
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
	return &env{sessions: c, server: c}, nil
}

// checkAgainstServer refuses what only the machine with the store can do.
func (p *program) checkAgainstServer(url string) error {
	path := strings.TrimPrefix(p.command.CommandPath(), "holdfast ")
	group, _, _ := strings.Cut(path, " ")
	if why := hereOnly[path]; why != "" || !slices.Contains(againstServer, group) {
		return &unavailableError{
			what:   fmt.Sprintf("\"holdfast %s\" does not work against the server %s: %s", path, url, cmp.Or(why, "it needs no sessions")),
			remedy: "run it where the store is, with --store or without HOLDFAST_SERVER",
		}
	}
	if p.getenv("HOLDFAST_NO_WEB") != "" && slices.Contains(agentsWork, path) {
		return &session.InvalidError{Field: "HOLDFAST_NO_WEB", Reason: "the server decides whether its agents use the web: unset it here, and set it where \"holdfast serve\" runs"}
	}
	var refused error
	p.command.Flags().Visit(func(f *pflag.Flag) {
		if refused == nil && slices.Contains(hereFlags, f.Name) {
			refused = &session.InvalidError{Field: f.Name, Reason: "the server decides it: its key says the tenant, and \"holdfast serve\" what its agents may do and where"}
		}
	})
	return refused
}

// checkHere refuses a part of a command that needs the store itself.
func (e *env) checkHere(what string) error {
	if e.server == nil {
		return nil
	}
	return &unavailableError{what: what + " does not work against a server", remedy: "run it where the store is"}
}

// forkRun forks a run with other variables and answers.
func (e *env) forkRun(ctx context.Context, id string, o workflow.ForkOptions) (session.Session, error) {
	if e.server == nil {
		return workflow.Fork(ctx, e.rt, id, o)
	}
	return e.server.ForkRun(ctx, id, o)
}

// suspendRun keeps a run from continuing. Pending says that whoever works on it
// was asked to stop.
func (e *env) suspendRun(ctx context.Context, id string) (pending bool, err error) {
	if e.server == nil {
		return workflow.Suspend(ctx, e.rt, id)
	}
	r, err := e.server.SuspendRun(ctx, id)
	return r.Session.Status != session.Suspended, err
}

// cancelRun ends a run for good. Pending says that whoever works on it was
// asked to stop.
func (e *env) cancelRun(ctx context.Context, id string) (pending bool, err error) {
	if e.server == nil {
		return workflow.Cancel(ctx, e.rt, id)
	}
	r, err := e.server.CancelRun(ctx, id)
	return r.Status != workflow.StatusCancelled, err
}

// serverKey returns the key that is shown to a server. It is never a flag:
// everybody on a machine sees the command lines of all.
func (p *program) serverKey(file string) (string, error) {
	if key := p.getenv("HOLDFAST_KEY"); key != "" {
		return key, nil
	}
	if file == "" {
		return "", &unavailableError{what: "a server needs a key, and there is none", remedy: "set HOLDFAST_KEY, or name a file with it by --key-file; \"holdfast keys create\" makes one where the store is"}
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

const otherVersion = "the server is of another version than this command; compare \"holdfast version\" on both sides"

// serverHint says what to do about an answer of a server, or about none.
func serverHint(err error) string {
	var (
		told    *problem.Problem
		unknown *client.UnreachableError
		foreign *client.AnswerError
	)
	switch {
	case errors.As(err, &unknown):
		return "is the address right and the server running? \"holdfast serve\" starts one; check --server and HOLDFAST_SERVER"
	case errors.As(err, &foreign):
		return otherVersion
	case !errors.As(err, &told):
		return ""
	}
	switch told.Code {
	case problem.CodeUnauthenticated:
		return "is HOLDFAST_KEY right? Where the store is, \"holdfast keys list\" shows the keys and \"holdfast keys create\" makes one"
	case problem.CodeForbidden:
		return "use a key with that scope; where the store is: holdfast keys create --scope …"
	case problem.CodeNoRoute:
		return otherVersion
	case "unsupported":
		return "it is the server that lacks it; whoever runs \"holdfast serve\" can give it that"
	case problem.CodeWrongHost:
		return "the server answers for the names that \"holdfast serve --host\" gives it"
	}
	return ""
}

// refusedByServer reports that a server does not let this command in: its key
// is wrong or may too little, or the server lacks the route.
func refusedByServer(err error) bool {
	var told *problem.Problem
	return errors.As(err, &told) && slices.Contains([]string{
		problem.CodeUnauthenticated, problem.CodeForbidden, problem.CodeNoRoute, problem.CodeWrongHost,
	}, told.Code)
}

// create makes a session of the user that this command line names.
func (e *env) create(ctx context.Context, p *program, def session.Definition, name string) (session.Session, error) {
	opts := []holdfast.Option{holdfast.WithName(name)}
	if user := p.userName(); e.server != nil && user != "" { // a runtime here knows who acts
		opts = append(opts, holdfast.WithUser(user))
	}
	return e.Create(ctx, def, opts...)
}

// toolNames are the tools that all agents are offered.
func (e *env) toolNames(ctx context.Context) ([]string, error) {
	if e.server != nil {
		return e.server.Tools(ctx)
	}
	return e.tools.Names(), nil
}

// userName is the owner of new sessions.
func (p *program) userName() string { return cmp.Or(p.user, p.getenv("HOLDFAST_USER")) }

// addServerFlags lets every command reach a server.
func (p *program) addServerFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&p.server, "server", "", "`URL` of a server that has the sessions and runs the agents, in place of a store (default $HOLDFAST_SERVER)")
	f.StringVar(&p.keyFile, "key-file", "", "`FILE` with the key for the server (default $HOLDFAST_KEY_FILE; $HOLDFAST_KEY is the key itself)")
}
