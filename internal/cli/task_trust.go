package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/rules"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) taskTrustCommand() *cobra.Command {
	var remove, list bool
	cmd := &cobra.Command{
		Use: "trust [DIR]", Short: "let the rules that a workspace brings allow something", Args: cobra.MaximumNArgs(1),
		Long: `Trust the rules that a workspace brings in ` + permission.ManifestPath + `. Without trust they can deny
and ask, but not allow. Trust is for the file as it is now: when it changes, it must be given
again. It is kept in your configuration folder, outside the workspace. DIR is the working
directory unless you say otherwise.

  holdfast task trust             trust the workspace here; prints the rules that now count
  holdfast task trust --remove    take the trust back
  holdfast task trust --list      the workspaces that you trust`,
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "take the trust back")
	cmd.Flags().BoolVar(&list, "list", false, "list the workspaces that you trust")
	cmd.MarkFlagsMutuallyExclusive("remove", "list")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		dir, err := setup.UserDir()
		if err != nil {
			return err
		}
		trust, root := rules.NewTrust(filepath.Join(dir, "trust.json")), "."
		if len(args) > 0 {
			root = args[0]
		}
		if root, err = filepath.Abs(root); err != nil {
			return err
		}
		switch {
		case list:
			return p.listTrusted(trust)
		case remove:
			removed, err := trust.Remove(root)
			if err == nil && !removed {
				err = &session.NotFoundError{What: "trusted workspace", ID: root}
			}
			if err != nil {
				return err
			}
			return p.PrintResult(trustChange{Root: root}, "%s is not trusted any more", terminal.Printable(root))
		}
		rules, err := trust.Add(root, p.Now())
		if err != nil {
			return err
		}
		for _, r := range rules {
			p.Err.Status("%s %s", r.Effect, permission.Preview(r.Scope))
		}
		return p.PrintResult(trustChange{Root: root, Trusted: true, Rules: rules}, "%s is trusted until its rules change", terminal.Printable(root))
	}
	return cmd
}

// trustChange is what --json prints of it.
type trustChange struct {
	Root    string         `json:"root"`
	Trusted bool           `json:"trusted"`
	Rules   []session.Rule `json:"rules,omitempty"`
}

func (p *program) listTrusted(trust *rules.Trust) error {
	all, err := trust.List()
	if err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(append([]rules.Trusted{}, all...))
	}
	if len(all) == 0 {
		p.Err.Status("no workspace is trusted")
		return nil
	}
	t := terminal.Table{Head: []string{"WORKSPACE", "RULES", "TRUSTED"}, Flex: 0}
	for _, w := range all {
		state, c := "as trusted", terminal.Green
		if !w.Current() {
			state, c = "changed since", terminal.Yellow
		}
		t.Add(terminal.Styled(terminal.Printable(w.Root), terminal.Plain), terminal.Styled(state, c), terminal.Styled(terminal.Ago(w.TrustedAt, p.Now()), terminal.Dim))
	}
	return p.Out.Print(t.Layout(p.Out))
}
