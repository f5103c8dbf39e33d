package cli

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"
)

func (p *program) openCommand() *cobra.Command {
	return &cobra.Command{
		Use: "open", Short: "open the page of a server in a browser", Args: cobra.NoArgs,
		Long: `Open the page of a server in a browser: of --server or HOLDFAST_SERVER, else of the server
on this machine that "holdfast serve" has started. With a key (HOLDFAST_KEY or --key-file)
the browser is logged in; without one it asks for a key.

The address is printed as well. BROWSER names another program to open it.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := p.Interrupts.Watch(cmd.Context())
			defer stop()
			return p.openPage(ctx)
		},
	}
}

// defaultServer is where "holdfast serve" listens if nothing else is said.
const defaultServer = "http://127.0.0.1:8420"

func (p *program) openPage(ctx context.Context) error {
	p.Server = cmp.Or(p.Server, p.Getenv("HOLDFAST_SERVER"), defaultServer)
	url := p.Server
	if p.Getenv("HOLDFAST_KEY") != "" || p.KeyFile != "" || p.Getenv("HOLDFAST_KEY_FILE") != "" {
		e, err := p.OpenServer()
		if err != nil {
			return err
		}
		if url, err = e.Server.LoginURL(ctx); err != nil {
			return err
		}
	} else {
		p.Err.Status("there is no key here (HOLDFAST_KEY, --key-file): the page asks for one")
	}
	if err := p.Out.Print(url + "\n"); err != nil {
		return err
	}
	if err := p.startBrowser(url); err != nil {
		p.Err.Warn("no browser was opened: %v", err)
	}
	return nil
}

// startBrowser opens an address with the program that the user or the system
// has for it.
func (p *program) startBrowser(url string) error {
	args := []string{"xdg-open"}
	switch runtime.GOOS {
	case "darwin":
		args = []string{"open"}
	case "windows":
		args = []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	if own := p.Getenv("BROWSER"); own != "" {
		args = []string{own}
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("there is no %s; open the address yourself", args[0])
	}
	cmd := exec.Command(path, append(args[1:], url)...) //nolint:noctx,gosec // it outlives this command, and is the user's own program
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
