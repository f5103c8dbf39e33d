package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func (p *program) listCommand() *cobra.Command {
	var (
		q        store.Query
		statuses []string
		meta     []string
		parent   string
	)
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "list sessions, the last used first", Args: cobra.NoArgs,
		Long: "List sessions, the last used first. With --json: an array of headers.",
		RunE: p.atHome(func(ctx context.Context, h *home, _ []string) error {
			q := q
			for _, s := range statuses {
				q.Statuses = append(q.Statuses, session.Status(s))
			}
			var err error
			if q.Metadata, err = pairs(meta); err != nil {
				return err
			}
			if parent != "" {
				info, err := h.Resolve(ctx, parent)
				if err != nil {
					return err
				}
				q.ParentID = info.ID
			}
			page, err := h.List(ctx, q)
			if err != nil {
				return err
			}
			return p.printPage(page)
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&statuses, "status", nil, "only these, as `STATUS`[,…]: active, suspended, completed, failed, deleted")
	f.StringVar(&q.Agent, "agent", "", "only of the agent `NAME`")
	f.StringVar(&q.UserID, "user", "", "only of the user `NAME`")
	f.StringVar(&q.Name, "name", "", "only with this `NAME`")
	f.StringVar(&parent, "parent", "", "only forks and children of the session `REF`")
	f.StringArrayVar(&meta, "meta", nil, "only with this metadata, `KEY=VALUE`; may be repeated")
	f.BoolVarP(&q.IncludeDeleted, "all", "a", false, "deleted ones too")
	f.IntVar(&q.Limit, "limit", 0, "at most `N` (default 50, at most 1000)")
	f.StringVar(&q.Cursor, "cursor", "", "go on where the page before ended")
	return cmd
}

// pairs reads KEY=VALUE arguments.
func pairs(args []string) (map[string]string, error) {
	m := make(map[string]string, len(args))
	for _, arg := range args {
		key, value, found := strings.Cut(arg, "=")
		if !found || key == "" {
			return nil, &session.InvalidError{Field: "meta", Reason: fmt.Sprintf("%q is not KEY=VALUE", arg)}
		}
		m[key] = value
	}
	return m, nil
}

func (p *program) printPage(page store.Page) error {
	if err := p.printInfos(page.Items); err != nil {
		return err
	}
	if len(page.Items) == 0 && !p.json && len(page.Corrupt) == 0 {
		p.err.status("no sessions here; start one with: holdfast chat")
	}
	for _, c := range page.Corrupt {
		p.err.warn("%v", c)
	}
	if page.Next != "" {
		p.err.status("there are more; the next page: --cursor %s", page.Next)
	}
	return nil
}

func (p *program) printInfos(infos session.Infos) error {
	if p.json {
		return p.printJSON(infos)
	}
	if len(infos) == 0 {
		return nil
	}
	t := table{head: []string{"ID", "NAME", "AGENT", "STATUS", "VER", "MSGS", "UPDATED"}, flex: 1}
	for _, i := range infos {
		t.add(
			cell{shortID(i.ID), cyan}, cell{oneLine(i.Name), bold}, cell{oneLine(i.AgentName), plain},
			cell{string(i.Status), statusColour(i.Status)}, cell{strconv.FormatInt(i.Version, 10), plain},
			cell{strconv.Itoa(i.MessageCount), plain}, cell{ago(i.UpdatedAt, p.now()), dim},
		)
	}
	return p.out.print(t.layout(p.out))
}

func statusColour(s session.Status) colour {
	switch s {
	case session.Active:
		return green
	case session.Suspended:
		return yellow
	case session.Failed:
		return red
	}
	return dim
}
