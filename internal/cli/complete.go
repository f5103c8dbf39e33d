package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/task"
)

// addCompletions lets a shell complete what commands take: sessions, tasks, models,
// agents and words of a fixed choice. What each argument is, Use says.
func (p *program) addCompletions(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		p.addCompletions(sub)
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = p.completeArgument
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if complete := p.flagCompletion(cmd, f.Name); complete != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // it fails where there is one already
		}
	})
}

// noFiles ends a completion: files are no answer here.
const noFiles = cobra.ShellCompDirectiveNoFileComp

// completeFrom completes the first argument from some words.
func completeFrom(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, noFiles
		}
		return words, noFiles
	}
}

// completeArgument completes the next argument by the word that stands for it in
// the command's usage.
func (p *program) completeArgument(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	places := strings.Fields(cmd.Use)[1:]
	if len(args) >= len(places) {
		return nil, noFiles
	}
	place := strings.Trim(places[len(args)], "[]…")
	switch {
	case place == "REF":
		return p.completeSessions(cmd, typed)
	case place == "ID" && strings.HasPrefix(cmd.CommandPath(), "holdfast task "):
		return p.completeSessions(cmd, typed, session.KindTask)
	case place == "MODE":
		return permissionModeWords(), noFiles
	case place == "MODEL":
		return p.completeModels(cmd)
	case strings.Contains(place, "|") && place == strings.ToLower(place):
		return strings.Split(place, "|"), noFiles
	case slices.Contains([]string{"SPEC", "FILE", "DIR", "FILE|DIR"}, place):
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, noFiles
}

// flagCompletion completes the values of a flag; nil: files, as shells do.
func (p *program) flagCompletion(cmd *cobra.Command, name string) cobra.CompletionFunc {
	words := func(list ...string) cobra.CompletionFunc { return cobra.FixedCompletions(list, noFiles) }
	sessionsOf := func(kinds ...session.Kind) cobra.CompletionFunc {
		return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return p.completeSessions(cmd, typed, kinds...)
		}
	}
	switch name {
	case "session", "parent":
		if cmd.Name() == "chat" {
			return sessionsOf(session.KindChat)
		}
		return sessionsOf()
	case "resume":
		return sessionsOf(session.KindWorkflow)
	case "model":
		return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return p.completeModels(cmd)
		}
	case "agent":
		return p.completeAgents
	case "permission-mode":
		return words(permissionModeWords()...)
	case "on-busy":
		return words("wait", "reject", "enqueue", "interrupt")
	case "mode":
		return words(task.ExecutionModes()...)
	case "plan":
		return words(task.PlanAuto, task.PlanNone)
	case "status":
		if strings.HasPrefix(cmd.CommandPath(), "holdfast task ") {
			return words(task.Statuses()...)
		}
		return words(listedStatuses()...)
	case "store":
		return words("sqlite:", "file:", "postgres://", "strands:", "inmem:")
	}
	return nil
}

func permissionModeWords() []string {
	return strings.Split(strings.ReplaceAll(setup.PermissionModes, " or ", ", "), ", ")
}

// prepareCompletion makes the program ready to look something up quietly: nothing
// is made, and nothing is printed between the words.
func (p *program) prepareCompletion(cmd *cobra.Command) error {
	p.Err = terminal.NewScreen(io.Discard)
	if err := p.begin(cmd); err != nil {
		return err
	}
	p.Makes = false
	return nil
}

// completeSessions completes sessions of some kinds, the last used first: by name
// where that is one word, else by id.
func (p *program) completeSessions(cmd *cobra.Command, typed string, kinds ...session.Kind) ([]cobra.Completion, cobra.ShellCompDirective) {
	if p.prepareCompletion(cmd) != nil {
		return nil, noFiles
	}
	var found []cobra.Completion
	ctx := context.WithoutCancel(cmd.Context())
	err := p.WithEnv(ctx, func(e *setup.Env) error {
		page, err := e.List(ctx, store.Query{Kinds: kinds, Limit: setup.MaxNames})
		for _, i := range page.Items {
			word, title := i.Name, string(i.Kind)
			if word == "" || strings.ContainsAny(word, " \t\"'$`\\") {
				word = display.ShortID(i.ID)
			}
			if !strings.HasPrefix(word, typed) {
				if word = i.ID; typed == "" || !strings.HasPrefix(word, typed) {
					continue
				}
			}
			if i.Task != nil {
				title = i.Task.Title
			}
			found = append(found, cobra.CompletionWithDesc(word, terminal.OneLine(strings.Join([]string{title, i.AgentName, terminal.Ago(i.UpdatedAt, p.Now())}, " · "))))
		}
		return err
	})
	if err != nil {
		return nil, noFiles
	}
	return found, noFiles | cobra.ShellCompDirectiveKeepOrder
}

// completeModels completes the models of the providers that are set up, whose
// names are known.
func (p *program) completeModels(cmd *cobra.Command) ([]cobra.Completion, cobra.ShellCompDirective) {
	if p.prepareCompletion(cmd) != nil {
		return nil, noFiles
	}
	names := []cobra.Completion{offline.Name}
	if all, err := p.Catalog(); err == nil {
		for _, provider := range all.Providers() {
			if provider.Ready() {
				names = append(names, provider.Known...)
			}
		}
	}
	return names, noFiles
}

// completeAgents completes the agents of the registry; a file is possible as well.
func (p *program) completeAgents(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if p.prepareCompletion(cmd) != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return p.Registry().Names(), cobra.ShellCompDirectiveDefault
}
