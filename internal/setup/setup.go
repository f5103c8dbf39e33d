// Package setup builds what commands work with from flags, the environment and
// the user's settings: the store or the server that has the sessions, and the
// runtime with the models, tools, skills and permissions of agents.
package setup

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Setup is what the flags, the environment and the user's settings say about
// where sessions are and what agents get.
type Setup struct {
	*terminal.Console
	environ []string // NAME=value, for those who look for more than one
	Now     func() time.Time
	Open    func(context.Context, StoreURL) (store.Store, error)
	servers *sync.Map // of tools, by id, that were reached: their names, []string

	Command     *cobra.Command // that runs
	Store       string
	Server      string // its URL
	KeyFile     string
	Tenant      string
	User        string // the owner of new sessions
	Offline     bool
	Address     string // where other nodes reach this one
	OTLP        string // the collector that spans are sent to
	NoWeb       bool   // agents get no tools that use the web
	NoTitles    bool   // no model is asked for the title of a chat
	Demo        bool   // sample sessions, and the model that they use
	Permissions permissions

	Loop holdfast.Loop // that runs agents; nil: the usual one

	AgentsRun bool // this command runs agents
	Makes     bool // this command makes a store where there is none
	Repair    bool // of the doctor: open a store without what is lost

	Config map[string]string // what the user's file sets, by variable
}

// New returns what is there before flags and settings are read.
func New(c *terminal.Console, environ []string, now func() time.Time) *Setup {
	s := &Setup{Console: c, environ: environ, Now: now, servers: &sync.Map{}}
	s.Open = s.openStore
	return s
}

// RequestLog returns where requests are logged: standard error, as JSON.
func (p *Setup) RequestLog(quiet bool) *slog.Logger {
	if quiet {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewJSONHandler(p.Err, nil))
}

// Build identifies the program.
type Build struct {
	Version       string `json:"version"`
	Commit        string `json:"commit,omitempty"`
	Go            string `json:"go"`
	Platform      string `json:"platform"`
	FormatVersion int    `json:"formatVersion"` // newest session document it reads
}

// ThisBuild identifies the program that runs.
func ThisBuild() Build {
	b := Build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, FormatVersion: session.FormatVersion}
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

// String returns the build in one line.
func (b Build) String() string {
	text := "holdfast " + b.Version
	if b.Commit != "" {
		text += fmt.Sprintf(" (%.12s)", b.Commit)
	}
	return fmt.Sprintf("%s · session format %d · %s %s", text, b.FormatVersion, b.Go, b.Platform)
}
