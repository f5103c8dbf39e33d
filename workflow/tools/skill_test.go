package tools_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/workflow/spec"
	"github.com/holdfast-dev/holdfast/workflow/tools"
)

const withSkills = plainSpec + `
skills:
  - {id: brew, path: ./skills/brew/, description: How to brew.}
  - {id: wash, path: skills/wash}
  - {id: bare, path: skills/bare}
`

// skilled is a box for a spec in a folder with skills; the folder is gone.
func skilled(t *testing.T, more string) *tools.Box {
	t.Helper()
	dir := t.TempDir()
	put(t, dir+"/spec.yaml", withSkills+more)
	put(t, dir+"/skills/brew/SKILL.md", "Boil water.\n")
	put(t, dir+"/skills/brew/README.md", "not this")
	put(t, dir+"/skills/brew/green.md", "At 80 degrees.")
	put(t, dir+"/skills/brew/deep/black.md", "Boiling.")
	put(t, dir+"/skills/wash/README.md", "With soap.")
	put(t, dir+"/skills/bare/other.md", "x")
	s, err := spec.Load(dir+"/spec.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	return newBox(t, tools.Config{Spec: s, Snapshot: snapshot})
}

func TestSkill_readsTheSnapshot(t *testing.T) {
	t.Parallel()
	b := skilled(t, "")
	for id, want := range map[string]string{
		"brew":            "# Skill brew\n\nHow to brew.\n\nBoil water.\n",
		"wash":            "# Skill wash\n\nWith soap.",
		"brew/green":      "# Skill module brew/green\n\nAt 80 degrees.",
		"brew/green.md":   "# Skill module brew/green\n\nAt 80 degrees.",
		"brew/deep/black": "# Skill module brew/deep/black\n\nBoiling.",
	} {
		works(t, b, "Skill", map[string]any{"skill_id": id}, want)
	}
	fails(t, b, "Skill", map[string]any{"skill_id": "cook"}, `no skill "cook"; there are brew, wash, bare`)
	fails(t, b, "Skill", map[string]any{"skill_id": "brew/red"}, `no module "red"; it has deep/black, green`)
	fails(t, b, "Skill", map[string]any{"skill_id": "wash/x"}, "it has none")
	fails(t, b, "Skill", map[string]any{"skill_id": "wash/../brew/SKILL"}, "no module")
	fails(t, b, "Skill", map[string]any{"skill_id": "bare"}, "neither SKILL.md nor README.md")
	fails(t, b, "Skill", nil, "skill_id")
}

func TestSkill_onceInAConversation(t *testing.T) {
	t.Parallel()
	b := skilled(t, "")
	one := b.Loaded(func(id string) bool { return id == "brew" })
	works(t, one, "Skill", map[string]any{"skill_id": "brew"}, "The skill brew is loaded in this conversation already.")
	works(t, one, "Skill", map[string]any{"skill_id": "brew/green"}, "# Skill module brew/green\n\nAt 80 degrees.")
	// Another conversation knows nothing of it.
	if got := use(t, b, "Skill", map[string]any{"skill_id": "brew"}); !strings.Contains(got.Content, "Boil water") {
		t.Errorf("got %+v", got)
	}
}

func TestSkill_isThereForEveryUnit(t *testing.T) {
	t.Parallel()
	for more, want := range map[string][]string{
		"": {"grep", "Skill"},
		"security: {guardrails: {deny_network: true}}\n":           {"grep", "Skill"},
		"security: {guardrails: {allow_tools: [grep]}}\n":          {"grep"},
		"security: {guardrails: {allow_tools: [Skill, search]}}\n": {"Skill"},
	} {
		if got := namesOf(skilled(t, more).For([]string{"grep"}, true)); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", more, got, want)
		}
	}
	if got := namesOf(skilled(t, "").For([]string{"Skill", "grep"}, true)); !slices.Equal(got, []string{"grep", "Skill"}) {
		t.Errorf("got %v", got)
	}
}
