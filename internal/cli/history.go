package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) historyCommand() *cobra.Command {
	var (
		o      memory.HistoryOptions
		meta   []string
		oldest bool
	)
	cmd := &cobra.Command{
		Use: "history REF", Short: "print messages, also those that the model no longer sees", Args: cobra.ExactArgs(1),
		Long: `Print messages of a session, also those that the model no longer sees: the last ones, in
their order. With --json: a page; its field next is the number to continue from.`,
		RunE: p.OnSession(func(ctx context.Context, e *setup.Env, i session.Info, _ []string) error {
			o := o
			var err error
			if o.Metadata, err = parsePairs(meta); err != nil {
				return err
			}
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
	f.StringVar(&o.Request, "request", "", "only the request with this `ID`, those it led to, and the answers to them")
	f.StringArrayVar(&meta, "meta", nil, "only requests with this metadata, `KEY=VALUE`, and the answers to them; may be repeated")
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
