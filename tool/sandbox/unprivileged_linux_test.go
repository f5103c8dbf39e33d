package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/tool/sandbox"
)

// nobody is a user who owns nothing but what a test gives it.
const nobody = 65534

// unprivilegedLines are run in the sandbox of a user who is not root.
var unprivilegedLines = []string{
	"cat own.txt",
	"echo new > open/made.txt && cat open/made.txt",
	"cat .env",
	"cat sub/hard.link",
	"cat ../outside/secret.txt",
	"echo x > ../outside/made.txt",
	"mount -t tmpfs none sub",
	"id -u",
}

// runUnprivileged is the program of TestSandbox_forAUserWhoIsNotRoot: it runs each
// line in a sandbox of a workspace, and prints a report of each.
func runUnprivileged(workspace string) error {
	s, err := sandbox.New(sandbox.Config{Dir: workspace, Deny: []string{filepath.Join(workspace, ".env")}})
	if err != nil {
		return err
	}
	fmt.Printf("files=%t\n", s.Status().Files)
	for _, line := range unprivilegedLines {
		out, err := os.Create(filepath.Join(filepath.Dir(workspace), "out"))
		if err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
		ran := s.Run(ctx, out, "/bin/sh", "-c", line)
		stop()
		raw, err := os.ReadFile(out.Name())
		if err != nil {
			return err
		}
		fmt.Printf("%s: %t %q\n", line, ran == nil, raw)
	}
	return nil
}

// Root may do more than the sandbox takes away; what a person runs it as may not.
// All files of the test belong to that user: only the sandbox is in the way.
func TestSandbox_forAUserWhoIsNotRoot(t *testing.T) {
	t.Parallel()
	needs(t, files)
	p := newPlace(t)
	write(t, filepath.Join(p.workspace, ".env"), secret)
	write(t, filepath.Join(p.workspace, "open", "file"), "open text\n")
	if err := os.Link(filepath.Join(p.workspace, ".env"), filepath.Join(p.workspace, "sub", "hard.link")); err != nil {
		t.Fatal(err)
	}
	base := filepath.Dir(p.workspace)
	addProgram(t, base, "unprivileged")
	cmd := exec.CommandContext(t.Context(), filepath.Join(base, "unprivileged"), p.workspace) //nolint:gosec // it is this test
	cmd.Dir, cmd.Env = base, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base, "TMPDIR=" + base}
	user := os.Geteuid()
	if user == 0 {
		user = nobody
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := os.Chmod(filepath.Dir(base), 0o755); err != nil { //nolint:gosec // the user must come to its folder
			t.Fatal(err)
		}
		if err := filepath.WalkDir(base, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, nobody, nobody)
		}); err != nil {
			t.Fatal(err)
		}
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, &errs)
	}
	report := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		report[name] = text
	}
	if _, able := report["files=true"]; !able {
		t.Fatalf("files are not guarded for this user, but are for root: %s", out)
	}
	for line, want := range map[string]string{
		"cat own.txt": `true "own text\n"`,
		"echo new > open/made.txt && cat open/made.txt": `true "new\n"`,
		"id -u": fmt.Sprintf(`true "%d\n"`, user),
	} {
		if report[line] != want {
			t.Errorf("%s: %s, want %s", line, report[line], want)
		}
	}
	for _, line := range unprivilegedLines[2:7] {
		if !strings.HasPrefix(report[line], "false") || strings.Contains(report[line], secret) {
			t.Errorf("%s: %s, want a refusal", line, report[line])
		}
	}
	if _, err := os.Stat(filepath.Join(p.outside, "made.txt")); err == nil {
		t.Error("a file was made outside")
	}
}
