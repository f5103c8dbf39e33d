// Package cli is the holdfast command: each subcommand in a file of its own,
// on the same runtime that a Go program uses.
//
// Results go to standard output; prompts, status lines, warnings and errors go
// to standard error. With --json both are the domain's own JSON. Exit codes are
// in one table, exit.go.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
)

// Run runs one command line and returns the exit code of the program. A panic
// becomes exit code 70 with its cause; the stack is shown when HOLDFAST_DEBUG
// is set.
func Run(args []string, in io.Reader, out, errs io.Writer) int {
	listening := terminal.ListenForSignals()
	defer listening.Close()
	c := &terminal.Console{In: terminal.NewInput(in), Out: terminal.NewScreen(out), Err: terminal.NewScreen(errs), Getenv: os.Getenv, Interrupts: listening, Redactor: terminal.NewRedactor()}
	p := &program{Setup: setup.New(c, os.Environ(), time.Now)}
	return p.run(args)
}

// program is one run of the command.
type program struct {
	*setup.Setup
	noColor      bool
	noAgentsFile bool // new sessions are not told what AGENTS.md says
	debug        bool // a stack when the program fails
	begun        bool // a command's own work has begun: errors are no longer about usage
}

func (p *program) run(args []string) (code int) {
	defer func() {
		if v := recover(); v != nil {
			code = p.report(&session.PanicError{Where: "holdfast", Value: v})
			if p.debug || p.Getenv("HOLDFAST_DEBUG") != "" {
				fmt.Fprintf(p.Err, "%s", debug.Stack())
			}
		}
	}()
	root := p.root()
	root.SetArgs(offerChoice(args))
	cmd, err := root.ExecuteContextC(context.Background())
	if err != nil && !p.begun {
		p.JSON = p.JSON || asksForJSON(args) // the flags may not have been read
		err = newUsageError(cmd, err)
	}
	if err == nil && p.Out.Failed != nil {
		err = fmt.Errorf("not all of the output was written: %w; the session has it", p.Out.Failed)
	}
	return p.report(err)
}

// asksForJSON looks for --json in a command line that could not be read.
func asksForJSON(args []string) bool {
	for _, arg := range args {
		if arg == "--" {
			return false
		}
		if arg == "--json" || arg == "--json=true" {
			return true
		}
	}
	return false
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "keep agent sessions: talk, leave, continue, lose nothing",
		Long: `Holdfast keeps agent sessions. A session survives Ctrl-C, a crash of the process and a
restart of the machine: leave it at any moment and continue where it was.

  holdfast chat                     talk to an agent; every turn is saved
  holdfast ask "text"               one question, one answer; the session is kept
  holdfast send REF "text"          one turn, from a script
  holdfast run SPEC.yaml            several agents in a pattern, as one session
  holdfast task start "text"        a job with a plan, budgets and approvals
  holdfast sessions list            list the sessions
  holdfast pending                  list tool calls that wait for your response
  holdfast sessions show REF        show one session
  holdfast replay REF --model M     say the same to another model, and compare
  holdfast models list              list the models
  holdfast serve                    offer the sessions over HTTP, and a page in the browser
  holdfast open                     open that page

` + refHelp + `

With --server URL, ask, chat, send, run, task, sessions, pending and respond work on the
sessions of "holdfast serve" on another machine. Files are read here; agents run there.

Your settings are in a file, see "holdfast config". Environment: HOLDFAST_STORE the store;
HOLDFAST_SERVER a server in its place, with HOLDFAST_KEY its key or HOLDFAST_KEY_FILE a file
that has it; HOLDFAST_MODEL the model of agents that name none; HOLDFAST_USER the user of new
sessions; the keys of providers, as "holdfast models list" names them; HOLDFAST_NO_WEB no tools
that use the web, whatever else is allowed; HOLDFAST_NO_TITLES no titles of chats by models;
NO_COLOR no colours; HOLDFAST_DEBUG prints a stack when the program fails;
HOLDFAST_OFFLINE_PACE the pause between two words of the offline model, such as 50ms;
HOLDFAST_MODEL_SILENCE how long a model may be silent, such as 20m (5m if it is not set).

Exit codes: 0 ok, 2 usage or refused input, 3 invalid definition or spec, 10 model or tool
failed, 12 file or store I/O, 17 the session's state does not allow it (not found, busy,
conflict, wrong status, corrupt), 18 not supported or not configured here, 19 waiting for a
person, 20 budget used up or only part done, 21 interrupted and resumable, 22 cancelled, 70
a bug in holdfast.`,
		Version: setup.ThisBuild().String(), Args: refuseUnknown, SuggestionsMinimumDistance: 2,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.begin(cmd) },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&p.Store, "store", "", "`URL` of the store: sqlite:FILE, file:DIR, postgres://…, strands:DIR or inmem:\n(default $HOLDFAST_STORE, else a SQLite file in the user's data directory)")
	p.AddServerFlags(root)
	flags.StringVar(&p.Tenant, "tenant", "", "work with the sessions of the tenant `NAME`")
	flags.BoolVar(&p.JSON, "json", false, "print results and errors as JSON")
	flags.BoolVar(&p.Offline, "offline", false, "refuse every model that is not built in")
	flags.BoolVar(&p.NoWeb, "no-web", false, "give agents no tools that use the web, like $HOLDFAST_NO_WEB")
	flags.BoolVar(&p.NoTitles, "no-titles", false, "ask no model for the titles of chats, like $HOLDFAST_NO_TITLES")
	flags.BoolVar(&p.noColor, "no-color", false, "print no colours, like $NO_COLOR")
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	root.AddCommand(p.chatCommand(), p.askCommand(), p.sendCommand(), p.acpCommand(), p.mcpCommand(), p.pendingCommand(), p.respondCommand(), p.runCommand(), p.validateCommand(), p.planCommand(), p.taskCommand(), p.recoverCommand(), p.sessionsCommand(), p.importCommand(), p.memoryCommand(), p.replayCommand(), p.definitionsCommand(), p.modelsCommand(), p.doctorCommand(), p.serveCommand(), p.openCommand(), p.workCommand(), p.keysCommand(), p.schedulesCommand(), p.nodesCommand(), p.configCommand(), p.manCommand(), p.versionCommand())
	p.addCompletions(root)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("help") // made as if it were asked for, to have its line like those of the others
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Short = "help about a command"
		case "completion":
			c.Short = "print the script that completes commands in a shell"
			for _, shell := range c.Commands() {
				shell.Short = "print the script for " + shell.Name()
			}
		}
	}
	return root
}

// making are the commands that make a store where there is none. All others are
// about something that is in it.
var making = []string{
	"acp", "ask", "chat", "import", "mcp", "run", "serve", "work", "keys create", "schedules create", "sessions copy", "sessions create", "sessions import",
	"task import", "task rules", "task start",
}

// begin runs once the command line is parsed.
func (p *program) begin(cmd *cobra.Command) error {
	p.Command = cmd
	p.Makes = slices.Contains(making, strings.TrimPrefix(cmd.CommandPath(), "holdfast ")) && !cmd.Flags().Changed("session") && !cmd.Flags().Changed("last") && !cmd.Flags().Changed("resume")
	p.begun = true
	if !slices.Contains([]string{"version", "completion"}, cmd.Name()) {
		if err := p.ReadConfig(); err != nil {
			return err
		}
	}
	plain := p.noColor || p.IsOn("HOLDFAST_NO_COLOR") || p.Getenv("NO_COLOR") != "" || p.Getenv("TERM") == "dumb"
	p.NoWeb = p.NoWeb || p.Getenv("HOLDFAST_NO_WEB") != ""
	p.NoTitles = p.NoTitles || p.IsOn("HOLDFAST_NO_TITLES")
	p.Offline = p.Offline || p.IsOn("HOLDFAST_OFFLINE")
	p.Tenant = cmp.Or(p.Tenant, p.Getenv("HOLDFAST_TENANT"))
	p.Out.Colour, p.Err.Colour = p.Out.Terminal && !plain, p.Err.Terminal && !plain
	if p.Server != "" && p.Store == "" { // said on this command line, so that it is not passed over
		return p.CheckAgainstServer(p.Server)
	}
	return nil
}

// group returns a command that only has commands.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: use, Short: short, SuggestionsMinimumDistance: 2, Args: refuseUnknown,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	g.AddCommand(commands...)
	return g
}

// refuseUnknown refuses the arguments of a command that only has commands.
func refuseUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(text)
}

func (p *program) sessionsCommand() *cobra.Command {
	commands := append(p.statusCommands(), p.suspendCommand(), p.resumeCommand(), p.deleteCommand(), p.cleanupCommand(),
		p.continueCommand(), p.retryCommand(), p.abandonCommand(), p.cancelCommand(), p.historyCommand(), p.recallCommand(), p.rememberCommand(), p.usageCommand(),
		p.createCommand(), p.failCommand(), p.expireCommand(), p.listCommand(), p.showCommand(), p.logCommand(), p.versionsCommand(), p.diffCommand(), p.forkCommand(), p.rewindCommand(), p.renameCommand(),
		p.setModelCommand(), p.setPromptCommand(), p.setMetaCommand(), p.purgeCommand(), p.sweepCommand(), p.exportCommand(), p.importCommand(), p.copyCommand())
	return group("sessions", "list, show and change sessions", commands...)
}
