package tools

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

const skillName = "Skill"

// The results of Skill.
const (
	skillText       = "# Skill %s\n\n%s"       // id, content
	skillTextOf     = "# Skill %s\n\n%s\n\n%s" // id, description, content
	skillModuleText = "# Skill module %s\n\n%s"
	skillLoadedText = "The skill %s is loaded in this conversation already."
)

// copySkills takes the texts of the skills out of the snapshot.
func (b *Box) copySkills() error {
	if len(b.config.Spec.Skills) == 0 {
		return nil
	}
	if b.config.Snapshot == nil {
		return &session.InvalidError{Field: "Config.Snapshot", Reason: "is missing, and the spec has skills"}
	}
	b.skills = map[string][]byte{}
	for _, f := range b.config.Snapshot.Files {
		if f.Kind == spec.SkillFile {
			b.skills[path.Clean(f.As)] = f.Data
		}
	}
	_, err := b.skillTool()
	return err
}

// Loaded returns the box for one conversation: loaded reports the skills that
// it has loaded already, by the argument of Skill. They are not shown again.
func (b *Box) Loaded(loaded func(skillID string) bool) *Box {
	one := *b
	one.loaded = loaded
	return &one
}

type skillArguments struct {
	SkillID string `json:"skill_id" jsonschema:"the id of a skill, or id/module for one of its modules"`
}

func (b *Box) skillTool() (tool.Tool, error) {
	return newTool(tool.Spec{
		Name: skillName, Nature: tool.ReadOnly,
		Description: "Load the instructions of a skill, or of one of its modules, when they are needed.",
	}, b.readSkill)
}

func (b *Box) readSkill(_ context.Context, in skillArguments) (string, error) {
	asked := strings.TrimSuffix(strings.TrimSpace(in.SkillID), ".md")
	id, module, nested := strings.Cut(asked, "/")
	i := slices.IndexFunc(b.config.Spec.Skills, func(s spec.Skill) bool { return s.ID == id })
	if i < 0 {
		return "", &session.InvalidError{Field: "skill_id", Reason: fmt.Sprintf("there is no skill %q; there are %s", id, b.skillIDs())}
	}
	if b.loaded != nil && b.loaded(asked) {
		return fmt.Sprintf(skillLoadedText, asked), nil
	}
	skill := b.config.Spec.Skills[i]
	dir := path.Clean(filepath.ToSlash(skill.Path))
	if nested {
		text, ok := b.skills[path.Join(dir, module+".md")]
		if !ok || !filepath.IsLocal(filepath.FromSlash(module+".md")) {
			return "", &session.InvalidError{Field: "skill_id", Reason: fmt.Sprintf("the skill %q has no module %q; it has %s", id, module, b.modules(dir))}
		}
		return fmt.Sprintf(skillModuleText, asked, cleanText(text)), nil
	}
	text, ok := b.skills[path.Join(dir, "SKILL.md")]
	if !ok {
		text, ok = b.skills[path.Join(dir, "README.md")]
	}
	switch {
	case !ok:
		return "", fmt.Errorf("the skill %q has neither SKILL.md nor README.md", id)
	case skill.Description == "":
		return fmt.Sprintf(skillText, id, cleanText(text)), nil
	}
	return fmt.Sprintf(skillTextOf, id, skill.Description, cleanText(text)), nil
}

func (b *Box) skillIDs() string {
	ids := make([]string, len(b.config.Spec.Skills))
	for i, s := range b.config.Spec.Skills {
		ids[i] = s.ID
	}
	return strings.Join(ids, ", ")
}

// modules lists the texts of a skill besides its first one.
func (b *Box) modules(dir string) string {
	var names []string
	for file := range b.skills {
		inside, ok := strings.CutPrefix(file, strings.TrimSuffix(dir, "/")+"/")
		if dir == "." {
			inside, ok = file, true
		}
		if name, md := strings.CutSuffix(inside, ".md"); ok && md && name != "SKILL" && name != "README" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// cleanText makes the content of a text file valid UTF-8 without NULs.
func cleanText(text []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(text), string(utf8.RuneError)), "\x00", string(utf8.RuneError))
}
