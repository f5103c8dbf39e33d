package task_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/task"
)

func TestStart_theAgentKnowsItsWorkspace(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("not for agents"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		make func(path string) error
		want string // in the prompt
		not  string
	}{
		"none":       {func(string) error { return nil }, "", "AGENTS.md"},
		"a file":     {func(p string) error { return os.WriteFile(p, []byte("use tabs"), 0o600) }, "use tabs", "\x00"},
		"off":        {func(p string) error { return os.WriteFile(p, []byte("use tabs"), 0o600) }, "", "AGENTS.md"},
		"a long one": {func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x", 40<<10)), 0o600) }, "xxx", strings.Repeat("x", 33<<10)},
		"a folder":   {func(p string) error { return os.Mkdir(p, 0o700) }, "", "AGENTS.md"},
		"a way out":  {func(p string) error { return os.Symlink(filepath.Join(outside, "secret"), p) }, "", "not for agents"},
	} {
		root := t.TempDir()
		if err := c.make(filepath.Join(root, "AGENTS.md")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		h := newHouse(t, script("done"))
		s := job()
		s.Workspace = task.Workspace{Root: root}
		if name == "off" {
			s.Workspace.Capabilities = map[string]bool{task.CapabilityAgentsFile: false}
		}
		h.start(s)
		system := h.asked[0].System
		if !strings.Contains(system, h.row().WorkspacePath) || !strings.Contains(system, runtime.GOOS) || !strings.Contains(system, c.want) || strings.Contains(system, c.not) {
			t.Errorf("%s: the prompt is %.300s", name, system)
		}
	}
}
