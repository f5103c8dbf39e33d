package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) configCommand() *cobra.Command {
	cmd := group("config", "show and change your settings", p.configSetCommand(), p.configUnsetCommand())
	cmd.Long = `Show your settings: what each is, and where that comes from. A flag of the command line
counts before a variable of the environment, and that before your file. The names are the same
everywhere: --model, HOLDFAST_MODEL, model: in the file.

  holdfast config set model anthropic/claude-sonnet-5-5
  holdfast config unset model

With --json: {"file", "settings": [{"name", "value", "from"}]}. "holdfast serve" and "holdfast work" have
further settings in a file of their own; see their --config.`
	cmd.RunE = func(*cobra.Command, []string) error { return p.showConfig() }
	return cmd
}

// shownSetting is a setting that is in force.
type shownSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

func (p *program) showConfig() error {
	shown := []shownSetting{}
	for _, name := range setup.UserSettings {
		value, from, err := p.SettingInForce(name)
		if err != nil {
			return err
		}
		shown = append(shown, shownSetting{name, value, from})
	}
	if p.JSON {
		return p.PrintJSON(struct {
			File     string         `json:"file"`
			Settings []shownSetting `json:"settings"`
		}{p.ConfigFile(), shown})
	}
	t := terminal.Table{Head: []string{"SETTING", "VALUE", "FROM"}, Flex: 1}
	for _, s := range shown {
		t.Add(terminal.Styled(s.Name, terminal.Bold), terminal.Styled(terminal.OneLine(cmp.Or(s.Value, "–")), terminal.Plain), terminal.Styled(terminal.OneLine(s.From), terminal.Dim))
	}
	if err := p.Out.Print(t.Layout(p.Out)); err != nil {
		return err
	}
	p.Err.Status("your file: %s", cmp.Or(p.ConfigFile(), "none, there is no home directory"))
	return nil
}

func (p *program) configSetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "set NAME VALUE", Short: "write a setting into your file", Args: cobra.ExactArgs(2),
		Long:              "Write a setting into your file. Other lines of it stay as they are.",
		ValidArgsFunction: completeFrom(setup.UserSettings...),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := p.CheckValue(args[0], args[1]); err != nil {
				return err
			}
			if err := p.WriteSetting(args[0], args[1]); err != nil {
				return err
			}
			return p.PrintResult(shownSetting{args[0], args[1], "your file"}, "%s is %s", args[0], args[1])
		},
	}
}

func (p *program) configUnsetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unset NAME", Short: "take a setting out of your file", Args: cobra.ExactArgs(1),
		ValidArgsFunction: completeFrom(setup.UserSettings...),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := setup.CheckSetting("setting "+args[0], args[0]); err != nil {
				return err
			}
			if _, there := p.Config[setup.VariableOf(args[0])]; !there {
				return &session.NotFoundError{What: "setting of your file", ID: args[0]}
			}
			if err := p.WriteSetting(args[0], ""); err != nil {
				return err
			}
			delete(p.Config, setup.VariableOf(args[0]))
			value, from, err := p.SettingInForce(args[0])
			if err != nil {
				return err
			}
			return p.PrintResult(shownSetting{args[0], value, from}, "%s is %s again (%s)", args[0], cmp.Or(value, "empty"), from)
		},
	}
}
