package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) recallCommand() *cobra.Command {
	var (
		o         memory.RecallOptions
		scopes    []string
		threshold float64
		mode      string
	)
	cmd := &cobra.Command{
		Use: "recall REF QUERY", Short: "search a session and its memory", Args: cobra.ExactArgs(2),
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
		o.Mode = memory.Mode(mode)
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
			p.Err.Status("nothing matches by %.2f or more; try a lower --threshold", threshold)
			return nil
		}
		return p.printHits(hits)
	})
	f := cmd.Flags()
	f.IntVar(&o.Limit, "limit", 0, "at most `N` (default 5)")
	f.StringVar(&mode, "mode", string(memory.Hybrid), "compare by `MODE`: hybrid, keyword (words alone) or semantic (meaning alone)")
	f.Float64Var(&threshold, "threshold", memory.DefaultThreshold, "how well a passage must match, from `0` to 1: the share of the query's words it contains, or how close its meaning is")
	f.StringSliceVar(&scopes, "scope", nil, "where to look, as `SCOPE`[,…]: session, user, agent (default session)")
	f.BoolVar(&o.IncludeCleared, "cleared", false, "also what a clear or a rewind removed from the transcript")
	return cmd
}

func (p *program) printHits(hits []memory.Hit) error {
	if p.JSON {
		return p.PrintJSON(hits)
	}
	for _, hit := range hits {
		place := fmt.Sprintf("change %d", hit.Seq)
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
			case scope == memory.ScopeUser && i.UserID == "":
				return &session.InvalidError{Field: "scope", Reason: "session " + display.ShortID(i.ID) + " has no user; start one for a user with: holdfast chat --user NAME"}
			}
			m, err := e.Memory(ctx, i.ID)
			switch {
			case err != nil:
				return err
			case list:
				return p.printEntries(ctx, m, scope, strings.Join(args, ""))
			case remove:
				return p.forgetMemory(ctx, m, scope, args[0])
			case len(args) == 1:
				return p.printEntryOf(ctx, m, scope, args[0])
			}
			return p.storeMemory(ctx, m, scope, args[0], args[1], raw)
		}),
	}
	cmd.Flags().StringVar(&scope, "scope", string(memory.ScopeSession), "`SCOPE` of the key: session, user or agent")
	cmd.Flags().BoolVar(&list, "list", false, "list all keys, or all under a prefix")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the key")
	cmd.Flags().BoolVar(&raw, "raw", false, "VALUE is JSON, not a string")
	return cmd
}

func (p *program) storeMemory(ctx context.Context, m memory.Handle, scope memory.Scope, key, text string, raw bool) error {
	value, err := valueOf(text, raw)
	if err != nil {
		return err
	}
	e, err := m.Store(ctx, scope, key, value)
	if err != nil {
		return err
	}
	return p.PrintResult(e, "remembered %s · version %d", terminal.OneLine(key), e.Version)
}

// printEntries prints everything under a prefix, a line each.
func (p *program) printEntries(ctx context.Context, m memory.Handle, scope memory.Scope, prefix string) error {
	all := []memory.Entry{}
	for after := ""; ; {
		page, err := m.Keys(ctx, scope, prefix, memory.KeyPage{After: after})
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
		after = page[len(page)-1].Key
	}
	switch {
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

func (p *program) printEntryOf(ctx context.Context, m memory.Handle, scope memory.Scope, key string) error {
	e, found, err := m.Get(ctx, scope, key)
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

func (p *program) historyCommand() *cobra.Command {
	var (
		o      memory.HistoryOptions
		oldest bool
	)
	cmd := &cobra.Command{
		Use: "history REF", Short: "print messages, also those that the model no longer sees", Args: cobra.ExactArgs(1),
		Long: `Print messages of a session, also those that the model no longer sees: the last ones, in
their order. With --json: a page; its field next is the number to continue from.`,
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
			o := o
			if oldest {
				o.Order = memory.Oldest
			}
			page, err := p.printHistory(ctx, e, i.ID, o)
			if err != nil || p.JSON || page.Next == 0 {
				return err
			}
			way := "--before"
			if oldest {
				way = "--after"
			}
			p.Err.Status("\n%s; there are more: %s %d", partText(page), way, page.Next)
			return nil
		}),
	}
	f := cmd.Flags()
	f.IntVarP(&o.Limit, "limit", "n", 0, "at most `N` messages (default 10)")
	f.BoolVar(&oldest, "oldest", false, "print the first messages, not the last")
	f.Int64Var(&o.BeforeSeq, "before", 0, "only messages before number `SEQ`")
	f.Int64Var(&o.AfterSeq, "after", 0, "only messages after number `SEQ`")
	f.BoolVar(&o.IncludeTrace, "trace", false, "also tool calls and their results")
	f.BoolVar(&o.IncludeCleared, "cleared", false, "also what a clear or a rewind removed from the transcript")
	return cmd
}

// printHistory prints a page in the order it was said.
func (p *program) printHistory(ctx context.Context, e *setup.Env, id string, o memory.HistoryOptions) (memory.Page, error) {
	m, err := e.Memory(ctx, id)
	if err != nil {
		return memory.Page{}, err
	}
	page, err := m.History(ctx, o)
	if err != nil {
		return page, err
	}
	if p.JSON {
		return page, p.PrintJSON(page)
	}
	if o.Order != memory.Oldest {
		slices.Reverse(page.Messages)
	}
	for _, message := range page.Messages {
		if err := p.Out.Print(display.MessageText(p.Out, p.Now(), message)); err != nil {
			return page, err
		}
	}
	return page, nil
}

// partText returns how much of the whole a page is.
func partText(page memory.Page) string {
	return fmt.Sprintf("%d of %s", len(page.Messages), terminal.CountOf(page.Total, "message"))
}
