package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) keysCommand() *cobra.Command {
	return group("keys", "create, list and revoke the API keys of \"holdfast serve\"", p.keysCreateCommand(), p.keysListCommand(), p.keysRevokeCommand())
}

// keys are the verbs on API keys that commands need. A store has them, and so has
// the client of a server.
type keys interface {
	Create(ctx context.Context, want apikey.Key, actor string) (apikey.Key, string, error)
	List(ctx context.Context, tenant string) ([]apikey.Key, error)
	Revoke(ctx context.Context, tenant, id, actor string) (apikey.Key, error)
}

func (p *program) keys(e *setup.Env) keys {
	if e.Server != nil {
		return e.Server.Keys()
	}
	return apikey.New(e.Runtime, p.Now)
}

func (p *program) keysCreateCommand() *cobra.Command {
	var (
		want    apikey.Key
		scopes  []string
		expires time.Duration
	)
	cmd := &cobra.Command{
		Use: "create", Short: "create a key and print its secret, which cannot be had again", Args: cobra.NoArgs,
		Long: `Create an API key of a tenant (--tenant) and print its secret on standard output. Only a
hash of it is stored. Scopes:

  read     see sessions
  write    create and change them, answer questions, give results of client-side tools
  approve  approve and deny tool calls; do not give it to agents
  metrics  read the numbers for monitoring
  admin    everything, keys included

With --json: the key with its secret.`,
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
			want := want
			want.Tenant, want.UserID = e.Tenant, p.User
			for _, s := range scopes {
				want.Scopes = append(want.Scopes, apikey.Scope(s))
			}
			if expires < 0 {
				return &session.InvalidError{Field: "expires", Reason: "is negative"}
			}
			if expires > 0 {
				at := p.Now().Add(expires).UTC()
				want.ExpiresAt = &at
			}
			key, secret, err := p.keys(e).Create(ctx, want, "cli")
			if err != nil {
				return err
			}
			if !p.JSON {
				p.Err.Status("key %s of tenant %s: %s", key.ID, key.Tenant, joinScopes(key.Scopes))
			}
			return p.PrintResult(struct {
				apikey.Key
				Secret string `json:"secret"`
			}{key, secret}, "%s", secret)
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&scopes, "scope", []string{"read", "write"}, "what the key permits: `SCOPE` is read, write, approve, metrics or admin")
	f.StringVar(&want.Label, "label", "", "a `TEXT` to tell keys apart")
	f.StringVar(&p.User, "user", "", "requests with the key act for the user `NAME`")
	f.DurationVar(&expires, "expires", 0, "how long the key is valid, such as 720h (default: until it is revoked)")
	return cmd
}

func (p *program) keysListCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "list the keys of a tenant", Args: cobra.NoArgs,
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
			tenant := e.Tenant
			if err := e.CheckHere("a list of the keys of all tenants"); all && err != nil {
				return err
			}
			if all {
				tenant = ""
			}
			list, err := p.keys(e).List(ctx, tenant)
			if err != nil {
				return err
			}
			return p.printKeys(list)
		}),
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list the keys of all tenants")
	return cmd
}

func (p *program) printKeys(list []apikey.Key) error {
	if p.JSON {
		return p.PrintJSON(list)
	}
	if len(list) == 0 {
		p.Err.Status("there is no key; make one with: holdfast keys create")
		return nil
	}
	t := terminal.Table{Head: []string{"ID", "TENANT", "USER", "SCOPES", "LABEL", "CREATED", "STATE"}, Flex: 4}
	for _, k := range list {
		t.Add(terminal.Styled(k.ID, terminal.Cyan), terminal.Styled(k.Tenant, terminal.Plain), terminal.Styled(terminal.OneLine(k.UserID), terminal.Plain), terminal.Styled(joinScopes(k.Scopes), terminal.Plain), terminal.Styled(terminal.OneLine(k.Label), terminal.Plain), terminal.Styled(terminal.Ago(k.CreatedAt, p.Now()), terminal.Dim), terminal.Styled(keyState(k, p.Now()), terminal.Plain))
	}
	return p.Out.Print(t.Layout(p.Out))
}

func keyState(k apikey.Key, now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt == nil:
		return "valid"
	case !k.ExpiresAt.After(now):
		return "expired"
	}
	return fmt.Sprintf("until %s", k.ExpiresAt.Format(time.DateOnly))
}

func joinScopes(scopes []apikey.Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ",")
}

func (p *program) keysRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "end a key; servers refuse it within a second", Args: cobra.ExactArgs(1),
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, args []string) error {
			key, err := p.keys(e).Revoke(ctx, e.Tenant, args[0], "cli")
			if err != nil {
				return err
			}
			return p.PrintResult(key, "revoked %s", key.ID)
		}),
	}
}
