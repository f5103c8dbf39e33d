package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
)

func (p *program) taskSnapshotCommand() *cobra.Command {
	return &cobra.Command{
		Use: "snapshot ID", Short: "leave a snapshot of a task in its log", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) error {
			seq, err := d.saveSnapshot(ctx, row)
			if err != nil {
				return err
			}
			if p.JSON {
				return p.PrintJSON(map[string]int64{"seq": seq})
			}
			return p.Out.Print(fmt.Sprintf("snapshot at change %d\n", seq))
		}),
	}
}

// saveSnapshot leaves a snapshot of a task that nobody works on in its log.
func (d *taskEnv) saveSnapshot(ctx context.Context, row task.Row) (seq int64, err error) {
	if d.env.Server != nil {
		return d.env.Server.Tasks().SaveSnapshot(ctx, row.ID)
	}
	err = d.openIdle(ctx, row, func(r *task.Run) (err error) {
		seq, err = r.SaveSnapshot(ctx)
		return err
	})
	return seq, err
}

// clearReminder takes back the reminder to verify, of a task that nobody works
// on.
func (d *taskEnv) clearReminder(ctx context.Context, row task.Row) error {
	if d.env.Server != nil {
		return d.env.Server.Tasks().ClearReminder(ctx, row.ID)
	}
	return d.openIdle(ctx, row, func(r *task.Run) error { return r.ClearVerificationNudge(ctx) })
}

// importTask takes in a task of another program.
func (d *taskEnv) importTask(ctx context.Context, data []byte, o taskruntime.ImportOptions) (taskruntime.Imported, error) {
	if d.env.Server != nil {
		return d.env.Server.Tasks().Import(ctx, data, o)
	}
	return taskruntime.Import(ctx, d.x, data, o)
}

// openIdle opens a task that nobody works on. It waits for nobody: a task that
// is worked on is a BusyError.
func (d *taskEnv) openIdle(ctx context.Context, row task.Row, fn func(*task.Run) error) error {
	lease, live, err := d.env.Holder(ctx, row.ID)
	if err != nil {
		return err
	}
	if live {
		return &session.BusyError{ID: row.ID, Holder: lease.Holder, Until: lease.Until}
	}
	return d.x.Open(ctx, row.ID, fn)
}

func (p *program) taskExportCommand() *cobra.Command {
	var o taskruntime.ExportOptions
	cmd := &cobra.Command{
		Use: "export ID", Short: "print a task as a session_runtime_v2 snapshot", Args: cobra.ExactArgs(1),
		RunE: p.onTask(func(ctx context.Context, d *taskEnv, row task.Row, _ []string) error {
			raw, err := taskruntime.Export(ctx, d, row.ID, o)
			if err != nil {
				return err
			}
			return p.Out.Print(string(raw) + "\n")
		}),
	}
	cmd.Flags().Int64Var(&o.At, "at", 0, "as it was at `VERSION`")
	cmd.Flags().BoolVar(&o.Compact, "compact", false, "cut long texts and leave images out")
	return cmd
}

func (p *program) taskImportCommand() *cobra.Command {
	var workspace, model string
	cmd := &cobra.Command{
		Use: "import FILE", Short: "take in a snapshot, a checkpoint or the events of a task", Args: cobra.ExactArgs(1),
		Long: "Take in a task: a snapshot, a checkpoint, an array of events or JSON lines. What it is is seen\nfrom its content. FILE - reads standard input.",
		RunE: p.atWork(func(ctx context.Context, d *taskEnv, args []string) error {
			data, err := p.ReadFile(ctx, args[0])
			if err != nil {
				return err
			}
			o := taskruntime.ImportOptions{Definition: session.Definition{Name: "task", Model: model}, Now: p.Now}
			if workspace != "" {
				if o.Workspace, err = setup.WorkspaceAt(workspace); err != nil {
					return err
				}
				p.limitWorkspace(&o.Workspace)
			}
			in, err := d.importTask(ctx, data, o)
			if err != nil {
				return err
			}
			for _, w := range in.Report.Warnings {
				p.Err.Warn("%s", w)
			}
			if p.JSON {
				return p.PrintJSON(in)
			}
			return p.Out.Print(fmt.Sprintf("imported %s from %s · next: %s\n", in.Row.ID, in.Report.Source, display.NextForTask(in.Row)))
		}),
	}
	cmd.Flags().StringVar(&workspace, "workspace", "", "the `DIR` it may work in")
	cmd.Flags().StringVar(&model, "model", "", "the `MODEL` that works on it")
	return cmd
}

func (p *program) taskRulesCommand() *cobra.Command {
	var (
		dir    string
		effect string
		scope  session.Scope
	)
	cmd := &cobra.Command{
		Use: "rules [ID] [add|remove]", Short: "list, add or remove permission rules of a task or a workspace", Args: cobra.MaximumNArgs(2),
		Long: `List the permission rules of a task or, with --workspace, of a folder; add and remove them.

  holdfast task rules ID
  holdfast task rules ID add --effect allow --command "go test"
  holdfast task rules --workspace . add --effect deny --tool shell`,
	}
	f := cmd.Flags()
	f.StringVar(&dir, "workspace", "", "the rules of the folder `DIR`")
	f.StringVar(&effect, "effect", "allow", "allow, ask or deny")
	f.StringVar(&scope.ToolName, "tool", "", "of one `TOOL`")
	f.StringVar(&scope.Path, "path", "", "below a `PATH`")
	f.StringVar(&scope.Prefix, "command", "", "of commands that begin with `WORDS`")
	f.StringVar(&scope.Domain, "domain", "", "of a `HOST`")
	f.StringVar(&scope.ServerName, "server", "", "of a tool server `NAME`")
	cmd.RunE = p.atWork(func(ctx context.Context, d *taskEnv, args []string) error {
		verb := ""
		if n := len(args); n > 0 && slices.Contains([]string{"add", "remove"}, args[n-1]) {
			verb, args = args[n-1], args[:n-1]
		}
		if (len(args) == 0) == (dir == "") {
			return &session.InvalidError{Field: "rules", Reason: "name a task, or a folder with --workspace"}
		}
		rule := session.Rule{Effect: effect, Scope: scope}
		rule.Scope.Kind = scopeKind(scope)
		if dir != "" {
			return p.workspaceRules(ctx, d, dir, verb, rule)
		}
		return p.taskRules(ctx, d, args[0], verb, rule)
	})
	return cmd
}

// scopeKind is what a scope is about, by what it names.
func scopeKind(s session.Scope) string {
	switch {
	case s.Domain != "":
		return "domain"
	case s.Path != "":
		return "path"
	case s.Prefix != "":
		return "command_prefix"
	case s.ServerName != "":
		return "mcp_server"
	}
	return "tool"
}

func (p *program) taskRules(ctx context.Context, d *taskEnv, ref, verb string, rule session.Rule) error {
	info, err := d.env.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	switch verb {
	case "add":
		err = d.AddRule(ctx, info.ID, rule)
	case "remove":
		err = d.RemoveRule(ctx, info.ID, rule)
	}
	if err != nil {
		return err
	}
	view, err := d.View(ctx, info.ID, 0)
	if err != nil {
		return err
	}
	return p.printRules(view.Session.Permissions().SessionRules)
}

func (p *program) workspaceRules(ctx context.Context, d *taskEnv, dir, verb string, rule session.Rule) error {
	w, err := setup.WorkspaceAt(dir)
	if err != nil {
		return err
	}
	rule.Source = session.SourceWorkspaceDB
	switch verb {
	case "add":
		_, err = d.rules.Add(ctx, w, rule)
	case "remove":
		_, err = d.rules.Remove(ctx, w, rule)
	}
	if err != nil {
		return err
	}
	rules, warnings, err := d.rules.Rules(ctx, w)
	for _, text := range warnings {
		p.Err.Warn("%s", text)
	}
	if err != nil {
		return err
	}
	return p.printRules(rules)
}

func (p *program) printRules(rules []session.Rule) error {
	if p.JSON {
		return p.PrintJSON(rules)
	}
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&b, "%-6s %-18s %s\n", r.Effect, r.Source, r.Scope.Fingerprint())
	}
	if b.Len() == 0 {
		p.Err.Status("no rules")
	}
	return p.Out.Print(b.String())
}
