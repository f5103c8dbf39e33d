package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/transfer"
)

func (p *program) copyCommand() *cobra.Command {
	var c copying
	cmd := &cobra.Command{
		Use: "copy --from URL --to URL [REF…]", Short: "copy sessions to another store, with their whole history",
		Long: `Copy sessions from one store to another: all of the tenant, or those named and the
sessions they were forked from. History, versions, forks, an interrupted turn and the unread inbox
arrive as they are; idempotency keys stay behind. A file: store keeps no history: it gets
the last version and the interrupted turn, and gives them as version 1.

Nothing is overwritten. A session that exists in the target is skipped if it is the same,
extended if the source has more versions, and otherwise reported and not changed. Ctrl-C
stops after the current sessions; the same command continues, also after a crash.

  holdfast sessions copy --from sqlite: --to postgres://me@db/agents --dry-run
  holdfast sessions copy --from sqlite:old.db --to sqlite:new.db 1f2e name-of-another`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if p.Store != "" {
			return &usageError{command: cmd.CommandPath(), err: errors.New("copy takes --from and --to instead of --store")}
		}
		for _, name := range []string{"from", "to"} {
			if !cmd.Flags().Changed(name) {
				return &usageError{command: cmd.CommandPath(), err: fmt.Errorf("--%s is missing", name)}
			}
		}
		ctx, stop := p.Interrupts.Watch(cmd.Context())
		defer stop()
		return p.copy(ctx, &c, args)
	}
	f := cmd.Flags()
	f.StringVar(&c.From, "from", "", "`URL` of the store to copy from")
	f.StringVar(&c.To, "to", "", "`URL` of the store to copy to")
	f.BoolVar(&c.DryRun, "dry-run", false, "change nothing, only print what would be done")
	return cmd
}

// copying is a run of the copy command, and what it prints as JSON.
type copying struct {
	From     string            `json:"from"`
	To       string            `json:"to"`
	DryRun   bool              `json:"dryRun"`
	Sessions []transfer.Report `json:"sessions"` // in the order they were copied
	Failed   []notCopied       `json:"failed"`
	Left     int               `json:"left"` // how many were not looked at
}

// notCopied is a session that was left alone.
type notCopied struct {
	ID    string `json:"sessionId"`
	Error string `json:"error"`
}

// copy opens the two stores, copies and tells. The context ends at a signal.
func (p *program) copy(ctx context.Context, c *copying, refs []string) (err error) {
	from, to, err := p.copyURLs(c)
	if err != nil {
		return err
	}
	source, err := p.OpenEnvAt(ctx, from)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	open := p.Open
	if c.DryRun && to.Missing() {
		open = openNothing
	}
	target, err := open(ctx, to)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	plan, err := source.PlanCopy(ctx, refs)
	if err != nil {
		return err
	}
	p.warnOfHistory(source.Store, from, target, to)
	workErr := c.work(ctx, p.Progress("copying", "session"), transfer.New(source.Store, target), plan, atOnce)
	return errors.Join(p.printCopied(c), workErr)
}

// copyURLs reads the two URLs and refuses what makes no sense.
func (p *program) copyURLs(c *copying) (from, to setup.StoreURL, err error) {
	if from, err = p.ParseStoreURL(c.From); err != nil {
		return from, to, fmt.Errorf("--from: %w", err)
	}
	if to, err = p.ParseStoreURL(c.To); err != nil {
		return from, to, fmt.Errorf("--to: %w", err)
	}
	c.From, c.To = from.String(), to.String()
	switch {
	case from.Same(to):
		return from, to, &session.InvalidError{Field: "to", Reason: "is the same store as --from"}
	case from.Missing():
		return from, to, &session.InvalidError{Field: "from", Reason: fmt.Sprintf("there is no store at %s", from.Path)}
	}
	return from, to, nil
}

// openNothing returns in the place of a store that is not there and must not be made.
func openNothing(context.Context, setup.StoreURL) (store.Store, error) {
	return inmem.New(inmem.Config{}), nil
}

// warnOfHistory says, before anything is done, what cannot be kept.
func (p *program) warnOfHistory(source store.Store, from setup.StoreURL, target store.Store, to setup.StoreURL) {
	if _, ok := target.(store.Logs); !ok {
		p.Warn("%s keeps no history: it gets the last version of each session and its interrupted turn, and numbers versions from 1", to)
	}
	if _, ok := source.(store.Logs); !ok {
		p.Warn("%s keeps no history: its sessions begin with version 1", from)
	}
}

// atOnce is how many sessions are copied at the same time. Stores that flush a
// disk or cross a network for each write do the work of several in the time
// of one.
const atOnce = 8

// work copies what is planned. A signal ends it after the current sessions; an
// error that is no session's own ends it likewise.
func (c *copying) work(ctx context.Context, shown *terminal.Progress, copier *transfer.Copier, plan transfer.Plan, atOnce int) error {
	defer shown.End()
	c.Sessions, c.Failed = []transfer.Report{}, []notCopied{}
	for _, bad := range plan.Corrupt {
		c.Failed = append(c.Failed, notCopied{ID: bad.ID, Error: bad.Error()})
	}
	do := copier.Copy
	if c.DryRun {
		do = copier.Look
	}
	total := len(plan.Refs())
	c.Left = total
	shown.Report(0, total)
	for _, generation := range plan.Generations {
		results := inParallel(ctx, atOnce, generation, do, func() { shown.Count(total) })
		if err := c.addResults(generation, results); err != nil {
			return err
		}
	}
	switch {
	case c.Left > 0:
		return &copyInterrupted{left: c.Left}
	case len(c.Failed) > 0:
		return fmt.Errorf("%s not copied: %w", terminal.CountOf(len(c.Failed), "session"), errPartial)
	}
	return nil
}

// result is what became of one session; nil: nobody came to it.
type result struct {
	report transfer.Report
	err    error
}

// inParallel copies sessions, some of them at once. When the context has ended,
// or an error says that others would fail too, no further one is begun.
func inParallel(ctx context.Context, atOnce int, refs []store.Ref, do func(context.Context, store.Ref) (transfer.Report, error), done func()) []*result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make([]*result, len(refs))
	var begun atomic.Int64
	var workers sync.WaitGroup
	for range min(atOnce, len(refs)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(begun.Add(1)) - 1
				if i >= len(refs) {
					return
				}
				report, err := do(context.WithoutCancel(ctx), refs[i])
				results[i] = &result{report: report, err: err}
				if err != nil && !isSessionFault(err) {
					cancel()
				}
				done()
			}
		})
	}
	workers.Wait()
	return results
}

// addResults notes what became of sessions, in their order, and returns the first
// error that is no session's own.
func (c *copying) addResults(refs []store.Ref, results []*result) error {
	var stopped error
	for i, r := range results {
		switch {
		case r == nil:
			continue
		case r.err == nil:
			c.Sessions = append(c.Sessions, r.report)
		case isSessionFault(r.err):
			c.Failed = append(c.Failed, notCopied{ID: refs[i].ID, Error: r.err.Error()})
		default:
			if stopped == nil {
				stopped = fmt.Errorf("copy session %q: %w", refs[i].ID, r.err)
			}
			continue
		}
		c.Left--
	}
	return stopped
}

// isSessionFault reports an error that says something of one session and nothing of
// the stores.
func isSessionFault(err error) bool {
	for _, own := range []error{
		session.ErrConflict, session.ErrCorrupt, session.ErrNewerFormat, session.ErrBusy, session.ErrNotFound,
		session.ErrUnsupported, session.ErrInvalid,
	} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}

// copyInterrupted is a copy that a signal ended.
type copyInterrupted struct{ left int }

func (e *copyInterrupted) Error() string {
	return fmt.Sprintf("interrupted with %s to go; run the same command again to continue", terminal.CountOf(e.left, "session"))
}

func (e *copyInterrupted) Unwrap() error { return session.ErrInterrupted }

// printCopied prints what was done, or would be.
func (p *program) printCopied(c *copying) error {
	if p.JSON {
		return p.PrintJSON(c)
	}
	p.printNotes(c.Sessions)
	for _, f := range c.Failed {
		p.Err.Warn("not copied: %s", f.Error)
	}
	var b strings.Builder
	counts := map[transfer.Outcome]int{}
	for _, r := range c.Sessions {
		counts[r.Outcome]++
		if c.DryRun && r.Outcome != transfer.Same {
			fmt.Fprintf(&b, "would be %s %s\n", r.Outcome, r.ID)
		}
	}
	if !c.DryRun {
		fmt.Fprintf(&b, "copied %s", terminal.CountOf(counts[transfer.Copied], "session"))
		if n := counts[transfer.Continued]; n > 0 {
			fmt.Fprintf(&b, ", continued %d", n)
		}
		if n := counts[transfer.Same]; n > 0 {
			fmt.Fprintf(&b, ", %d already there", n)
		}
		b.WriteString("\n")
	} else if counts[transfer.Copied]+counts[transfer.Continued] == 0 {
		p.Err.Status("nothing to copy")
	}
	return p.Out.Print(b.String())
}

// printNotes tells what is not as it was. What holds for many is said once.
func (p *program) printNotes(reports []transfer.Report) {
	const few = 3
	about := map[string][]string{}
	var texts []string
	for _, r := range reports {
		if r.Holder != "" {
			r.Notes = append(r.Notes, fmt.Sprintf("%s works on it: copied as it was after change %d", display.HolderText(r.Holder), r.Seq))
		}
		for _, text := range r.Notes {
			if about[text] == nil {
				texts = append(texts, text)
			}
			about[text] = append(about[text], r.ID)
		}
	}
	for _, text := range texts {
		ids := about[text]
		if len(ids) > few {
			p.Err.Warn("%s: %s", terminal.CountOf(len(ids), "session"), text)
			continue
		}
		for _, id := range ids {
			p.Err.Warn("session %s: %s", display.ShortID(id), text)
		}
	}
}
