package setup

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

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
)

// UserSettings are the names that the user's file may set. Each is also a
// variable, HOLDFAST_NAME, and most are flags.
var UserSettings = []string{
	"key-file", "model", "model-cards", "model-silence", "no-agents-file", "no-color", "no-titles", "no-web", "offline", "server", "store", "tenant", "user",
}

// VariableOf names the variable of a setting.
func VariableOf(setting string) string {
	return "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(setting, "-", "_"))
}

// isSwitch reports a setting that is on or off.
func isSwitch(setting string) bool {
	return slices.Contains([]string{"no-agents-file", "no-color", "no-titles", "no-web", "offline"}, setting)
}

// IsOn reports a variable that is set to anything but false.
func (p *Setup) IsOn(variable string) bool {
	on, err := strconv.ParseBool(p.Getenv(variable))
	return p.Getenv(variable) != "" && (on || err != nil)
}

// ConfigFile returns where the user's settings are, "" where there is no home.
func (p *Setup) ConfigFile() string {
	if dir := p.configDir(); dir != "" {
		return filepath.Join(dir, "config.yaml")
	}
	return ""
}

// ReadConfig makes the user's settings count where a variable is not set. A file
// that cannot be read is an error: what it says may be meant to restrict.
func (p *Setup) ReadConfig() error {
	path := p.ConfigFile()
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
	p.Config = map[string]string{}
	for name, values := range given {
		if err := CheckSetting(path+": "+name, name); err != nil {
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
		p.Config[VariableOf(name)] = values[0]
	}
	environment := p.Getenv
	p.Getenv = func(name string) string { return cmp.Or(environment(name), p.Config[name]) }
	return nil
}

// CheckSetting refuses a name that the user's file has no place for.
func CheckSetting(field, name string) error {
	switch near := document.Nearest(name, UserSettings); {
	case slices.Contains(UserSettings, name):
		return nil
	case strings.HasSuffix(name, "key"):
		return &session.InvalidError{Field: field, Reason: "keys are not kept in this file; set a variable such as ANTHROPIC_API_KEY or HOLDFAST_KEY, or key-file"}
	case near != "":
		return &session.InvalidError{Field: field, Reason: fmt.Sprintf("there is no such setting; did you mean %s?", near)}
	}
	return &session.InvalidError{Field: field, Reason: "there is no such setting; there are " + strings.Join(UserSettings, ", ")}
}

// SettingInForce returns the value of a setting and where it comes from.
func (p *Setup) SettingInForce(name string) (value, from string, err error) {
	variable := VariableOf(name)
	flag := p.Command.Flags().Lookup(name)
	switch {
	case flag != nil && flag.Changed:
		value, from = flag.Value.String(), "--"+name
	case p.Getenv(variable) == "":
		from = "default"
	case p.Getenv(variable) == p.Config[variable]:
		value, from = p.Config[variable], "your file"
	default:
		value, from = p.Getenv(variable), variable
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
		value = strconv.FormatBool(value == "true" || p.IsOn(variable))
	}
	return value, from, nil
}

// CheckValue refuses a value that no command could use.
func (p *Setup) CheckValue(name, value string) (err error) {
	if err := CheckSetting("setting "+name, name); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(value) == "":
		return &session.InvalidError{Field: name, Reason: "is empty; take it out of the file with: holdfast config unset " + name}
	case name == "store":
		_, err = p.ParseStoreURL(value)
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
			p.Err.Warn("%v", err)
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

// WriteSetting replaces the line of a setting in the user's file, adds it, or
// takes it out where the value is empty.
func (p *Setup) WriteSetting(name, value string) error {
	path := p.ConfigFile()
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
	return WriteWhole(path, text.Bytes())
}

// WriteWhole puts a file in its place at once, and makes its folder.
func WriteWhole(path string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".holdfast-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	if _, err = tmp.Write(data); err == nil {
		err = tmp.Chmod(0o644)
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	return err
}
