package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

func (p *program) definitionsCommand() *cobra.Command {
	return group("definitions", "list and check the definitions of agents", p.definitionsListCommand(), p.definitionsCheckCommand(), p.definitionsSkillsCommand())
}

func (p *program) definitionsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list [DIR …]", Aliases: []string{"ls"}, Short: "list the agents that are defined",
		Long: "List the agents that are defined in the user's directory and in " + setup.ProjectAgents + ",\nor in the directories given. With --server: those of the server. With --json: an array of definitions.",
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if e, err := p.OpenServer(); e != nil || err != nil {
				return p.listServerAgents(cmd.Context(), e, err, dirs)
			}
			r := p.Registry(dirs...)
			for _, bad := range r.Problems() {
				p.Err.Warn("%v", bad)
			}
			all := r.All()
			if p.JSON {
				return p.PrintJSON(all)
			}
			if len(all) == 0 {
				if len(dirs) == 0 {
					dirs = p.AgentDirs()
				}
				p.Err.Status("no definitions in %s", strings.Join(dirs, " or "))
				return nil
			}
			return p.printAgents(all, "FILE", func(d session.Definition) string { return r.Path(d.Name) })
		},
	}
}

// printAgents prints agents, with a last column of this name.
func (p *program) printAgents(all []session.Definition, last string, of func(session.Definition) string) error {
	t := terminal.Table{Head: []string{"NAME", "MODEL", "DESCRIPTION", last}, Flex: 2}
	for _, d := range all {
		t.Add(terminal.Styled(d.Name, terminal.Bold), terminal.Styled(terminal.OneLine(cmp.Or(d.Model, "default")), terminal.Plain),
			terminal.Styled(terminal.OneLine(d.Description), terminal.Plain), terminal.Styled(terminal.OneLine(of(d)), terminal.Dim))
	}
	return p.Out.Print(t.Layout(p.Out))
}

func (p *program) listServerAgents(ctx context.Context, e *setup.Env, err error, dirs []string) error {
	if err == nil && len(dirs) > 0 {
		err = &session.InvalidError{Field: "DIR", Reason: "a server has its own definitions"}
	}
	if err != nil {
		return err
	}
	all, err := e.Server.Agents(ctx)
	if err != nil {
		return err
	}
	if p.JSON {
		return p.PrintJSON(all)
	}
	if len(all) == 0 {
		p.Err.Status("the server has no definitions")
		return nil
	}
	return p.printAgents(all, "LABEL", func(d session.Definition) string { return d.Label })
}

// fileReport is what is wrong with one file.
type fileReport struct {
	Source   string            `json:"source"`
	Problems []session.Problem `json:"problems"`
}

func (p *program) definitionsCheckCommand() *cobra.Command {
	strict := false
	cmd := &cobra.Command{
		Use: "check [FILE|DIR …]", Short: "check definition files and print all problems",
		Long: "Check definition files and print all problems: of the files given, or of all files of the\nuser and the project, skills and capabilities included. With --json: an array of files, each with its problems.\n\nA definition that is right and only needs something that is missing here, such as the key\nof a provider, is a warning; with --strict it is a problem.",
		RunE: func(cmd *cobra.Command, paths []string) error {
			verdicts, err := p.checkPaths(cmd.Context(), paths)
			if err != nil {
				return err
			}
			return p.printFileReports(verdicts, strict)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "what is only missing here is a problem too")
	return p.AddPermissionFlags(cmd)
}

// checkPaths checks files and directories, those of the registry where none are given.
func (p *program) checkPaths(ctx context.Context, paths []string) ([]fileReport, error) {
	st := inmem.New(inmem.Config{})
	given, err := p.NewAgentSetup(st)
	if err != nil {
		return nil, err
	}
	defer func() { _ = given.Close() }() // it was only looked at
	rt, err := p.Runtime(st, given, given.Models.Providers.Secrets, holdfast.Identity{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = rt.Close() }() // nothing in it was to be kept
	verdicts := []fileReport{}
	if len(paths) == 0 {
		for _, dir := range p.AgentDirs() {
			if _, err := os.Stat(dir); err == nil {
				paths = append(paths, dir)
			}
		}
		for _, bad := range given.Skills.Bad {
			verdicts = append(verdicts, fileReport{bad.Path, problems(bad.Err)})
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			d, err := definition.Load(path)
			verdicts = append(verdicts, checkDefinition(ctx, given, rt, path, d, err))
			continue
		}
		r := p.Registry(path)
		for _, name := range r.Names() {
			d, err := r.Get(name)
			verdicts = append(verdicts, checkDefinition(ctx, given, rt, r.Path(name), d, err))
		}
		for _, bad := range r.Problems() {
			verdicts = append(verdicts, fileReport{bad.Path, problems(bad.Err)})
		}
	}
	return verdicts, nil
}

// checkDefinition tries a definition: a session is made of it where nobody sees it. A tool
// that a flag would offer is only missing here.
func checkDefinition(ctx context.Context, o *setup.AgentSetup, rt *holdfast.Runtime, path string, d session.Definition, err error) fileReport {
	if err != nil {
		return fileReport{path, problems(err)}
	}
	var missing []session.Problem
	d.Tools = slices.DeleteFunc(slices.Clone(d.Tools), func(name string) bool {
		flag := setup.FlagFor(name)
		if flag == "" || o.HasTool(name) {
			return false
		}
		missing = append(missing, session.Problem{Field: "tools", Message: fmt.Sprintf("%q is offered with %s", name, flag), Unconfigured: true})
		return true
	})
	_, err = rt.Create(ctx, d)
	return fileReport{path, append(problems(err), missing...)}
}

// problems returns all that an error says is wrong.
func problems(err error) []session.Problem {
	var invalid *session.DefinitionError
	switch {
	case err == nil:
		return []session.Problem{}
	case errors.As(err, &invalid):
		return invalid.Problems
	}
	return []session.Problem{{Field: "file", Message: err.Error()}}
}

// printFileReports prints what is wrong. Strict makes a problem of what is only
// missing here.
func (p *program) printFileReports(verdicts []fileReport, strict bool) error {
	all := &session.DefinitionError{}
	for _, v := range verdicts {
		for _, problem := range v.Problems {
			problem.Field = v.Source + ": " + problem.Field
			if problem.Unconfigured && !strict {
				p.WarnEarly("%s: %s", problem.Field, problem.Message)
				continue
			}
			all.Problems = append(all.Problems, problem)
		}
	}
	if p.JSON {
		if err := p.PrintJSON(verdicts); err != nil {
			return err
		}
	}
	switch {
	case len(all.Problems) > 0:
		return all
	case p.JSON:
		return nil
	case len(verdicts) == 0:
		p.Err.Status("no definitions in %s", strings.Join(p.AgentDirs(), " or "))
		return nil
	}
	return p.Out.Print(fmt.Sprintf("ok: %s\n", terminal.CountOf(len(verdicts), "definition")))
}

func (p *program) definitionsSkillsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "skills", Short: "list skills and capabilities", Args: cobra.NoArgs,
		Long: `List the texts that agents may add to their prompt: skills, in the directory "skills" beside
"agents" as NAME.md or NAME/SKILL.md, and capabilities, in "capabilities", which also list
the tools they are about and can be used only where those are offered. With --json: an array.`,
		RunE: func(*cobra.Command, []string) error {
			all := p.Skills()
			for _, bad := range all.Bad {
				p.Err.Warn("%v", bad)
			}
			if p.JSON {
				return p.PrintJSON(all.All())
			}
			if len(all.All()) == 0 {
				p.Err.Status("no skills beside %s", strings.Join(p.AgentDirs(), " or "))
				return nil
			}
			t := terminal.Table{Head: []string{"NAME", "KIND", "TOOLS", "DESCRIPTION", "FILE"}, Flex: 3}
			for _, s := range all.All() {
				kind := "skill"
				if s.Capability {
					kind = "capability"
				}
				t.Add(terminal.Styled(s.Name, terminal.Bold), terminal.Styled(kind, terminal.Plain), terminal.Styled(terminal.OneLine(strings.Join(s.Tools, ", ")), terminal.Plain), terminal.Styled(terminal.OneLine(s.Description), terminal.Plain), terminal.Styled(terminal.OneLine(s.File), terminal.Dim))
			}
			return p.Out.Print(t.Layout(p.Out))
		},
	}
}
