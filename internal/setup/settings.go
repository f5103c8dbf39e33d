package setup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
)

// A long-running command takes each of its flags from the command line, from
// HOLDFAST_NAME in the environment or from a file, in this order, under the same
// name everywhere.

// notSettings are flags that make no sense anywhere but on the command line.
var notSettings = []string{"help", "config", "demo", "server", "key-file"}

// AddSettings gives a command the flag --config and fills flags that were not
// given before the command runs.
func (p *Setup) AddSettings(cmd *cobra.Command) *cobra.Command {
	file := cmd.Flags().String("config", "", "take flags that are not given from a YAML `FILE` (default: HOLDFAST_CONFIG)")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := *file
		if path == "" {
			path = p.Getenv("HOLDFAST_CONFIG")
		}
		if err := p.fillFlags(cmd.Flags(), path); err != nil {
			return err
		}
		return run(cmd, args)
	}
	cmd.Long += `

Every flag can also be set by the environment (--tenant-limit by HOLDFAST_TENANT_LIMIT) or in
a YAML file (--config FILE, tenant-limit: 4). The command line counts before the
environment, and the environment before the file.`
	return cmd
}

// fillFlags sets the flags that were not given.
func (p *Setup) fillFlags(flags *pflag.FlagSet, path string) error {
	inFile, err := readSettings(path)
	if err != nil {
		return err
	}
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notSettings, f.Name) {
			return
		}
		value, there := inFile[f.Name]
		delete(inFile, f.Name)
		if f.Changed {
			return
		}
		name := VariableOf(f.Name)
		if text := p.Getenv(name); text != "" {
			errs = append(errs, setFlag(flags, f, name, []string{text}))
		} else if there {
			errs = append(errs, setFlag(flags, f, path+": "+f.Name, value))
		}
	})
	for name := range inFile {
		reason := "this command has no such setting"
		if near := document.Nearest(name, flagNames(flags)); near != "" {
			reason += fmt.Sprintf("; did you mean %s?", near)
		}
		errs = append(errs, &session.InvalidError{Field: path + ": " + name, Reason: reason})
	}
	return errors.Join(errs...)
}

func flagNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notSettings, f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

func setFlag(flags *pflag.FlagSet, f *pflag.Flag, from string, value []string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok && len(value) != 1 {
		return list.Replace(value)
	}
	if len(value) != 1 {
		return &session.InvalidError{Field: from, Reason: "is a list, and takes one value"}
	}
	if err := flags.Set(f.Name, value[0]); err != nil {
		return &session.InvalidError{Field: from, Reason: fmt.Sprintf("cannot be %q: %s", value[0], FlagTakes(f, err))}
	}
	return nil
}

// readSettings reads a file of settings: each a value or a list of values.
func readSettings(path string) (map[string][]string, error) {
	settings := map[string][]string{}
	if path == "" {
		return settings, nil
	}
	data, err := document.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if !slices.ContainsFunc(strings.Split(string(data), "\n"), func(line string) bool {
		line = strings.TrimSpace(line)
		return line != "" && !strings.HasPrefix(line, "#")
	}) {
		return settings, nil
	}
	root, err := document.Parse(data, document.Options{})
	if err != nil {
		return nil, &session.InvalidError{Field: path, Reason: err.Error()}
	}
	reader := &document.Reader{}
	reader.Root(root)
	for _, problem := range reader.Problems() {
		return nil, &session.InvalidError{Field: path, Reason: problem.Path + ": " + problem.Message()}
	}
	if root.Kind != document.Map {
		return nil, &session.InvalidError{Field: path, Reason: "is not a list of settings such as listen: 127.0.0.1:8420"}
	}
	for _, e := range root.Entries {
		items := []*document.Node{e.Value}
		if e.Value.Kind == document.List {
			items = e.Value.Items
		}
		values := []string{}
		for _, item := range items {
			if item.Kind == document.Map || item.Kind == document.List || item.Kind == document.Null {
				return nil, &session.InvalidError{Field: fmt.Sprintf("%s: %s", path, e.Key), Reason: fmt.Sprintf("is neither a value nor a list of values (line %d)", e.Line)}
			}
			values = append(values, item.Text)
		}
		settings[e.Key] = values
	}
	return settings, nil
}

// FlagTakes says what the values of a flag look like. The cause is for a flag
// whose type says too little.
func FlagTakes(flag *pflag.Flag, cause error) string {
	switch flag.Value.Type() {
	case "int", "int64":
		return "it takes a whole number, such as 20"
	case "float64":
		return "it takes a number, such as 0.5"
	case "duration":
		return "it takes a time with its unit, such as 90s, 5m or 2h"
	case "bool":
		return "it takes true or false"
	}
	return cause.Error()
}
