package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/apikey"
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

func (p *program) keys(e *env) keys {
	if e.server != nil {
		return e.server.Keys()
	}
	return apikey.New(e.rt, p.now)
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
		RunE: p.inEnv(func(ctx context.Context, e *env, _ []string) error {
			want := want
			want.Tenant, want.UserID = e.tenant, p.user
			for _, s := range scopes {
				want.Scopes = append(want.Scopes, apikey.Scope(s))
			}
			if expires < 0 {
				return &session.InvalidError{Field: "expires", Reason: "is negative"}
			}
			if expires > 0 {
				at := p.now().Add(expires).UTC()
				want.ExpiresAt = &at
			}
			key, secret, err := p.keys(e).Create(ctx, want, "cli")
			if err != nil {
				return err
			}
			if !p.json {
				p.err.status("key %s of tenant %s: %s", key.ID, key.Tenant, joinScopes(key.Scopes))
			}
			return p.printResult(struct {
				apikey.Key
				Secret string `json:"secret"`
			}{key, secret}, "%s", secret)
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&scopes, "scope", []string{"read", "write"}, "what the key permits: `SCOPE` is read, write, approve, metrics or admin")
	f.StringVar(&want.Label, "label", "", "a `TEXT` to tell keys apart")
	f.StringVar(&p.user, "user", "", "requests with the key act for the user `NAME`")
	f.DurationVar(&expires, "expires", 0, "how long the key is valid, such as 720h (default: until it is revoked)")
	return cmd
}

func (p *program) keysListCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "list the keys of a tenant", Args: cobra.NoArgs,
		RunE: p.inEnv(func(ctx context.Context, e *env, _ []string) error {
			tenant := e.tenant
			if err := e.checkHere("a list of the keys of all tenants"); all && err != nil {
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
	if p.json {
		return p.printJSON(list)
	}
	if len(list) == 0 {
		p.err.status("there is no key; make one with: holdfast keys create")
		return nil
	}
	t := table{head: []string{"ID", "TENANT", "USER", "SCOPES", "LABEL", "CREATED", "STATE"}, flex: 4}
	for _, k := range list {
		t.add(cell{k.ID, cyan}, cell{k.Tenant, plain}, cell{oneLine(k.UserID), plain}, cell{joinScopes(k.Scopes), plain}, cell{oneLine(k.Label), plain}, cell{ago(k.CreatedAt, p.now()), dim}, cell{keyState(k, p.now()), plain})
	}
	return p.out.print(t.layout(p.out))
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
		RunE: p.inEnv(func(ctx context.Context, e *env, args []string) error {
			key, err := p.keys(e).Revoke(ctx, e.tenant, args[0], "cli")
			if err != nil {
				return err
			}
			return p.printResult(key, "revoked %s", key.ID)
		}),
	}
}
