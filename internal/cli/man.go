package cli

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
)

func (p *program) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "write the manual pages of all commands", Args: cobra.ExactArgs(1),
		Long: `Write the manual pages of all commands into a directory, one file each:

  holdfast man ~/.local/share/man/man1
  man holdfast-chat`,
		RunE: func(cmd *cobra.Command, args []string) error {
			pages := manPages(cmd.Root())
			for _, page := range pages {
				if err := setup.WriteWhole(filepath.Join(args[0], page.name), page.text); err != nil {
					return err
				}
			}
			return p.PrintResult(struct {
				Pages int `json:"pages"`
			}{len(pages)}, "wrote %s", terminal.CountOf(len(pages), "page"))
		},
	}
}

type manPage struct {
	name string
	text []byte
}

// manPages returns a page for each command that people are shown.
func manPages(cmd *cobra.Command) []manPage {
	cmd.InitDefaultHelpFlag()
	title := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	pages := []manPage{{title + ".1", manText(cmd, title)}}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, manPages(sub)...)
		}
	}
	return pages
}

// manText returns the page of a command in the language of man.
func manText(cmd *cobra.Command, title string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %q 1 \"\" \"Holdfast\"\n", strings.ToUpper(title))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", manEscape(title), manEscape(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", manEscape(cmd.UseLine()))
	long := cmd.Long
	if long == "" {
		long = cmd.Short
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", manEscape(strings.TrimSpace(long)))
	manFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	manFlags(&b, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	var related []string
	if cmd.HasParent() {
		related = append(related, strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-"))
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			related = append(related, strings.ReplaceAll(sub.CommandPath(), " ", "-"))
		}
	}
	if len(related) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		for _, name := range related {
			fmt.Fprintf(&b, ".BR %s (1)\n", manEscape(name))
		}
	}
	return b.Bytes()
}

func manFlags(b *bytes.Buffer, head string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", head)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", manEscape(name), manEscape(usage))
	})
}

// manEscape returns text that man prints as it is.
func manEscape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
