package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool/sandbox"
)

// storeHealth is what the doctor found.
type storeHealth struct {
	Store       string                  `json:"store"`
	Missing     bool                    `json:"missing,omitempty"` // there is no store yet
	Writable    bool                    `json:"writable"`
	Sessions    int                     `json:"sessions"`
	Statuses    map[session.Status]int  `json:"statuses"`
	Interrupted []string                `json:"interrupted"`
	SetAside    []string                `json:"setAside"` // recovered too often without an end
	Corrupt     []*session.CorruptError `json:"corrupt"`
	Problems    []string                `json:"problems"` // of the store itself
	Warnings    []string                `json:"warnings"` // of settings that may cost data
	Models      []string                `json:"models"`
	Sandbox     sandboxHealth           `json:"sandbox"`
	Build       setup.Build             `json:"build"`
	*repairReport

	kinds    map[string]session.Kind // of sessions that are not chats
	writeErr error
}

// sandboxHealth is what holds the commands of agents on this machine.
type sandboxHealth struct {
	Complete bool     `json:"complete"`
	Missing  []string `json:"missing"`
}

// repairReport is what the doctor did, where it was asked to do something.
type repairReport struct {
	Mended    []string `json:"mended"`
	Reindexed *int     `json:"reindexed,omitempty"` // how much is in the index
}

func (p *program) doctorCommand() *cobra.Command {
	var reindex bool
	var only string
	cmd := &cobra.Command{
		Use: "doctor", Short: "check the store and print what is wrong with it", Args: cobra.NoArgs,
		Long: `Check the store: whether it opens and can be written, which sessions cannot be read and
which were interrupted. It changes nothing. It fails when something is wrong.

With --repair it first rebuilds from the logs what does not agree with them, in all
tenants, and prints what it repaired; it removes nothing and changes no log. A SQLite
database whose write-ahead log is damaged is opened without the commits that are lost. With
--reindex it first rebuilds the index of words. With --session it looks at one session
alone, which takes no time in a large store.`,
	}
	cmd.RunE = p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
		done, err := p.repairStore(ctx, e, p.Repair, reindex)
		if err != nil {
			return err
		}
		found, err := p.checkStore(ctx, e, only)
		if err != nil {
			return err
		}
		found.repairReport = done
		if p.JSON {
			err = p.PrintJSON(found)
		} else {
			err = p.Out.Print(p.healthText(found))
		}
		return errors.Join(err, found.verdict())
	})
	cmd.Flags().BoolVar(&p.Repair, "repair", false, "first repair what can be rebuilt from the log")
	cmd.Flags().BoolVar(&reindex, "reindex", false, "first rebuild the index of words")
	cmd.Flags().StringVar(&only, "session", "", "check this session alone: an id, the beginning of one or a name")
	return cmd
}

// repairStore repairs and rebuilds as the flags say; nil: they say nothing.
func (p *program) repairStore(ctx context.Context, e *setup.Env, repair, reindex bool) (*repairReport, error) {
	if !repair && !reindex {
		return nil, nil
	}
	doctor, ok := e.Store.(store.Doctors)
	if !ok {
		return nil, &session.UnsupportedError{Store: e.URL.String(), Ability: "repairing and reindexing"}
	}
	done := &repairReport{Mended: []string{}}
	if repair {
		shown := p.Progress("repairing", "step")
		mended, err := doctor.Repair(ctx, shown.Report)
		shown.End()
		done.Mended = append(done.Mended, mended...)
		if err != nil {
			return done, errors.Join(err, p.printRepaired(mended))
		}
	}
	if reindex {
		shown := p.Progress("reindexing", "step")
		n, err := doctor.Reindex(ctx, shown.Report)
		shown.End()
		if err != nil {
			return done, errors.Join(err, p.printRepaired(done.Mended))
		}
		done.Reindexed = &n
	}
	return done, nil
}

// printRepaired prints what was mended before something went wrong.
func (p *program) printRepaired(mended []string) error {
	var b strings.Builder
	for _, text := range mended {
		fmt.Fprintf(&b, "mended       %s\n", terminal.OneLine(text))
	}
	if p.JSON {
		return nil
	}
	return p.Out.Print(b.String())
}

// checkStore looks at everything, or at one session alone, and changes nothing.
func (p *program) checkStore(ctx context.Context, e *setup.Env, only string) (storeHealth, error) {
	found := storeHealth{
		Store: e.URL.String(), Statuses: map[session.Status]int{}, Interrupted: []string{}, SetAside: []string{}, Corrupt: []*session.CorruptError{}, Problems: []string{}, Warnings: []string{},
		Models: p.reachable(e), Build: setup.ThisBuild(), kinds: map[string]session.Kind{},
	}
	status := sandbox.Probe()
	found.Sandbox = sandboxHealth{Complete: status.Complete(), Missing: append([]string{}, status.Missing...)}
	if found.Missing = e.URL.Missing(); !found.Missing {
		found.writeErr = e.URL.Writable()
	}
	found.Writable = found.writeErr == nil
	if warner, ok := e.Store.(interface {
		Warnings(ctx context.Context) ([]string, error)
	}); ok {
		warnings, err := warner.Warnings(ctx)
		if err != nil {
			return found, err
		}
		found.Warnings = append(found.Warnings, warnings...)
	}
	if only != "" {
		err := checkSession(ctx, e, only, &found)
		return found, err
	}
	if doctor, ok := e.Store.(store.Doctors); ok {
		shown := p.Progress("checking", "step")
		problems, err := doctor.Check(ctx, shown.Report)
		shown.End()
		if err != nil {
			return found, err
		}
		found.Problems = append(found.Problems, problems...)
	}
	if err := p.checkSessions(ctx, e, &found); err != nil {
		return found, err
	}
	tails, ok := e.Store.(store.Tails)
	if !ok {
		return found, nil
	}
	refs, err := tails.Interrupted(ctx, e.Tenant)
	for _, ref := range refs {
		found.Interrupted = append(found.Interrupted, ref.ID)
		s, err := e.Store.Load(ctx, ref, true)
		if err == nil && s.SetAside() {
			found.SetAside = append(found.SetAside, ref.ID)
		}
	}
	return found, err
}

// checkSession looks at one session, by a reference or, if that cannot be read,
// by its whole id.
func checkSession(ctx context.Context, e *setup.Env, text string, found *storeHealth) error {
	i, err := e.Resolve(ctx, text)
	switch {
	case errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound) && session.CheckID(text) == nil:
		i = session.Info{ID: text}
	case err != nil:
		return err
	}
	r := store.Ref{Tenant: e.Tenant, ID: i.ID}
	_, err = e.Store.Load(ctx, r, true)
	if errors.Is(err, session.ErrNotFound) {
		return err
	}
	found.Sessions = 1
	if i.Status != "" {
		found.Statuses[i.Status] = 1
	}
	if corrupt := e.FindCorrupt(ctx, i.ID); corrupt != nil {
		found.Corrupt = append(found.Corrupt, corrupt)
	}
	if doctor, ok := e.Store.(store.Doctors); ok {
		problems, err := doctor.CheckSession(ctx, r)
		if err != nil {
			return err
		}
		found.Problems = append(found.Problems, problems...)
	}
	return nil
}

// checkSessions loads every session of the tenant.
func (p *program) checkSessions(ctx context.Context, e *setup.Env, found *storeHealth) error {
	shown := p.Progress("reading", "session")
	defer shown.End()
	q := store.Query{Kinds: session.Kinds(), IncludeDeleted: true, Order: store.IDAsc, Limit: 1000}
	for {
		page, err := e.List(ctx, q)
		if err != nil {
			return err
		}
		for _, i := range page.Items {
			found.Sessions++
			found.Statuses[i.Status]++
			if i.Kind != session.KindChat {
				found.kinds[i.ID] = i.Kind
			}
			if err := e.FindCorrupt(ctx, i.ID); err != nil {
				found.Corrupt = append(found.Corrupt, err)
			}
			shown.Report(found.Sessions, 0)
		}
		if q.Cursor == "" {
			found.Corrupt = append(found.Corrupt, page.Corrupt...)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// verdict returns the error of a store that is not well. Interrupted sessions are
// no illness.
func (found storeHealth) verdict() error {
	switch {
	case found.writeErr != nil:
		return fmt.Errorf("the store cannot be written: %w", found.writeErr)
	case len(found.Problems) > 0:
		return fmt.Errorf("the store has %s: %w", terminal.CountOf(len(found.Problems), "problem"), session.ErrCorrupt)
	case len(found.Corrupt) > 0:
		return fmt.Errorf("%s cannot be read: %w", terminal.CountOf(len(found.Corrupt), "session"), session.ErrCorrupt)
	}
	return nil
}

func (p *program) healthText(found storeHealth) string {
	var b strings.Builder
	line := func(c terminal.Colour, key, format string, args ...any) {
		fmt.Fprintf(&b, "%s %s\n", p.Out.Paint(terminal.Dim, fmt.Sprintf("%-12s", key)), p.Out.Paint(c, terminal.OneLine(fmt.Sprintf(format, args...))))
	}
	line(terminal.Plain, "program", "%s", found.Build)
	line(terminal.Plain, "store", "%s", found.Store)
	switch {
	case found.Missing:
		line(terminal.Yellow, "missing", "there is no store yet; a chat, a run or a task makes it")
	case found.Writable:
		line(terminal.Green, "writable", "yes")
	default:
		line(terminal.Red, "writable", "no: %v", found.writeErr)
	}
	models := strings.Join(found.Models, ", ")
	if len(found.Models) == 1 {
		models += " (no provider is configured)"
	}
	line(terminal.Plain, "models", "%s", models)
	switch missing := strings.Join(found.Sandbox.Missing, "; "); {
	case missing == "":
		line(terminal.Green, "sandbox", "complete")
	case found.Sandbox.Complete:
		line(terminal.Green, "sandbox", "holds, but %s", missing)
	default:
		line(terminal.Yellow, "sandbox", "%s", missing)
	}
	var counts []string
	for _, status := range session.Statuses() {
		if n := found.Statuses[status]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, status))
		}
	}
	line(terminal.Plain, "sessions", "%d %s", found.Sessions, parenthesised(counts))
	if found.repairReport != nil {
		for _, text := range found.Mended {
			line(terminal.Green, "mended", "%s", text)
		}
		if found.Reindexed != nil {
			line(terminal.Green, "reindexed", "%d entries", *found.Reindexed)
		}
	}
	for _, id := range found.Interrupted {
		if slices.Contains(found.SetAside, id) {
			line(terminal.Yellow, "set aside", "%s · recovered too often without an end; continue with: holdfast sessions retry %s", id, display.ShortID(id))
			continue
		}
		line(terminal.Yellow, "interrupted", "%s · continue with: %s", id, display.ContinueCommand(found.kinds[id], id))
	}
	for _, text := range found.Warnings {
		line(terminal.Yellow, "warning", "%s", text)
	}
	for _, text := range found.Problems {
		line(terminal.Red, "problem", "%s", text)
	}
	if len(found.Problems) > 0 && found.repairReport == nil {
		line(terminal.Dim, "", "mend what can be built anew from the log with: holdfast doctor --repair")
	}
	for _, c := range found.Corrupt {
		line(terminal.Red, "corrupt", "%v", c)
	}
	if len(found.Corrupt) > 0 {
		line(terminal.Dim, "", "repair the file from a backup, or give it up with: holdfast sessions purge ID")
	}
	return b.String()
}

func parenthesised(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "(" + strings.Join(words, ", ") + ")"
}

// reachable returns which models can be named here: the one built in, and any of
// the providers that are set up.
func (p *program) reachable(e *setup.Env) []string {
	models := []string{offline.Name}
	for _, provider := range p.UsableProviders(e.Models.Providers.Catalog) {
		models = append(models, provider+"/MODEL")
	}
	return models
}
