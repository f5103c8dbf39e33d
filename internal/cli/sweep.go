package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) sweepCommand() *cobra.Command {
	var (
		r        holdfast.Retention
		idle     string
		statuses []string
		yes      bool
	)
	cmd := &cobra.Command{
		Use: "sweep", Short: "delete sessions that are idle or expired", Args: cobra.NoArgs,
		Long: `Delete sessions that were not used for long or have expired. Deleted sessions can be
restored; with --purge they are removed for good. Sessions that are running, were
interrupted or have an unread inbox stay. With --json: the ids.

  holdfast sessions sweep --idle 30d --dry-run      only print the ids
  holdfast sessions sweep --status deleted --idle 7d --purge --yes`,
	}
	cmd.RunE = p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) (err error) {
		if idle == "" && !r.Expired {
			return &session.InvalidError{Field: "sweep", Reason: "give --idle or --expired; without them every session would be deleted"}
		}
		if r.IdleFor, err = parseDays("idle", idle); err != nil {
			return err
		}
		for _, status := range statuses {
			r.Statuses = append(r.Statuses, session.Status(status))
		}
		if err := p.Confirm(ctx, yes || !r.Purge || r.DryRun, "Remove them for good?"); err != nil {
			return err
		}
		swept, err := p.sweep(ctx, e, r)
		if err != nil && len(swept) == 0 {
			return err
		}
		return errors.Join(p.printSwept(swept, r), err)
	})
	f := cmd.Flags()
	f.StringVar(&idle, "idle", "", "not updated for `TIME`, such as 30d or 12h")
	f.BoolVar(&r.Expired, "expired", false, "only sessions whose expiry date is over; also removes stored values that have expired")
	f.StringSliceVar(&statuses, "status", nil, "only in `STATUS`; may be repeated (default any but deleted)")
	f.IntVar(&r.Limit, "limit", 0, "at most `N` sessions (default 1000)")
	f.BoolVar(&r.Purge, "purge", false, "remove them for good")
	f.BoolVar(&r.DryRun, "dry-run", false, "change nothing, only print the ids")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

// sweep sweeps, and shows how far it is by what the runtime tells of it.
func (p *program) sweep(ctx context.Context, e *setup.Env, r holdfast.Retention) ([]string, error) {
	if r.DryRun || e.Runtime == nil { // a server does not tell meanwhile
		return e.Sweep(ctx, r)
	}
	look := r
	look.DryRun = true
	found, err := e.Sweep(ctx, look)
	if err != nil {
		return nil, err
	}
	shown := p.Progress("sweeping", "session")
	defer shown.End()
	defer holdfast.On(e.Runtime, func(holdfast.SessionSaved) { shown.Count(len(found)) }, 0)()
	defer holdfast.On(e.Runtime, func(holdfast.SessionPurged) { shown.Count(len(found)) }, 0)()
	return e.Sweep(ctx, r)
}

// printSwept prints what was done, or would be.
func (p *program) printSwept(swept []string, r holdfast.Retention) error {
	if p.JSON {
		return p.PrintJSON(append([]string{}, swept...))
	}
	verb := "deleted"
	if r.Purge {
		verb = "purged"
	}
	if r.DryRun {
		verb = "would be " + verb
	}
	var b strings.Builder
	for _, id := range swept {
		fmt.Fprintf(&b, "%s %s\n", verb, id)
	}
	if len(swept) == 0 {
		p.Err.Status("nothing to sweep")
	}
	return p.Out.Print(b.String())
}

// parseDays reads a duration that may be in days; "" is none.
func parseDays(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	bad := &session.InvalidError{Field: field, Reason: fmt.Sprintf("%q is not a time such as 30d or 12h", text)}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 36500 {
			return 0, bad
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, bad
	}
	return d, nil
}
