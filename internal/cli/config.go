package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
)

// userSettings are the names that the user's file may set. Each is also a
// variable, HOLDFAST_NAME, and most are flags.
var userSettings = []string{
	"key-file", "model", "model-cards", "model-silence", "no-color", "no-web", "offline", "server", "store", "tenant", "user",
}

// variableOf names the variable of a setting.
func variableOf(setting string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// isSwitch reports a setting that is on or off.
func isSwitch(setting string) bool {
	return slices.Contains([]string{"no-color", "no-web", "offline"}, setting)
}

// isOn reports a variable that is set to anything but false.
func (p *program) isOn(variable string) bool {
	on, err := strconv.ParseBool(p.getenv(variable))
	return p.getenv(variable) != "" && (on || err != nil)
}

// configFile returns where the user's settings are, "" where there is no home.
func (p *program) configFile() string {
	if dir := p.configDir(); dir != "" {
		return filepath.Join(dir, "config.yaml")
	}
	return ""
}

// readConfig makes the user's settings count where a variable is not set. A file
// that cannot be read is an error: what it says may be meant to restrict.
func (p *program) readConfig() error {
	path := p.configFile()
	if path == "" {
		return nil
	}
	given, err := readSettings(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	p.config = map[string]string{}
	for name, values := range given {
		if err := checkSetting(path+": "+name, name); err != nil {
			return err
		}
		if len(values) != 1 {
			return &session.InvalidError{Field: path + ": " + name, Reason: "is a list, and takes one value"}
		}
		if on, err := strconv.ParseBool(values[0]); isSwitch(name) {
			if err != nil {
				return &session.InvalidError{Field: path + ": " + name, Reason: fmt.Sprintf("cannot be %q: it takes true or false", values[0])}
			}
			if !on { // a variable that is set is on
				continue
			}
		}
		p.config[variableOf(name)] = values[0]
	}
	environment := p.getenv
	p.getenv = func(name string) string { return cmp.Or(environment(name), p.config[name]) }
	return nil
}

// checkSetting refuses a name that the user's file has no place for.
func checkSetting(field, name string) error {
	switch near := document.Nearest(name, userSettings); {
	case slices.Contains(userSettings, name):
		return nil
	case strings.HasSuffix(name, "key"):
		return &session.InvalidError{Field: field, Reason: "keys are not kept in this file; set a variable such as ANTHROPIC_API_KEY or HOLDFAST_KEY, or key-file"}
	case near != "":
		return &session.InvalidError{Field: field, Reason: fmt.Sprintf("is no setting; did you mean %s?", near)}
	}
	return &session.InvalidError{Field: field, Reason: "is no setting; there are " + strings.Join(userSettings, ", ")}
}

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
	for _, name := range userSettings {
		value, from, err := p.settingInForce(name)
		if err != nil {
			return err
		}
		shown = append(shown, shownSetting{name, value, from})
	}
	if p.json {
		return p.printJSON(struct {
			File     string         `json:"file"`
			Settings []shownSetting `json:"settings"`
		}{p.configFile(), shown})
	}
	t := table{head: []string{"SETTING", "VALUE", "FROM"}, flex: 1}
	for _, s := range shown {
		t.add(cell{s.Name, bold}, cell{oneLine(cmp.Or(s.Value, "–")), plain}, cell{oneLine(s.From), dim})
	}
	if err := p.out.print(t.layout(p.out)); err != nil {
		return err
	}
	p.err.status("your file: %s", cmp.Or(p.configFile(), "none, there is no home directory"))
	return nil
}

// settingInForce returns the value of a setting and where it comes from.
func (p *program) settingInForce(name string) (value, from string, err error) {
	variable := variableOf(name)
	flag := p.command.Flags().Lookup(name)
	switch {
	case flag != nil && flag.Changed:
		value, from = flag.Value.String(), "--"+name
	case p.getenv(variable) == "":
		from = "default"
	case p.getenv(variable) == p.config[variable]:
		value, from = p.config[variable], "your file"
	default:
		value, from = p.getenv(variable), variable
	}
	switch name {
	case "store":
		url, err := p.storeURL()
		if err != nil {
			return "", "", err
		}
		return url.String(), from, nil // without a password
	case "model":
		if from == "default" {
			providers, err := p.providers()
			if err != nil {
				return "", "", err
			}
			value, from = p.defaultModel(providers)
		}
	case "model-silence":
		value = cmp.Or(value, "5m")
	case "tenant":
		value = cmp.Or(value, session.DefaultTenant)
	}
	if isSwitch(name) {
		value = strconv.FormatBool(value == "true" || p.isOn(variable))
	}
	return value, from, nil
}

func (p *program) configSetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "set NAME VALUE", Short: "write a setting into your file", Args: cobra.ExactArgs(2),
		Long:              "Write a setting into your file. Other lines of it stay as they are.",
		ValidArgsFunction: completeFrom(userSettings...),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := p.checkValue(args[0], args[1]); err != nil {
				return err
			}
			if err := p.writeSetting(args[0], args[1]); err != nil {
				return err
			}
			return p.printResult(shownSetting{args[0], args[1], "your file"}, "%s is %s", args[0], args[1])
		},
	}
}

func (p *program) configUnsetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "unset NAME", Short: "take a setting out of your file", Args: cobra.ExactArgs(1),
		ValidArgsFunction: completeFrom(userSettings...),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkSetting("setting "+args[0], args[0]); err != nil {
				return err
			}
			if _, there := p.config[variableOf(args[0])]; !there {
				return &session.NotFoundError{What: "setting of your file", ID: args[0]}
			}
			if err := p.writeSetting(args[0], ""); err != nil {
				return err
			}
			delete(p.config, variableOf(args[0]))
			value, from, err := p.settingInForce(args[0])
			if err != nil {
				return err
			}
			return p.printResult(shownSetting{args[0], value, from}, "%s is %s again (%s)", args[0], cmp.Or(value, "empty"), from)
		},
	}
}

// checkValue refuses a value that no command could use.
func (p *program) checkValue(name, value string) (err error) {
	if err := checkSetting("setting "+name, name); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(value) == "":
		return &session.InvalidError{Field: name, Reason: "is empty; take it out of the file with: holdfast config unset " + name}
	case name == "store":
		_, err = p.parseStoreURL(value)
	case name == "tenant":
		err = session.CheckTenant(value)
	case name == "model":
		var given providers
		if given, err = p.providers(); err == nil && value != offline.Name {
			_, err = given.Model(value)
		}
		if errors.Is(err, session.ErrNotFound) {
			err = &session.InvalidError{Field: name, Reason: err.Error()}
		}
		if errors.Is(err, session.ErrUnsupported) { // its key may be set later
			p.err.warn("%v", err)
			err = nil
		}
	case name == "model-silence":
		if d, wrong := time.ParseDuration(value); wrong != nil || d <= 0 {
			err = &session.InvalidError{Field: name, Reason: fmt.Sprintf("%q is not a duration such as 20m", value)}
		}
	case isSwitch(name):
		if _, wrong := strconv.ParseBool(value); wrong != nil {
			err = &session.InvalidError{Field: name, Reason: fmt.Sprintf("cannot be %q: it takes true or false", value)}
		}
	}
	return err
}

// writeSetting replaces the line of a setting in the user's file, adds it, or
// takes it out where the value is empty.
func (p *program) writeSetting(name, value string) error {
	path := p.configFile()
	if path == "" {
		return &session.InvalidError{Field: "config", Reason: "there is no home directory to keep settings in"}
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read your settings: %w", err)
	}
	var text bytes.Buffer
	for line := range bytes.Lines(old) {
		if key, _, _ := strings.Cut(string(line), ":"); strings.Trim(key, " \"'") != name {
			text.Write(bytes.TrimRight(line, "\n"))
			text.WriteByte('\n')
		}
	}
	if value != "" {
		fmt.Fprintf(&text, "%s: %s\n", name, strconv.Quote(value))
	}
	return writeWhole(path, text.Bytes())
}
