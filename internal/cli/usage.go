package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/internal/setup"
)

// usageError is a command line that cannot be understood.
type usageError struct {
	command string
	surplus bool // there are more arguments than the command takes
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() []error { return []error{errUsage, e.err} }

func (e *usageError) hint() string {
	if e.surplus {
		return "put a text of several words in quotes; see: " + e.command + " --help"
	}
	return "see: " + e.command + " --help"
}

// newUsageError puts what the parser of the command line says in words that
// name the flag or the arguments and what they take.
func newUsageError(cmd *cobra.Command, err error) *usageError {
	u := &usageError{command: cmd.CommandPath(), err: err}
	_, takes, _ := strings.Cut(cmd.Use, " ")
	given := cmd.Flags().NArg()
	var (
		invalid *pflag.InvalidValueError
		unknown *pflag.NotExistError
	)
	switch {
	case errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1:
		u.err = fmt.Errorf("unknown flag: --%s", unknown.GetSpecifiedName())
		if near := document.Nearest(unknown.GetSpecifiedName(), namesOf(cmd)); near != "" {
			u.err = fmt.Errorf("%w; did you mean --%s?", u.err, near)
		}
	case errors.As(err, &invalid):
		u.err = checkFlag(invalid)
	case strings.HasPrefix(err.Error(), "accepts "), strings.HasPrefix(err.Error(), "requires at least "): // the wrong number of arguments
		u.err = fmt.Errorf("%s takes %s; this has %s", u.command, takes, countArguments(given))
		u.surplus = given > len(strings.Fields(takes))
	case !cmd.HasSubCommands() && strings.HasPrefix(err.Error(), "unknown command "): // cobra's word for any argument where none is taken
		u.err = fmt.Errorf("%s takes no arguments; this has %q", u.command, cmd.Flags().Arg(0))
	}
	return u
}

// namesOf lists the flags of a command.
func namesOf(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

func countArguments(n int) string {
	switch n {
	case 0:
		return "no arguments"
	case 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// checkFlag says which flag has a value that it does not take, and why.
func checkFlag(e *pflag.InvalidValueError) error {
	return fmt.Errorf("--%s cannot be %q: %s", e.GetFlag().Name, e.GetValue(), setup.FlagTakes(e.GetFlag(), e.Unwrap()))
}
