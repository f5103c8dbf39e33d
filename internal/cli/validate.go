package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/display"
	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

// validity is what a spec is, for who only wants to know whether it is right.
type validity struct {
	Name     string           `json:"name"`
	Version  any              `json:"version"`
	Agents   []string         `json:"agents"`
	Pattern  spec.PatternType `json:"pattern"`
	Warnings []spec.Warning   `json:"warnings"`
}

func (p *program) validateCommand() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use: "validate SPEC…", Short: "check that workflow specs are well formed", Args: cobra.MinimumNArgs(1),
		Long: `Check that workflow specs are well formed: nothing is run and nobody is asked. Templates
and conditions that do not compile, and names of agents, tasks and nodes that are not there,
are warnings here, with --strict errors, as they are when the spec is run. Whether it can be
run on this machine "holdfast plan" says.`,
		RunE: func(_ *cobra.Command, args []string) error {
			var errs []error
			for _, path := range args {
				errs = append(errs, p.validate(path, strict))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "refuse what only warns otherwise")
	return cmd
}

// validate prints what a spec is.
func (p *program) validate(path string, strict bool) error {
	s, err := p.readSpec(path, !strict)
	if err != nil {
		return err
	}
	missing := spec.CheckNames(s)
	if strict && len(missing) > 0 {
		return &workflow.UnsupportedError{File: path, Issues: missing}
	}
	v := validity{Name: s.Name, Version: s.Version, Agents: s.Agents.Names(), Pattern: s.Pattern.Type, Warnings: append([]spec.Warning{}, s.Warnings...)}
	for _, m := range missing {
		v.Warnings = append(v.Warnings, spec.Warning{Pointer: m.Pointer, Reason: m.Reason + "; " + m.Remediation})
	}
	if p.JSON {
		return p.PrintJSON(v)
	}
	for _, w := range v.Warnings {
		p.Err.Warn("%s: %s", w.Pointer, w.Reason)
	}
	p.Err.Status("%s is well formed", path)
	return p.Out.Print(p.facts([][2]string{
		{"name", s.Name}, {"version", fmt.Sprint(s.Version)}, {"agents", strings.Join(v.Agents, ", ")}, {"pattern", string(v.Pattern)},
	}))
}

// readSpec reads a spec that is looked at and not run.
func (p *program) readSpec(path string, lenient bool) (*spec.Spec, error) {
	http, err := tools.HTTPFromEnv(p.Getenv)
	if err != nil {
		return nil, err
	}
	return p.loadSpec(path, spec.Loader{Lenient: lenient, AllowPrivate: http.AllowPrivate}, nil)
}

// facts are names and values, a line for each.
func (p *program) facts(list [][2]string) string {
	var b strings.Builder
	for _, fact := range list {
		fmt.Fprintf(&b, "%s %s\n", p.Out.Paint(terminal.Dim, fmt.Sprintf("%-10s", fact[0])), terminal.OneLine(fact[1]))
	}
	return b.String()
}

// plan is what running a spec would do.
type plan struct {
	Name      string           `json:"name"`
	Version   any              `json:"version"`
	Supported bool             `json:"supported"`
	Runtime   planRuntime      `json:"runtime"`
	Agents    []string         `json:"agents"`
	Pattern   spec.PatternType `json:"pattern"`
	Issues    int              `json:"issues"`
	IssueList []spec.Issue     `json:"issue_list"`
	Units     []string         `json:"units"`
}

type planRuntime struct {
	Provider string  `json:"provider"`
	ModelID  *string `json:"model_id"`
	Region   *string `json:"region"`
	Host     *string `json:"host"`
}

func (p *program) planCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use: "plan SPEC", Short: "say what running a workflow spec would do, and what keeps it from running here", Args: cobra.ExactArgs(1),
		Long: `Say what running a workflow spec would do: its agents, its units in their order, and what
keeps it from running on this machine, if anything. Nothing is run and nobody is asked. The
exit code is 0 also for a spec that cannot be run here. With --format mermaid or dot: the
spec as a graph, for Mermaid or Graphviz.`,
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "md" && format != "json" && !slices.Contains(graphFormats, format) {
				return &session.InvalidError{Field: "format", Reason: fmt.Sprintf("%q is not md, json, %s", format, strings.Join(graphFormats, " or "))}
			}
			s, err := p.readSpec(args[0], true)
			if err != nil {
				return err
			}
			if slices.Contains(graphFormats, format) {
				return p.Out.Print(graphText(workflow.SpecGraph(s), format))
			}
			made := planOf(s, spec.Check(s, (&setup.SpecModels{Setup: p.Setup}).Env()))
			if p.JSON || format == "json" {
				return p.PrintJSON(made)
			}
			return p.Out.Print(planText(s, made))
		},
	}
	cmd.Flags().StringVar(&format, "format", "md", "`FORM` of the plan: md, json, mermaid or dot")
	return cmd
}

// graphFormats are the languages that a graph is printed in.
var graphFormats = []string{"mermaid", "dot"}

func graphText(g *workflow.Graph, format string) string {
	if format == "dot" {
		return g.Dot()
	}
	return g.Mermaid()
}

func planOf(s *spec.Spec, issues []spec.Issue) plan {
	optional := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	made := plan{
		Name: s.Name, Version: s.Version, Supported: len(issues) == 0, Agents: s.Agents.Names(), Pattern: s.Pattern.Type,
		Runtime: planRuntime{s.Runtime.Provider, optional(s.Runtime.ModelID), optional(s.Runtime.Region), optional(s.Runtime.Host)},
		Issues:  len(issues), IssueList: append([]spec.Issue{}, issues...), Units: unitsOf(s),
	}
	return made
}

// unitsOf are the units of a spec as far as they are known before it is run, in
// the order in which they may begin.
func unitsOf(s *spec.Spec) []string {
	units := []string{}
	for _, n := range workflow.SpecGraph(s).Nodes {
		units = append(units, n.Unit)
	}
	return append(units, "artifacts")
}

// planText is a plan in Markdown, with the pattern drawn.
func planText(s *spec.Spec, made plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", terminal.OneLine(made.Name))
	if s.Description != "" {
		fmt.Fprintf(&b, "%s\n\n", terminal.OneLine(s.Description))
	}
	model := made.Runtime.Provider
	if made.Runtime.ModelID != nil {
		model += "/" + *made.Runtime.ModelID
	}
	fmt.Fprintf(&b, "- version: %v\n- model: %s\n- pattern: %s\n- agents: %s\n", made.Version, model, made.Pattern, strings.Join(made.Agents, ", "))
	if names := s.Missing(); len(names) > 0 {
		fmt.Fprintf(&b, "- inputs to give: %s\n", strings.Join(names, ", "))
	}
	b.WriteString("\n## Course\n\n```\n")
	for _, line := range (display.RunDrawing{To: &terminal.Screen{}, Frame: -1}).Lines(s, display.NewRunState()) {
		b.WriteString(strings.TrimPrefix(line, "  ") + "\n")
	}
	b.WriteString("```\n")
	for _, a := range s.Outputs.Artifacts {
		fmt.Fprintf(&b, "\nIt writes `%s`.\n", terminal.OneLine(a.Path))
	}
	if made.Supported {
		b.WriteString("\nIt can be run here.\n")
		return b.String()
	}
	b.WriteString("\n## What keeps it from running here\n\n")
	for _, issue := range made.IssueList {
		fmt.Fprintf(&b, "- `%s`: %s; %s\n", issue.Pointer, issue.Reason, issue.Remediation)
	}
	return b.String()
}
