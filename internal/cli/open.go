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
			ctx, stop := p.interrupts.watch(cmd.Context())
			defer stop()
			return p.openPage(ctx)
		},
	}
}

// defaultServer is where "holdfast serve" listens if nothing else is said.
const defaultServer = "http://127.0.0.1:8420"

func (p *program) openPage(ctx context.Context) error {
	p.server = cmp.Or(p.server, p.getenv("HOLDFAST_SERVER"), defaultServer)
	url := p.server
	if p.getenv("HOLDFAST_KEY") != "" || p.keyFile != "" || p.getenv("HOLDFAST_KEY_FILE") != "" {
		e, err := p.openServer()
		if err != nil {
			return err
		}
		if url, err = e.server.LoginURL(ctx); err != nil {
			return err
		}
	} else {
		p.err.status("there is no key here (HOLDFAST_KEY, --key-file): the page asks for one")
	}
	if err := p.out.print(url + "\n"); err != nil {
		return err
	}
	if err := p.startBrowser(url); err != nil {
		p.err.warn("no browser was opened: %v", err)
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
	if own := p.getenv("BROWSER"); own != "" {
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
