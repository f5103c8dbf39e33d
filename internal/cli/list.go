package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

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
		Use: "list", Aliases: []string{"ls"}, Short: "list sessions, the last used first", Args: cobra.NoArgs,
		Long: "List sessions, the last used first. With --json: an array of headers.",
		RunE: p.inEnv(func(ctx context.Context, e *env, _ []string) error {
			q := q
			keep, err := queryByStatus(&q, statuses, e.interrupted(ctx))
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
			page, err := e.listKept(ctx, q, keep)
			if err != nil {
				return err
			}
			return p.printPage(ctx, e, page)
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

// queryByStatus puts the statuses that were asked for into a query. Runs and tasks
// have a status of their own, so what a query cannot say keep does; nil keeps all.
func queryByStatus(q *store.Query, statuses []string, interrupted func(session.Info) bool) (keep func(session.Info) bool, err error) {
	if len(statuses) == 0 {
		return nil, nil
	}
	runs, stored := 0, 0
	for _, s := range statuses {
		run, own := slices.Contains(workflow.Statuses(), workflow.Status(s)), slices.Contains(session.Statuses(), session.Status(s))
		ofTask := slices.Contains(task.Statuses(), s)
		switch {
		case !run && !own && !ofTask:
			return nil, &session.InvalidError{Field: "status", Reason: fmt.Sprintf("%q is not a status of a session, a task or a workflow run", s)}
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
	return func(i session.Info) bool {
		if i.Task != nil && interrupted(i) {
			return slices.Contains(statuses, task.Interrupted)
		}
		return slices.Contains(statuses, statusOf(i)) || i.Status == session.Suspended && slices.Contains(statuses, string(i.Status))
	}, nil
}

// statusOf returns the status that listings show: a run's or a task's own.
func statusOf(i session.Info) string {
	switch {
	case i.Status == session.Deleted:
	case i.Workflow != nil:
		return i.Workflow.Status
	case i.Task != nil:
		return task.Canonical(*i.Task)
	}
	return string(i.Status)
}

// listKept returns a page of the sessions that keep lets through. It asks for no more
// at a time than have room on the page, so that the next one begins after it.
func (e *env) listKept(ctx context.Context, q store.Query, keep func(session.Info) bool) (store.Page, error) {
	if keep == nil {
		return e.List(ctx, q)
	}
	q, _, err := q.Check()
	if err != nil {
		return store.Page{}, err
	}
	found, most := session.Infos{}, q.Limit
	for {
		q.Limit = most - len(found)
		page, err := e.List(ctx, q)
		if err != nil {
			return page, err
		}
		found = append(found, slices.DeleteFunc(page.Items, func(i session.Info) bool { return !keep(i) })...)
		if page.Items = found; page.Next == "" || len(found) == most {
			return page, nil
		}
		q.Cursor = page.Next
	}
}

func (p *program) printPage(ctx context.Context, e *env, page store.Page) error {
	if err := p.printInfos(ctx, e, page.Items); err != nil {
		return err
	}
	if len(page.Items) == 0 && !p.json && len(page.Corrupt) == 0 {
		p.err.status("no sessions here; start one with: holdfast chat")
	}
	for _, c := range page.Corrupt {
		p.warnEarly("%v", c)
	}
	p.printNext(page.Next)
	return nil
}

// printNext says where the next page begins: to a program as a line of JSON.
func (p *program) printNext(cursor string) {
	switch {
	case cursor == "":
	case p.json:
		p.errJSON(map[string]string{"next": cursor})
	default:
		p.err.status("there are more sessions; next page: --cursor %s", cursor)
	}
}

// errJSON prints a line of JSON beside the result.
func (p *program) errJSON(v any) {
	if raw, err := session.JSON(v); err == nil {
		fmt.Fprintf(p.err, "%s\n", raw)
	}
}

// interrupted reports the runs and tasks that say they run while nobody works
// on them.
func (e *env) interrupted(ctx context.Context) func(session.Info) bool {
	return func(i session.Info) bool {
		status := statusOf(i)
		if (i.Workflow == nil || status != string(workflow.StatusRunning)) && (i.Task == nil || status != task.Executing && status != task.Planning) {
			return false
		}
		_, live, err := e.Holder(ctx, i.ID)
		return err == nil && !live
	}
}

// printInfos prints a table of sessions, or their headers.
func (p *program) printInfos(ctx context.Context, e *env, infos session.Infos) error {
	if p.json {
		return p.printJSON(infos)
	}
	if len(infos) == 0 {
		return nil
	}
	interrupted := e.interrupted(ctx)
	t := table{head: []string{"ID", "KIND", "NAME", "AGENT", "STATUS", "VER", "MSGS", "UPDATED"}, flex: 2}
	jobs := slices.ContainsFunc(infos, func(i session.Info) bool { return i.Workflow != nil || i.Task != nil })
	if jobs {
		t.head = slices.Insert(t.head, 5, "PROGRESS", "COST")
	}
	for _, i := range infos {
		status, name := cell{statusOf(i), statusColour(i.Status)}, i.Name
		switch {
		case i.Status == session.Deleted:
		case i.Workflow != nil:
			status = cell{runStatus(i.Workflow.Status, !interrupted(i)), runColour(workflow.Status(i.Workflow.Status))}
		case i.Task != nil:
			row := *i.Task
			if interrupted(i) {
				row.Status = task.Interrupted
			}
			status = cell{task.Canonical(row), taskColour(task.Row{TaskRow: row})}
		}
		kind, agent := string(i.Kind), i.AgentName
		if i.Task != nil {
			name = cmp.Or(name, i.Task.Title)
		}
		if i.Workflow != nil { // a run has several agents, in a pattern
			name, kind, agent = cmp.Or(name, i.Workflow.Name), kind+" "+i.Workflow.Pattern, ""
		}
		shown := cell{oneLine(name), bold}
		if name == "" {
			shown = cell{e.titleOf(ctx, i), dim}
		}
		row := []cell{
			{shortID(i.ID), cyan}, {oneLine(kind), plain}, shown, {oneLine(agent), plain}, status,
			{strconv.FormatInt(i.Version, 10), plain}, {strconv.Itoa(i.MessageCount), plain}, {ago(i.UpdatedAt, p.now()), dim},
		}
		if jobs {
			row = slices.Insert(row, 5, cell{progressText(i), plain}, cell{costText(i), plain})
		}
		t.add(row...)
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

// progressText returns how far a run or a task has come, from its row: units that
// are done, steps of the plan, items of the checklist.
func progressText(i session.Info) string {
	of := func(done, all int) string {
		if all == 0 {
			return strconv.Itoa(done)
		}
		return fmt.Sprintf("%d/%d", done, all)
	}
	switch {
	case i.Workflow != nil:
		return of(i.Workflow.UnitsDone, i.Workflow.Units)
	case i.Task == nil || i.Task.Projection == nil:
	case i.Task.Projection.Steps > 0:
		return of(i.Task.Projection.StepsDone, i.Task.Projection.Steps)
	case i.Task.Projection.Items > 0:
		return of(i.Task.Projection.ItemsDone, i.Task.Projection.Items)
	}
	return ""
}

// costText returns what a run or a task has cost, from its row. A chat's row has
// no cost: it would have to be written with every answer.
func costText(i session.Info) string {
	switch {
	case i.Workflow != nil:
		return "$" + i.Workflow.Cost.String()
	case i.Task != nil && i.Task.Projection != nil:
		return "$" + i.Task.Projection.Cost.String()
	}
	return ""
}
