package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/workflow"
)

func (p *program) listCommand() *cobra.Command {
	var (
		q        store.Query
		statuses []string
		meta     []string
		parent   string
	)
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, SuggestFor: []string{"tree", "forks", "children"}, Annotations: map[string]string{suggestedAs: "list --parent REF"}, Short: "list sessions, the last used first", Args: cobra.NoArgs,
		Long: "List sessions, the last used first. With --json: an array of headers.",
		RunE: p.InEnv(func(ctx context.Context, e *setup.Env, _ []string) error {
			q := q
			keep, err := queryByStatus(&q, statuses, func(l setup.Listing, i session.Info) bool { return e.Interrupted(ctx, l, i) })
			if err != nil {
				return err
			}
			if q.Metadata, err = parsePairs(meta); err != nil {
				return err
			}
			if parent != "" {
				info, err := e.Resolve(ctx, parent)
				if err != nil {
					return err
				}
				q.ParentID = info.ID
			}
			page, err := e.ListKept(ctx, q, keep)
			if err != nil {
				return err
			}
			if err := p.printPage(ctx, e, page); err != nil || len(page.Items) > 0 || q.Agent == "" {
				return err
			}
			return p.suggestAgent(ctx, e, q.Agent)
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&statuses, "status", nil, "only these, as `STATUS`[,…]: active, suspended, completed, failed, deleted; of workflow runs: running, paused, completed, failed, cancelled; of tasks: those of \"holdfast task list\"")
	f.StringVar(&q.Agent, "agent", "", "only of the agent `NAME`")
	f.StringVar(&q.UserID, "user", "", "only of the user `NAME`")
	f.StringVar(&q.Name, "name", "", "only with this `NAME`")
	f.StringVar(&parent, "parent", "", "only forks and children of the session `REF`")
	f.StringArrayVar(&meta, "meta", nil, "only with this metadata, `KEY=VALUE`; may be repeated")
	f.BoolVarP(&q.IncludeDeleted, "all", "a", false, "list deleted sessions too")
	f.IntVar(&q.Limit, "limit", 0, "at most `N` (default 50, at most 1000)")
	f.StringVar(&q.Cursor, "cursor", "", "start where the previous page ended")
	return cmd
}

// suggestAgent says which agent was likely meant by one that has no sessions.
func (p *program) suggestAgent(ctx context.Context, e *setup.Env, name string) error {
	page, err := e.List(ctx, store.Query{Limit: 1000})
	if err != nil {
		return err
	}
	var agents []string
	for _, i := range page.Items {
		agents = append(agents, i.AgentName)
	}
	if near := document.Nearest(name, agents); near != "" && !p.JSON {
		p.Err.Status("did you mean --agent %s?", near)
	}
	return nil
}

// parsePairs reads KEY=VALUE arguments.
func parsePairs(args []string) (map[string]string, error) {
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

// listedStatuses are the statuses of sessions, runs and tasks.
func listedStatuses() []string {
	all := task.Statuses()
	for _, s := range session.Statuses() {
		all = append(all, string(s))
	}
	for _, s := range workflow.Statuses() {
		all = append(all, string(s))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func unknownStatus(given string) error {
	reason := fmt.Sprintf("%q is not a status of a session, a task or a workflow run", given)
	if near := document.Nearest(given, listedStatuses()); near != "" {
		reason += fmt.Sprintf("; did you mean %s?", near)
	} else {
		reason += "; those are " + strings.Join(listedStatuses(), ", ")
	}
	return &session.InvalidError{Field: "status", Reason: reason}
}

// queryByStatus puts the statuses that were asked for into a query. Runs and tasks
// have a status of their own, so what a query cannot say keep does; nil keeps all.
func queryByStatus(q *store.Query, statuses []string, interrupted func(setup.Listing, session.Info) bool) (keep func(setup.Listing, session.Info) bool, err error) {
	if len(statuses) == 0 {
		return nil, nil
	}
	runs, stored := 0, 0
	for _, s := range statuses {
		run, own := slices.Contains(workflow.Statuses(), workflow.Status(s)), slices.Contains(session.Statuses(), session.Status(s))
		ofTask := slices.Contains(task.Statuses(), s)
		switch {
		case !run && !own && !ofTask:
			return nil, unknownStatus(s)
		case run && !own && !ofTask:
			runs++
		case s == string(session.Suspended) || s == string(session.Deleted):
			stored++
		}
		q.IncludeDeleted = q.IncludeDeleted || s == string(session.Deleted)
	}
	switch len(statuses) {
	case runs:
		q.WorkflowStatuses = statuses
		return nil, nil
	case stored:
		for _, s := range statuses {
			q.Statuses = append(q.Statuses, session.Status(s))
		}
		return nil, nil
	}
	return func(l setup.Listing, i session.Info) bool {
		if i.Workflow == nil && interrupted(l, i) {
			return slices.Contains(statuses, task.Interrupted)
		}
		return slices.Contains(statuses, display.StatusOf(i)) || i.Status == session.Suspended && slices.Contains(statuses, string(i.Status))
	}, nil
}

func (p *program) printPage(ctx context.Context, e *setup.Env, page setup.Listing) error {
	if err := p.printListing(ctx, e, page); err != nil {
		return err
	}
	filtered := false
	p.Command.LocalFlags().VisitAll(func(f *pflag.Flag) { filtered = filtered || f.Changed })
	switch {
	case len(page.Items) > 0 || p.JSON || len(page.Corrupt) > 0:
	case filtered:
		p.Err.Status("no session fits; see all with: holdfast sessions list --all")
	default:
		p.Err.Status("no sessions here; start one with: holdfast chat")
	}
	for _, c := range page.Corrupt {
		p.WarnEarly("%v", c)
	}
	p.printNext(page.Next)
	return nil
}

// printNext says where the next page begins: to a program as a line of JSON.
func (p *program) printNext(cursor string) {
	switch {
	case cursor == "":
	case p.JSON:
		p.ErrJSON(map[string]string{"next": cursor})
	default:
		p.Err.Status("there are more sessions; next page: --cursor %s", cursor)
	}
}

// printListing prints a table of sessions, or their headers.
func (p *program) printListing(ctx context.Context, e *setup.Env, page setup.Listing) error {
	if p.JSON {
		return p.PrintJSON(page.Items)
	}
	if len(page.Items) == 0 {
		return nil
	}
	t := terminal.Table{Head: []string{"ID", "KIND", "NAME", "AGENT", "STATUS", "VER", "MSGS", "UPDATED"}, Flex: 2, Spare: []string{"VER", "AGENT", "COST", "MSGS", "KIND", "UPDATED", "PROGRESS"}}
	jobs := slices.ContainsFunc(page.Items, func(i session.Info) bool { return i.Workflow != nil || i.Task != nil })
	if jobs {
		t.Head = slices.Insert(t.Head, 5, "PROGRESS", "COST")
	}
	for _, i := range page.Items {
		status, interrupted := terminal.Styled(display.StatusOf(i), display.StatusColour(i.Status)), e.Interrupted(ctx, page, i)
		switch {
		case i.Status == session.Deleted:
		case i.Workflow != nil:
			status = terminal.Styled(display.RunStatus(i.Workflow.Status, !interrupted), display.RunColour(workflow.Status(i.Workflow.Status)))
		case i.Task != nil:
			row := *i.Task
			if interrupted {
				row.Status = task.Interrupted
			}
			status = terminal.Styled(task.Canonical(row), display.TaskColour(task.Row{TaskRow: row}))
		case interrupted:
			status = terminal.Styled(task.Interrupted, terminal.Yellow)
		}
		kind, agent := string(i.Kind), i.AgentName
		if i.Workflow != nil { // a run has several agents, in a pattern
			kind, agent = kind+" "+i.Workflow.Pattern, ""
		}
		shown := terminal.Styled(terminal.OneLine(page.TitleOf(i)), terminal.Bold)
		if i.Name == "" && i.Kind == session.KindChat { // what was said there, in place of a name
			shown.Colour = terminal.Dim
		}
		row := []terminal.Cell{
			terminal.Styled(display.ShortID(i.ID), terminal.Cyan), terminal.Styled(terminal.OneLine(kind), terminal.Plain), shown, terminal.Styled(terminal.OneLine(agent), terminal.Plain), status,
			terminal.Styled(strconv.FormatInt(i.Version, 10), terminal.Plain), terminal.Styled(strconv.Itoa(page.MessagesOf(i)), terminal.Plain), terminal.Styled(terminal.Ago(i.UpdatedAt, p.Now()), terminal.Dim),
		}
		if jobs {
			row = slices.Insert(row, 5, terminal.Styled(display.ProgressText(i), terminal.Plain), terminal.Styled(display.CostText(i), terminal.Plain))
		}
		t.Add(row...)
	}
	return p.Out.Print(t.Layout(p.Out))
}
