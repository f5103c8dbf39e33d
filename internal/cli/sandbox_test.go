package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/tool/sandbox"
)

// A check runs what the agent wrote. Here the store lies in the very workspace.
func TestTask_commandsReachNeitherTheStoreNorDeniedPaths(t *testing.T) {
	t.Parallel()
	if status := sandbox.Probe(); !status.Files {
		t.Skip("this machine cannot enforce it: " + status.String())
	}
	b, _ := workbench(t, nil, "read the file")
	for _, dir := range []string{".config/holdfast", "secrets"} {
		if err := os.MkdirAll(filepath.Join(b.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.write(".config/holdfast/settings", "a setting")
	b.write("secrets/key", "a key")
	b.run(0, "task", "rules", "--workspace", b.dir, "add", "--effect", "deny", "--path", filepath.Join(b.dir, "secrets"))
	check := strings.Join([]string{
		"test -s sessions.db", "! cat sessions.db", "! cp sessions.db work/",
		"test -s secrets/key", "! cat secrets/key",
		"test -s .config/holdfast/settings", "! cat .config/holdfast/settings",
		"! env | grep -q KEY",
		"cat work/service.ini", "echo made > work/made", "echo kept >> ~/log",
	}, " && ")
	b.start(0, b.dir, "--plan", "none", "--permission-mode", "bypass_permissions", "--check", check)
	if got := b.read("work", "made"); got != "made\n" {
		t.Errorf("it made %q", got)
	}
	logs, err := filepath.Glob(filepath.Join(b.dir, ".cache", "holdfast", "home", "*", "log"))
	if err != nil || len(logs) != 1 {
		t.Errorf("the home of its commands: %v, %v", logs, err)
	}
}
