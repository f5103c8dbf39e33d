package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) memoryCommand() *cobra.Command {
	return group("memory", "show and change what sessions, users and agents remember",
		p.memoryListCommand(), p.memoryGetCommand(), p.memorySetCommand(), p.searchCommand("search"), p.memoryForgetCommand(), p.blocksCommand(), p.factsCommand())
}

// addScopeFlag adds the flag that chooses whose memory a command is about.
func addScopeFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("scope", string(memory.ScopeSession), "`SCOPE` of the memory: session, user, agent or space:NAME")
}

// labelFlags are the labels that a command stores or asks for.
type labelFlags struct {
	tags          []string
	metadata      map[string]string
	after, before string
}

// addTo adds the flags; what says what they are for.
func (l *labelFlags) addTo(cmd *cobra.Command, what string) {
	cmd.Flags().StringSliceVar(&l.tags, "tag", nil, what+" `TAG`; may be repeated")
	cmd.Flags().StringToStringVar(&l.metadata, "meta", nil, what+" metadata `NAME=VALUE`; may be repeated")
}

// addTimesTo adds the flags of the time something was written in.
func (l *labelFlags) addTimesTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.after, "after", "", "only what was written after `TIME`, as 2026-01-31 or 2026-01-31T12:00:00Z")
	cmd.Flags().StringVar(&l.before, "before", "", "only what was written before `TIME`")
}

// filter is what the flags ask for.
func (l *labelFlags) filter() (memory.Filter, error) {
	after, err := momentFlag("after", l.after)
	if err != nil {
		return memory.Filter{}, err
	}
	before, err := momentFlag("before", l.before)
	return memory.Filter{Tags: l.tags, Metadata: l.metadata, After: after, Before: before}, err
}

// onMemory runs a command on the memory of the session it names.
func (p *program) onMemory(scope *string, run func(ctx context.Context, m memory.Handle, scope memory.Scope, args []string) error) func(*cobra.Command, []string) error {
	return p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
		if err := checkUserScope(memory.Scope(*scope), i); err != nil {
			return err
		}
		m, err := e.Memory(ctx, i.ID)
		if err != nil {
			return err
		}
		return run(ctx, m, memory.Scope(*scope), args)
	})
}

// checkUserScope refuses the scope of a user where there is none.
func checkUserScope(scope memory.Scope, i session.Info) error {
	if scope == memory.ScopeUser && i.UserID == "" {
		return &session.InvalidError{Field: "scope", Reason: "session " + display.ShortID(i.ID) + " has no user; start one for a user with: holdfast chat --user NAME"}
	}
	return nil
}

func (p *program) memoryListCommand() *cobra.Command {
	var labels labelFlags
	cmd := &cobra.Command{
		Use: "list REF [PREFIX]", Short: "list what is stored", Args: cobra.RangeArgs(1, 2),
		Long: `List what is stored for a session, its user, its agent or in a space: all keys, or those
under a PREFIX of whole segments, as trip is of trip/city. With --json: an array of entries.`,
	}
	cmd.RunE = p.onMemory(addScopeFlag(cmd), func(ctx context.Context, m memory.Handle, scope memory.Scope, args []string) error {
		filter, err := labels.filter()
		if err != nil {
			return err
		}
		return p.printEntries(ctx, m, scope, strings.Join(args, ""), filter)
	})
	labels.addTo(cmd, "only what has")
	labels.addTimesTo(cmd)
	return cmd
}

func (p *program) memoryGetCommand() *cobra.Command {
	var version int64
	cmd := &cobra.Command{
		Use: "get REF KEY", Short: "print a stored value", Args: cobra.ExactArgs(2),
		Long: "Print the value that is stored under a key. With --json: the entry.",
	}
	cmd.RunE = p.onMemory(addScopeFlag(cmd), func(ctx context.Context, m memory.Handle, scope memory.Scope, args []string) error {
		return p.printEntryOf(ctx, m, scope, args[0], version)
	})
	cmd.Flags().Int64Var(&version, "version", 0, "an earlier version `N` of it (default the last)")
	return cmd
}

func (p *program) memorySetCommand() *cobra.Command {
	var (
		raw       bool
		ifVersion int64
		labels    labelFlags
		ttl       string
	)
	cmd := &cobra.Command{
		Use: "set REF KEY VALUE", Short: "store a value", Args: cobra.ExactArgs(3),
		Long: `Store a value under a key: a text, or with --raw JSON. What was there before stays readable
as an earlier version. Tags and metadata are what it can be filtered by. With --ttl it is
gone after a while. With --json: the entry.`,
	}
	cmd.RunE = p.onMemory(addScopeFlag(cmd), func(ctx context.Context, m memory.Handle, scope memory.Scope, args []string) error {
		opts := append(ifVersionOption(cmd, ifVersion), memory.Tags(labels.tags...), memory.Metadata(labels.metadata))
		if ttl != "" {
			d, err := parseDays("ttl", ttl)
			if err != nil {
				return err
			}
			opts = append(opts, memory.TTL(d))
		}
		return p.storeMemory(ctx, m, scope, args[0], args[1], raw, opts...)
	})
	labels.addTo(cmd, "label it with")
	cmd.Flags().StringVar(&ttl, "ttl", "", "keep it for `TIME`, such as 30d or 12h (default for ever)")
	cmd.Flags().BoolVar(&raw, "raw", false, "VALUE is JSON, not a string")
	addIfVersionFlag(cmd, &ifVersion)
	return cmd
}

func addIfVersionFlag(cmd *cobra.Command, version *int64) {
	cmd.Flags().Int64Var(version, "if-version", 0, "only if version `N` is the last; 0 if there must be none")
}

func ifVersionOption(cmd *cobra.Command, version int64) []memory.Option {
	if !cmd.Flags().Changed("if-version") {
		return nil
	}
	return []memory.Option{memory.IfVersion(version)}
}

func (p *program) memoryForgetCommand() *cobra.Command {
	var yes bool
	all := memory.Forgetting{Scope: memory.ScopeUser}
	cmd := &cobra.Command{
		Use: "forget REF KEY | --user NAME", Short: "remove a stored value with all its versions, or all that is remembered for a user", Args: cobra.RangeArgs(0, 2),
		Long: `Remove what is stored under a key, with all its versions. With --json: the key.

With --user remove everything that is remembered for a user: values, shared blocks and facts.
What was said stays in the sessions and is found there, unless --transcripts takes it out of
search for good. With --json: how many values and sessions.`,
	}
	one := p.onMemory(addScopeFlag(cmd), func(ctx context.Context, m memory.Handle, scope memory.Scope, args []string) error {
		return p.forgetMemory(ctx, m, scope, args[0])
	})
	everything := p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
		if err := p.Confirm(ctx, yes || all.DryRun, "Forget everything about "+terminal.OneLine(all.Owner)+" for good?"); err != nil {
			return err
		}
		n, err := e.Forget(ctx, all)
		if err != nil {
			return err
		}
		verb := "forgot"
		if all.DryRun {
			verb = "would forget"
		}
		return p.PrintResult(n, "%s %s and the transcripts of %s", verb, terminal.CountOf(n.Entries, "value"), terminal.CountOf(n.Sessions, "session"))
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case all.Owner == "" && (all.Transcripts || all.DryRun):
			return &session.InvalidError{Field: "user", Reason: "--transcripts and --dry-run are for all that a user has; give --user"}
		case all.Owner == "" && len(args) != 2:
			return &session.InvalidError{Field: "forget", Reason: "give a session and a key, or --user"}
		case all.Owner == "":
			return one(cmd, args)
		case len(args) > 0:
			return &session.InvalidError{Field: "forget", Reason: "give either a session and a key, or --user"}
		}
		return everything(cmd, args)
	}
	f := cmd.Flags()
	f.StringVar(&all.Owner, "user", "", "everything that is remembered for the user `NAME`")
	f.BoolVar(&all.Transcripts, "transcripts", false, "with --user: what was said so far in the user's sessions is not found any more; it stays readable")
	f.BoolVar(&all.DryRun, "dry-run", false, "with --user: change nothing, only count")
	f.BoolVarP(&yes, "yes", "y", false, "with --user: do not ask for confirmation")
	return cmd
}

func (p *program) recallCommand() *cobra.Command { return p.searchCommand("recall") }

// searchCommand finds what was said and stored.
func (p *program) searchCommand(name string) *cobra.Command {
	var (
		o         memory.RecallOptions
		scopes    []string
		threshold float64
		labels    labelFlags

		mode, facts string
	)
	cmd := &cobra.Command{
		Use: name + " REF QUERY", Short: "search a session and its memory", Args: cobra.ExactArgs(2),
		Long: `Search the messages and the memory of a session, best matches first: by words, and by
meaning with a built-in model. With --json: an array of what was found.
It needs a store that can be searched.`,
	}
	cmd.RunE = p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
		o := o
		for _, scope := range scopes {
			o.Scopes = append(o.Scopes, memory.Scope(scope))
		}
		if cmd.Flags().Changed("threshold") {
			o.Threshold = &threshold
		}
		o.Mode, o.Facts = memory.Mode(mode), memory.FactTime(facts)
		var err error
		if o.Filter, err = labels.filter(); err != nil {
			return err
		}
		if o.Mode != memory.Keyword {
			e.EmbedAll(ctx)
		}
		m, err := e.Memory(ctx, i.ID)
		if err != nil {
			return err
		}
		hits, err := m.Recall(ctx, args[0], o)
		if err != nil {
			return err
		}
		if len(hits) == 0 && !p.JSON {
			p.Err.Status("nothing has a score of %.2f or more; try a lower --threshold", threshold)
			return nil
		}
		return p.printHits(i.ID, hits)
	})
	f := cmd.Flags()
	f.IntVar(&o.Limit, "limit", 0, "at most `N` (default 5)")
	f.StringVar(&mode, "mode", string(memory.Hybrid), "compare by `MODE`: hybrid, keyword (words alone) or semantic (meaning alone)")
	f.Float64Var(&threshold, "threshold", memory.DefaultThreshold, "how well a passage must match, from `0` to 1: the share of the query's words it contains, or how close its meaning is")
	f.StringSliceVar(&scopes, "scope", nil, "where to look, as `SCOPE`[,…]: session, user, agent, space:NAME (default session)")
	f.BoolVar(&o.IncludeCleared, "cleared", false, "also what a clear or a rewind removed from the transcript")
	f.StringVar(&o.Prefix, "prefix", "", "only stored values whose keys are below `KEY`")
	labels.addTo(cmd, "only stored values with")
	labels.addTimesTo(cmd)
	f.StringVar(&facts, "facts", string(memory.FactsNow), "`WHICH` facts: now (those that are true now) or all")
	return cmd
}

// momentFlag reads a day or an instant of a flag; "" is none.
func momentFlag(name, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil || text == "" {
			return t, nil
		}
	}
	return time.Time{}, &session.InvalidError{Field: name, Reason: fmt.Sprintf("%q is not a day as 2026-01-31 or a moment as 2026-01-31T12:00:00Z", text)}
}

// printHits prints what was found, and where: a message of another session with
// that session.
func (p *program) printHits(id string, hits []memory.Hit) error {
	if p.JSON {
		return p.PrintJSON(hits)
	}
	for _, hit := range hits {
		place := fmt.Sprintf("change %d", hit.Seq)
		if hit.SessionID != id {
			place += " of " + display.ShortID(hit.SessionID)
		}
		if hit.Source == memory.FromEntry {
			place = string(hit.Scope) + " " + terminal.OneLine(hit.Key)
		}
		line := fmt.Sprintf("%s %s %s\n  %s\n", p.Out.Paint(terminal.Cyan, fmt.Sprintf("%.2f", hit.Score)), place,
			p.Out.Paint(terminal.Dim, terminal.Ago(hit.CreatedAt, p.Now())), terminal.Shortened(hit.Text, 400))
		if err := p.Out.Print(line); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) rememberCommand() *cobra.Command {
	var (
		scope             string
		remove, raw, list bool
	)
	cmd := &cobra.Command{
		Use: "remember REF KEY [VALUE]", Short: "store a value for a session, its user or its agent; without VALUE print it", Args: cobra.RangeArgs(1, 3),
		Long: `Store a value under a key for a session, its user or its agent; without VALUE print the
value. A value is a text, or with --raw JSON. With --json: the entry.

With --list print all keys, or those under a PREFIX of whole segments in place of KEY, as
trip is of trip/city. With --json: an array of entries.`,
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, args []string) error {
			scope := memory.Scope(scope)
			switch {
			case list && (remove || len(args) > 1):
				return &session.InvalidError{Field: "list", Reason: "give --list with a prefix or nothing"}
			case !list && len(args) == 0:
				return &session.InvalidError{Field: "key", Reason: "give a key, or --list"}
			case remove && len(args) > 1:
				return &session.InvalidError{Field: "value", Reason: "give either a value or --remove"}
			}
			if err := checkUserScope(scope, i); err != nil {
				return err
			}
			m, err := e.Memory(ctx, i.ID)
			switch {
			case err != nil:
				return err
			case list:
				return p.printEntries(ctx, m, scope, strings.Join(args, ""), memory.Filter{})
			case remove:
				return p.forgetMemory(ctx, m, scope, args[0])
			case len(args) == 1:
				return p.printEntryOf(ctx, m, scope, args[0], 0)
			}
			return p.storeMemory(ctx, m, scope, args[0], args[1], raw)
		}),
	}
	cmd.Flags().StringVar(&scope, "scope", string(memory.ScopeSession), "`SCOPE` of the key: session, user, agent or space:NAME")
	cmd.Flags().BoolVar(&list, "list", false, "list all keys, or all under a prefix")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the key")
	cmd.Flags().BoolVar(&raw, "raw", false, "VALUE is JSON, not a string")
	return cmd
}

func (p *program) storeMemory(ctx context.Context, m memory.Handle, scope memory.Scope, key, text string, raw bool, opts ...memory.Option) error {
	value, err := valueOf(text, raw)
	if err != nil {
		return err
	}
	e, err := m.Store(ctx, scope, key, value, opts...)
	if err != nil {
		return err
	}
	return p.PrintResult(e, "remembered %s · version %d", terminal.OneLine(key), e.Version)
}

// allEntries reads everything under a prefix that a filter selects.
func allEntries(ctx context.Context, m memory.Handle, scope memory.Scope, prefix string, filter memory.Filter) ([]memory.Entry, error) {
	all := []memory.Entry{}
	for after := ""; ; {
		page, err := m.Keys(ctx, scope, prefix, memory.KeyPage{After: after, Filter: filter})
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		after = page[len(page)-1].Key
	}
}

// printEntries prints everything under a prefix, a line each.
func (p *program) printEntries(ctx context.Context, m memory.Handle, scope memory.Scope, prefix string, filter memory.Filter) error {
	all, err := allEntries(ctx, m, scope, prefix, filter)
	switch {
	case err != nil:
		return err
	case p.JSON:
		return p.PrintJSON(all)
	case len(all) == 0:
		p.Err.Status("nothing is stored here")
		return nil
	}
	t := terminal.Table{Head: []string{"KEY", "VALUE", "VER", "UPDATED"}, Flex: 1}
	for _, e := range all {
		t.Add(terminal.Styled(terminal.OneLine(e.Key), terminal.Bold), terminal.Styled(terminal.Shortened(display.MetadataText(e.Value), 200), terminal.Plain), terminal.Styled(strconv.FormatInt(e.Version, 10), terminal.Plain), terminal.Styled(terminal.Ago(e.UpdatedAt, p.Now()), terminal.Dim))
	}
	return p.Out.Print(t.Layout(p.Out))
}

// printEntryOf prints a version of an entry, 0 for the last.
func (p *program) printEntryOf(ctx context.Context, m memory.Handle, scope memory.Scope, key string, version int64) error {
	var opts []memory.Option
	if version != 0 {
		opts = append(opts, memory.At(version))
	}
	e, found, err := m.Get(ctx, scope, key, opts...)
	if err == nil && !found {
		err = noEntry(key)
	}
	if err != nil {
		return err
	}
	return p.PrintResult(e, "%s", p.ForOutput(display.MetadataText(e.Value)))
}

func (p *program) forgetMemory(ctx context.Context, m memory.Handle, scope memory.Scope, key string) error {
	found, err := m.Delete(ctx, scope, key)
	if err == nil && !found {
		err = noEntry(key)
	}
	if err != nil {
		return err
	}
	return p.PrintResult(map[string]string{"removed": key}, "forgot %s", terminal.OneLine(key))
}

func noEntry(key string) error { return &session.NotFoundError{What: "memory", ID: key} }

// valueOf returns a value of the command line: a string, or JSON as it is.
func valueOf(arg string, raw bool) (any, error) {
	if !raw {
		return arg, nil
	}
	if !json.Valid([]byte(arg)) {
		return nil, &session.InvalidError{Field: "value", Reason: fmt.Sprintf("%q is not JSON", arg)}
	}
	return json.RawMessage(arg), nil
}
