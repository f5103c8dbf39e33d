package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

func (p *program) definitionsCommand() *cobra.Command {
	return group("definitions", "list and check the definitions of agents", p.definitionsListCommand(), p.definitionsCheckCommand(), p.definitionsSkillsCommand())
}

// projectAgents is where a project keeps its definitions.
var projectAgents = filepath.Join(".holdfast", "agents")

// agentDirs returns the directories of definitions: the user's, then the
// project's, which wins.
func (p *program) agentDirs() []string {
	dirs := []string{projectAgents}
	if user := p.configDir(); user != "" {
		dirs = append([]string{filepath.Join(user, "agents")}, dirs...)
	}
	return dirs
}

func (p *program) registry(dirs ...string) *definition.Registry {
	if len(dirs) == 0 {
		dirs = p.agentDirs()
	}
	sources := make([]definition.Source, len(dirs))
	for i, dir := range dirs {
		sources[i] = definition.Source{Dir: dir, Recursive: true}
	}
	return definition.NewRegistry(sources...)
}

func (p *program) definitionsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list [DIR …]", Aliases: []string{"ls"}, Short: "list the agents that are defined",
		Long: "List the agents that are defined in the user's directory and in " + projectAgents + ",\nor in the directories given. With --json: an array of definitions.",
		RunE: func(_ *cobra.Command, dirs []string) error {
			r := p.registry(dirs...)
			for _, bad := range r.Problems() {
				p.err.warn("%v", bad)
			}
			all := r.All()
			if p.json {
				return p.printJSON(all)
			}
			if len(all) == 0 {
				if len(dirs) == 0 {
					dirs = p.agentDirs()
				}
				p.err.status("no definitions in %s", strings.Join(dirs, " or "))
				return nil
			}
			t := table{head: []string{"NAME", "MODEL", "DESCRIPTION", "FILE"}, flex: 2}
			for _, d := range all {
				model := d.Model
				if model == "" {
					model = "default"
				}
				t.add(cell{d.Name, bold}, cell{oneLine(model), plain}, cell{oneLine(d.Description), plain}, cell{oneLine(r.Path(d.Name)), dim})
			}
			return p.out.print(t.layout(p.out))
		},
	}
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
	return p.addPermissionFlags(cmd)
}

// checkPaths checks files and directories, those of the registry where none are given.
func (p *program) checkPaths(ctx context.Context, paths []string) ([]fileReport, error) {
	st := inmem.New(inmem.Config{})
	given, err := p.newAgentSetup(st)
	if err != nil {
		return nil, err
	}
	defer func() { _ = given.close() }() // it was only looked at
	rt, err := p.runtime(st, given, given.models.providers.secrets, holdfast.Identity{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = rt.Close() }() // nothing in it was to be kept
	verdicts := []fileReport{}
	if len(paths) == 0 {
		for _, dir := range p.agentDirs() {
			if _, err := os.Stat(dir); err == nil {
				paths = append(paths, dir)
			}
		}
		for _, bad := range given.skills.bad {
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
			verdicts = append(verdicts, given.check(ctx, rt, path, d, err))
			continue
		}
		r := p.registry(path)
		for _, name := range r.Names() {
			d, err := r.Get(name)
			verdicts = append(verdicts, given.check(ctx, rt, r.Path(name), d, err))
		}
		for _, bad := range r.Problems() {
			verdicts = append(verdicts, fileReport{bad.Path, problems(bad.Err)})
		}
	}
	return verdicts, nil
}

// check tries a definition: a session is made of it where nobody sees it. A tool
// that a flag would offer is only missing here.
func (o *agentSetup) check(ctx context.Context, rt *holdfast.Runtime, path string, d session.Definition, err error) fileReport {
	if err != nil {
		return fileReport{path, problems(err)}
	}
	var missing []session.Problem
	d.Tools = slices.DeleteFunc(slices.Clone(d.Tools), func(name string) bool {
		flag := flagFor(name)
		if flag == "" || o.hasTool(name) {
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
				p.warnEarly("%s: %s", problem.Field, problem.Message)
				continue
			}
			all.Problems = append(all.Problems, problem)
		}
	}
	if p.json {
		if err := p.printJSON(verdicts); err != nil {
			return err
		}
	}
	switch {
	case len(all.Problems) > 0:
		return all
	case p.json:
		return nil
	case len(verdicts) == 0:
		p.err.status("no definitions in %s", strings.Join(p.agentDirs(), " or "))
		return nil
	}
	return p.out.print(fmt.Sprintf("ok: %s\n", countOf(len(verdicts), "definition")))
}
