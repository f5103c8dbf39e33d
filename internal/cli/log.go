package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func (p *program) logCommand() *cobra.Command {
	var (
		follow bool
		after  int64
	)
	cmd := &cobra.Command{
		Use: "log REF", Short: "print every change of a session", Args: cobra.ExactArgs(1),
		Long: "Print every change of a session, oldest first. With --json: one record per line.\nIt needs a store with a log.",
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
			entries := e.Log
			if follow {
				entries = e.Watch
			}
			for entry, err := range entries(ctx, i.ID, after) {
				if err != nil {
					return err
				}
				if err := p.printEntry(entry); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for further changes, until Ctrl-C")
	cmd.Flags().Int64Var(&after, "after", 0, "only changes after number `SEQ`")
	return cmd
}

func (p *program) versionsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "versions REF", Short: "list the versions of a session, for rewind, fork and diff", Args: cobra.ExactArgs(1),
		Long: "List the versions of a session: when each was made, by which action and by whom. With\n--json: an array. It needs a store with a log.",
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
			commits, err := e.Commits(ctx, i.ID, 0)
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(commits)
			}
			for _, c := range commits {
				if err := p.Out.Print(p.versionLine(c) + "\n"); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

// actionWords writes the name of an action as words: SendMessage as send message.
func actionWords(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// versionLine says how a version was made.
func (p *program) versionLine(c store.CommitInfo) string {
	return fmt.Sprintf("%4d  %s · %s · by %s", c.Version, terminal.Ago(c.At, p.Now()), terminal.OneLine(actionWords(c.Action)), terminal.OneLine(cmp.Or(c.Actor, "nobody")))
}

func (p *program) diffCommand() *cobra.Command {
	return &cobra.Command{
		Use: "diff REF FROM TO", Short: "print the changes between two versions", Args: cobra.ExactArgs(3),
		Long: "Print the changes that lead from one version to a later one. With --json: an array\nof records. It needs a store with a log.",
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
			var versions [2]int64
			for n, arg := range args {
				v, err := parseVersion(arg)
				if err != nil {
					return err
				}
				versions[n] = v
			}
			entries, err := e.Diff(ctx, i.ID, versions[0], versions[1])
			if err != nil {
				return err
			}
			if p.JSON {
				if entries == nil {
					entries = []session.LogEntry{}
				}
				return p.PrintJSON(entries)
			}
			for _, entry := range entries {
				if err := p.printEntry(entry); err != nil {
					return err
				}
			}
			if len(entries) == 0 {
				p.Err.Status("the versions are the same")
			}
			return nil
		}),
	}
}

// printEntry prints one change: its number, the version it became part of,
// when, what kind, and its most important part.
func (p *program) printEntry(e session.LogEntry) error {
	if p.JSON {
		return p.PrintJSONLine(e)
	}
	version := "v" + strconv.FormatInt(e.Version, 10)
	switch {
	case e.Discarded:
		version = "✗"
	case e.Version == 0:
		version = "open"
	}
	return p.Out.Print(fmt.Sprintf("%s %s %s  %s %s\n",
		p.Out.Paint(terminal.Cyan, fmt.Sprintf("%5d", e.Seq)), p.Out.Paint(terminal.Dim, fmt.Sprintf("%-5s", version)),
		p.Out.Paint(terminal.Dim, e.At.Local().Format(time.DateTime)), p.Out.Paint(terminal.Bold, fmt.Sprintf("%-19s", e.Change.Kind())), display.ChangeText(e.Change)))
}
