package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool/sandbox"
)

// storeHealth is what the doctor found.
type storeHealth struct {
	Store       string                  `json:"store"`
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
	Build       build                   `json:"build"`
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
	cmd.RunE = p.inEnv(func(ctx context.Context, e *env, _ []string) error {
		done, err := p.repairStore(ctx, e, p.repair, reindex)
		if err != nil {
			return err
		}
		found, err := p.checkStore(ctx, e, only)
		if err != nil {
			return err
		}
		found.repairReport = done
		if p.json {
			err = p.printJSON(found)
		} else {
			err = p.out.print(p.healthText(found))
		}
		return errors.Join(err, found.verdict())
	})
	cmd.Flags().BoolVar(&p.repair, "repair", false, "first repair what can be rebuilt from the log")
	cmd.Flags().BoolVar(&reindex, "reindex", false, "first rebuild the index of words")
	cmd.Flags().StringVar(&only, "session", "", "check this session alone: an id, the beginning of one or a name")
	return cmd
}

// repairStore repairs and rebuilds as the flags say; nil: they say nothing.
func (p *program) repairStore(ctx context.Context, e *env, repair, reindex bool) (*repairReport, error) {
	if !repair && !reindex {
		return nil, nil
	}
	doctor, ok := e.store.(store.Doctors)
	if !ok {
		return nil, &session.UnsupportedError{Store: e.url.String(), Ability: "repairing and reindexing"}
	}
	done := &repairReport{Mended: []string{}}
	if repair {
		shown := p.progress("repairing", "step")
		mended, err := doctor.Repair(ctx, shown.report)
		shown.end()
		done.Mended = append(done.Mended, mended...)
		if err != nil {
			return done, errors.Join(err, p.printRepaired(mended))
		}
	}
	if reindex {
		shown := p.progress("reindexing", "step")
		n, err := doctor.Reindex(ctx, shown.report)
		shown.end()
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
		fmt.Fprintf(&b, "mended       %s\n", oneLine(text))
	}
	if p.json {
		return nil
	}
	return p.out.print(b.String())
}

// checkStore looks at everything, or at one session alone, and changes nothing.
func (p *program) checkStore(ctx context.Context, e *env, only string) (storeHealth, error) {
	found := storeHealth{
		Store: e.url.String(), Statuses: map[session.Status]int{}, Interrupted: []string{}, SetAside: []string{}, Corrupt: []*session.CorruptError{}, Problems: []string{}, Warnings: []string{},
		Models: p.reachable(e), Build: thisBuild(), kinds: map[string]session.Kind{},
	}
	status := sandbox.Probe()
	found.Sandbox = sandboxHealth{Complete: status.Complete(), Missing: append([]string{}, status.Missing...)}
	found.writeErr = e.url.writable()
	found.Writable = found.writeErr == nil
	if warner, ok := e.store.(interface {
		Warnings(ctx context.Context) ([]string, error)
	}); ok {
		warnings, err := warner.Warnings(ctx)
		if err != nil {
			return found, err
		}
		found.Warnings = append(found.Warnings, warnings...)
	}
	if only != "" {
		err := e.checkSession(ctx, only, &found)
		return found, err
	}
	if doctor, ok := e.store.(store.Doctors); ok {
		shown := p.progress("checking", "step")
		problems, err := doctor.Check(ctx, shown.report)
		shown.end()
		if err != nil {
			return found, err
		}
		found.Problems = append(found.Problems, problems...)
	}
	if err := p.checkSessions(ctx, e, &found); err != nil {
		return found, err
	}
	tails, ok := e.store.(store.Tails)
	if !ok {
		return found, nil
	}
	refs, err := tails.Interrupted(ctx, e.tenant)
	for _, ref := range refs {
		found.Interrupted = append(found.Interrupted, ref.ID)
		s, err := e.store.Load(ctx, ref, true)
		if err == nil && s.SetAside() {
			found.SetAside = append(found.SetAside, ref.ID)
		}
	}
	return found, err
}

// checkSession looks at one session, by a reference or, if that cannot be read,
// by its whole id.
func (e *env) checkSession(ctx context.Context, text string, found *storeHealth) error {
	i, err := e.Resolve(ctx, text)
	switch {
	case errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound) && session.CheckID(text) == nil:
		i = session.Info{ID: text}
	case err != nil:
		return err
	}
	r := store.Ref{Tenant: e.tenant, ID: i.ID}
	_, err = e.store.Load(ctx, r, true)
	if errors.Is(err, session.ErrNotFound) {
		return err
	}
	found.Sessions = 1
	if i.Status != "" {
		found.Statuses[i.Status] = 1
	}
	if corrupt := e.findCorrupt(ctx, i.ID); corrupt != nil {
		found.Corrupt = append(found.Corrupt, corrupt)
	}
	if doctor, ok := e.store.(store.Doctors); ok {
		problems, err := doctor.CheckSession(ctx, r)
		if err != nil {
			return err
		}
		found.Problems = append(found.Problems, problems...)
	}
	return nil
}

// checkSessions loads every session of the tenant.
func (p *program) checkSessions(ctx context.Context, e *env, found *storeHealth) error {
	shown := p.progress("reading", "session")
	defer shown.end()
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
			if err := e.findCorrupt(ctx, i.ID); err != nil {
				found.Corrupt = append(found.Corrupt, err)
			}
			shown.report(found.Sessions, 0)
		}
		if q.Cursor == "" {
			found.Corrupt = append(found.Corrupt, page.Corrupt...)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// findCorrupt loads a session, tail included: a header alone says little.
func (e *env) findCorrupt(ctx context.Context, id string) *session.CorruptError {
	_, err := e.store.Load(ctx, store.Ref{Tenant: e.tenant, ID: id}, true)
	var corrupt *session.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return corrupt
	case err != nil && !errors.Is(err, session.ErrNotFound): // removed meanwhile
		return &session.CorruptError{ID: id, Reason: err.Error()}
	}
	return nil
}

// writable tries whether a file can be made where the store keeps its own.
func (u storeURL) writable() error {
	dir := u.path
	switch u.scheme {
	case "file":
	case "sqlite":
		dir = filepath.Dir(u.path)
	default:
		return nil
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096)) // a full disk still takes an empty file
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// verdict returns the error of a store that is not well. Interrupted sessions are
// no illness.
func (found storeHealth) verdict() error {
	switch {
	case found.writeErr != nil:
		return fmt.Errorf("the store cannot be written: %w", found.writeErr)
	case len(found.Problems) > 0:
		return fmt.Errorf("the store has %s: %w", countOf(len(found.Problems), "problem"), session.ErrCorrupt)
	case len(found.Corrupt) > 0:
		return fmt.Errorf("%s cannot be read: %w", countOf(len(found.Corrupt), "session"), session.ErrCorrupt)
	}
	return nil
}

func (p *program) healthText(found storeHealth) string {
	var b strings.Builder
	line := func(c colour, key, format string, args ...any) {
		fmt.Fprintf(&b, "%s %s\n", p.out.paint(dim, fmt.Sprintf("%-12s", key)), p.out.paint(c, oneLine(fmt.Sprintf(format, args...))))
	}
	line(plain, "program", "%s", found.Build)
	line(plain, "store", "%s", found.Store)
	if found.Writable {
		line(green, "writable", "yes")
	} else {
		line(red, "writable", "no: %v", found.writeErr)
	}
	models := strings.Join(found.Models, ", ")
	if len(found.Models) == 1 {
		models += " (no provider is configured)"
	}
	line(plain, "models", "%s", models)
	switch missing := strings.Join(found.Sandbox.Missing, "; "); {
	case missing == "":
		line(green, "sandbox", "complete")
	case found.Sandbox.Complete:
		line(green, "sandbox", "holds, but %s", missing)
	default:
		line(yellow, "sandbox", "%s", missing)
	}
	var counts []string
	for _, status := range session.Statuses() {
		if n := found.Statuses[status]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, status))
		}
	}
	line(plain, "sessions", "%d %s", found.Sessions, parenthesised(counts))
	if found.repairReport != nil {
		for _, text := range found.Mended {
			line(green, "mended", "%s", text)
		}
		if found.Reindexed != nil {
			line(green, "reindexed", "%d entries", *found.Reindexed)
		}
	}
	for _, id := range found.Interrupted {
		if slices.Contains(found.SetAside, id) {
			line(yellow, "set aside", "%s · recovered too often without an end; continue with: holdfast sessions retry %s", id, shortID(id))
			continue
		}
		line(yellow, "interrupted", "%s · continue with: %s", id, continueCommand(found.kinds[id], id))
	}
	for _, text := range found.Warnings {
		line(yellow, "warning", "%s", text)
	}
	for _, text := range found.Problems {
		line(red, "problem", "%s", text)
	}
	if len(found.Problems) > 0 && found.repairReport == nil {
		line(dim, "", "mend what can be built anew from the log with: holdfast doctor --repair")
	}
	for _, c := range found.Corrupt {
		line(red, "corrupt", "%v", c)
	}
	if len(found.Corrupt) > 0 {
		line(dim, "", "repair the file from a backup, or give it up with: holdfast sessions purge ID")
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
func (p *program) reachable(e *env) []string {
	models := []string{offline.Name}
	for _, provider := range p.usableProviders(e.models.providers.Catalog) {
		models = append(models, provider+"/MODEL")
	}
	return models
}
