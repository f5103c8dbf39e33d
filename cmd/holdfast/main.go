// Command holdfast runs and keeps agent sessions: terminal, server and web page.
package main

import (
	"os"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

func main() {
	os.Exit(cli.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
