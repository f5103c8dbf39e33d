package setup

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

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/definition"
	"github.com/holdfast-dev/holdfast/session"
)

// Skill is a text that agents may add to their prompt. A capability is one
// that is about some tools: it is there only where those are.
type Skill struct {
	Name        string   `json:"name"`
	Capability  bool     `json:"capability"`
	Description string   `json:"description"`
	Tools       []string `json:"tools"`
	File        string   `json:"file"`
	text        string
}

// Skills are those of the user and of the project, which win.
type Skills struct {
	skills, capabilities map[string]Skill
	Bad                  []definition.BadFile
}

// Skills reads the directories beside those of agents. A bad file stops no
// other.
func (p *Setup) Skills() Skills {
	all := Skills{skills: map[string]Skill{}, capabilities: map[string]Skill{}}
	for _, agents := range p.AgentDirs() {
		all.read(filepath.Join(filepath.Dir(agents), "skills"), all.skills, false)
		all.read(filepath.Join(filepath.Dir(agents), "capabilities"), all.capabilities, true)
	}
	return all
}

// read adds what a directory has: files of their own, and SKILL.md in
// directories of their own, beside which other files may lie.
func (s *Skills) read(dir string, into map[string]Skill, capability bool) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Bad = append(s.Bad, definition.BadFile{Path: dir, Err: err})
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
			s.Bad = append(s.Bad, definition.BadFile{Path: path, Err: err})
			continue
		}
		here[read.Name] = path
		into[read.Name] = read
	}
}

// readSkill reads a file of the form of a definition with a name, a
// description and a text, and for a capability the tools it is about.
func readSkill(path string, capability bool) (Skill, error) {
	d, err := definition.Load(path)
	if err != nil {
		return Skill{}, err
	}
	takes := session.Definition{Name: d.Name, Label: d.Label, Description: d.Description, SystemPrompt: d.SystemPrompt}
	if capability {
		takes.Tools = d.Tools
	}
	given, err := session.JSON(d)
	if err != nil {
		return Skill{}, err
	}
	taken, err := session.JSON(takes)
	if err != nil {
		return Skill{}, err
	}
	if !bytes.Equal(given, taken) || strings.TrimSpace(d.SystemPrompt) == "" {
		what := "a skill has a name, a description and a text, and nothing else"
		if capability {
			what = "a capability has a name, a description, tools and a text, and nothing else"
		}
		return Skill{}, &session.DefinitionError{Source: path, Problems: []session.Problem{{Field: "file", Message: what}}}
	}
	return Skill{Name: d.Name, Capability: capability, Description: d.Description, Tools: slices.Concat([]string{}, d.Tools), File: path, text: d.SystemPrompt}, nil
}

// texts returns the skills as a runtime takes them.
func (s Skills) texts() map[string]string {
	texts := map[string]string{}
	for name, skill := range s.skills {
		texts[name] = skill.text
	}
	return texts
}

// capabilities returns those whose tools are among those agents get.
func (o *AgentSetup) capabilities() map[string]holdfast.Capability {
	given := map[string]holdfast.Capability{}
	for name, c := range o.Skills.capabilities {
		if !slices.ContainsFunc(c.Tools, func(tool string) bool { return !o.HasTool(tool) }) {
			given[name] = holdfast.Capability{Prompt: c.text}
		}
	}
	return given
}

// missingSkill returns why an agent does not get a skill or capability it names, nil
// where that is no secret of this command line.
func (o *AgentSetup) missingSkill(def session.Definition) error {
	for _, name := range def.Capabilities {
		for _, tool := range o.Skills.capabilities[name].Tools {
			switch flag := FlagFor(tool); {
			case o.HasTool(tool):
			case flag != "":
				return &UnavailableError{What: fmt.Sprintf("the capability %s needs the tool %q", name, tool), Remedy: "offer it with " + flag}
			default:
				return &UnavailableError{What: fmt.Sprintf("the capability %s needs the tool %q", name, tool), Remedy: "no tool has that name"}
			}
		}
	}
	named := slices.Concat(def.Skills, def.Capabilities)
	for _, bad := range o.Skills.Bad {
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

// All returns the skills, then the capabilities, each by name.
func (s Skills) All() []Skill {
	all := []Skill{}
	for _, group := range []map[string]Skill{s.skills, s.capabilities} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			all = append(all, group[name])
		}
	}
	return all
}
