package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/internal/demo"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/store"
)

// chooseDemoStore keeps sample sessions out of the user's own store: they are in
// memory unless the command line, and not only the environment, names a store.
func (p *program) chooseDemoStore(cmd *cobra.Command, _ []string) error {
	if !p.Demo || cmd.Flags().Changed("store") {
		return nil
	}
	return cmd.Flags().Set("store", "inmem:")
}

// prepareDemo makes the folder that the sample task works in. The caller removes
// it.
func (p *program) prepareDemo() (remove func(), err error) {
	dir, err := demo.Workspace()
	if err != nil {
		return nil, err
	}
	p.Permissions.Workspace, p.Permissions.Write = dir, true
	return func() { _ = os.RemoveAll(dir) }, nil
}

// fillDemo makes the sample sessions, with a key that ends with it, unless the
// store has sessions already.
func (p *program) fillDemo(ctx context.Context, e *setup.Env, keys *apikey.Keys, url string) (err error) {
	if page, err := e.List(ctx, store.Query{Limit: 1}); err != nil || len(page.Items) > 0 {
		return err
	}
	key, secret, err := keys.Create(ctx, apikey.Key{Label: "sample sessions", Scopes: []apikey.Scope{apikey.Admin}}, "cli")
	if err != nil {
		return err
	}
	defer func() {
		_, revoked := keys.Revoke(context.WithoutCancel(ctx), "", key.ID, "cli")
		err = errors.Join(err, revoked)
	}()
	return demo.Fill(ctx, url, secret)
}
