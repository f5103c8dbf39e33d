package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/setup"
)

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version of this program", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return p.PrintResult(setup.ThisBuild(), "%s", setup.ThisBuild())
		},
	}
}
