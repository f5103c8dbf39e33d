package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version of this program", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return p.printResult(thisBuild(), "%s", thisBuild())
		},
	}
}

// build identifies the program.
type build struct {
	Version       string `json:"version"`
	Commit        string `json:"commit,omitempty"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
	FormatVersion int    `json:"formatVersion"` // newest session document it reads
}

func thisBuild() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, FormatVersion: session.FormatVersion}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	return b
}

func (b build) String() string {
	text := "holdfast " + b.Version
	if b.Commit != "" {
		text += fmt.Sprintf(" (%.12s)", b.Commit)
	}
	return fmt.Sprintf("%s · session format %d · %s %s", text, b.FormatVersion, b.Go, b.Platform)
}
