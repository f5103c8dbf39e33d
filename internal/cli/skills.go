package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) definitionsSkillsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "skills", Short: "list skills and capabilities", Args: cobra.NoArgs,
		Long: `List the texts that agents may add to their prompt: skills, in the directory "skills" beside
"agents" as NAME.md or NAME/SKILL.md, and capabilities, in "capabilities", which also list
the tools they are about and can be used only where those are offered. With --json: an array.`,
		RunE: func(*cobra.Command, []string) error {
			all := p.skills()
			for _, bad := range all.bad {
				p.err.warn("%v", bad)
			}
			if p.json {
				return p.printJSON(all.all())
			}
			if len(all.all()) == 0 {
				p.err.status("no skills beside %s", strings.Join(p.agentDirs(), " or "))
				return nil
			}
			t := table{head: []string{"NAME", "KIND", "TOOLS", "DESCRIPTION", "FILE"}, flex: 3}
			for _, s := range all.all() {
				kind := "skill"
				if s.Capability {
					kind = "capability"
				}
				t.add(cell{s.Name, bold}, cell{kind, plain}, cell{oneLine(strings.Join(s.Tools, ", ")), plain}, cell{oneLine(s.Description), plain}, cell{oneLine(s.File), dim})
			}
			return p.out.print(t.layout(p.out))
		},
	}
}

// skill is a text that agents may add to their prompt. A capability is one
// that is about some tools: it is there only where those are.
type skill struct {
	Name        string   `json:"name"`
	Capability  bool     `json:"capability"`
	Description string   `json:"description"`
	Tools       []string `json:"tools"`
	File        string   `json:"file"`
	text        string
}

// skills are those of the user and of the project, which win.
type skills struct {
	skills, capabilities map[string]skill
	bad                  []definition.BadFile
}

// skills reads the directories beside those of agents. A bad file stops no
// other.
func (p *program) skills() skills {
	all := skills{skills: map[string]skill{}, capabilities: map[string]skill{}}
	for _, agents := range p.agentDirs() {
		all.read(filepath.Join(filepath.Dir(agents), "skills"), all.skills, false)
		all.read(filepath.Join(filepath.Dir(agents), "capabilities"), all.capabilities, true)
	}
	return all
}

// read adds what a directory has: files of their own, and SKILL.md in
// directories of their own, beside which other files may lie.
func (s *skills) read(dir string, into map[string]skill, capability bool) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.bad = append(s.bad, definition.BadFile{Path: dir, Err: err})
	}
	here := map[string]string{}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path = filepath.Join(path, "SKILL.md")
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if !slices.Contains([]string{".md", ".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) {
			continue
		}
		read, err := readSkill(path, capability)
		if other, twice := here[read.Name]; err == nil && twice {
			err = &session.DefinitionError{Source: path, Problems: []session.Problem{{Field: "name", Message: fmt.Sprintf("%q is also that of %s", read.Name, other)}}}
		}
		if err != nil {
			s.bad = append(s.bad, definition.BadFile{Path: path, Err: err})
			continue
		}
		here[read.Name] = path
		into[read.Name] = read
	}
}

// readSkill reads a file of the form of a definition with a name, a
// description and a text, and for a capability the tools it is about.
func readSkill(path string, capability bool) (skill, error) {
	d, err := definition.Load(path)
	if err != nil {
		return skill{}, err
	}
	takes := session.Definition{Name: d.Name, Label: d.Label, Description: d.Description, SystemPrompt: d.SystemPrompt}
	if capability {
		takes.Tools = d.Tools
	}
	given, err := session.JSON(d)
	if err != nil {
		return skill{}, err
	}
	taken, err := session.JSON(takes)
	if err != nil {
		return skill{}, err
	}
	if !bytes.Equal(given, taken) || strings.TrimSpace(d.SystemPrompt) == "" {
		what := "a skill has a name, a description and a text, and nothing else"
		if capability {
			what = "a capability has a name, a description, tools and a text, and nothing else"
		}
		return skill{}, &session.DefinitionError{Source: path, Problems: []session.Problem{{Field: "file", Message: what}}}
	}
	return skill{Name: d.Name, Capability: capability, Description: d.Description, Tools: slices.Concat([]string{}, d.Tools), File: path, text: d.SystemPrompt}, nil
}

// texts returns the skills as a runtime takes them.
func (s skills) texts() map[string]string {
	texts := map[string]string{}
	for name, skill := range s.skills {
		texts[name] = skill.text
	}
	return texts
}

// capabilities returns those whose tools are among those agents get.
func (o *agentSetup) capabilities() map[string]holdfast.Capability {
	given := map[string]holdfast.Capability{}
	for name, c := range o.skills.capabilities {
		if !slices.ContainsFunc(c.Tools, func(tool string) bool { return !o.hasTool(tool) }) {
			given[name] = holdfast.Capability{Prompt: c.text}
		}
	}
	return given
}

// missingSkill returns why an agent does not get a skill or capability it names, nil
// where that is no secret of this command line.
func (o *agentSetup) missingSkill(def session.Definition) error {
	for _, name := range def.Capabilities {
		for _, tool := range o.skills.capabilities[name].Tools {
			switch flag := flagFor(tool); {
			case o.hasTool(tool):
			case flag != "":
				return &unavailableError{what: fmt.Sprintf("the capability %s needs the tool %q", name, tool), remedy: "offer it with " + flag}
			default:
				return &unavailableError{what: fmt.Sprintf("the capability %s needs the tool %q", name, tool), remedy: "no tool has that name"}
			}
		}
	}
	named := slices.Concat(def.Skills, def.Capabilities)
	for _, bad := range o.skills.bad {
		name := strings.TrimSuffix(filepath.Base(bad.Path), filepath.Ext(bad.Path))
		if name == "SKILL" {
			name = filepath.Base(filepath.Dir(bad.Path))
		}
		if slices.Contains(named, name) {
			return bad.Err
		}
	}
	return nil
}

// all returns the skills, then the capabilities, each by name.
func (s skills) all() []skill {
	all := []skill{}
	for _, group := range []map[string]skill{s.skills, s.capabilities} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			all = append(all, group[name])
		}
	}
	return all
}
