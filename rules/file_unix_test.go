//go:build unix

package rules_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/rules"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// A repository can bring any of these. None may hang, fill the memory or lead
// out of the workspace.
func TestRules_aManifestThatIsNoPlainFileIsRefusedUnread(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(outside, []byte(allowAct), 0o600); err != nil {
		t.Fatal(err)
	}
	sparse := func(path string) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Truncate(1<<40), f.Close())
	}
	for name, put := range map[string]func(path string) error{
		"a pipe":             func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder":           func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to a device": func(path string) error { return os.Symlink(os.DevNull, path) },
		"a link out":         func(path string) error { return os.Symlink(outside, path) },
		"a link to nothing":  func(path string) error { return os.Symlink("nothing", path) },
		"a huge file":        sparse,
		"a link to a huge file": func(path string) error {
			return errors.Join(sparse(filepath.Join(filepath.Dir(path), "big")), os.Symlink("big", path))
		},
		"too many rules": func(path string) error {
			one := `{"effect":"deny","scope":{"kind":"tool","toolName":"x"}}`
			return os.WriteFile(path, []byte(`{"version":1,"rules":[`+strings.Repeat(one+",", 2000)+one+`]}`), 0o600)
		},
	} {
		root := t.TempDir()
		path := filepath.Join(root, filepath.FromSlash(permission.ManifestPath))
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := put(path); err != nil {
			if name == "a huge file" || name == "a link to a huge file" {
				continue // this file system has no holes of that size
			}
			t.Fatal(err)
		}
		s := rules.New(newRuntime(t), rules.Config{})
		w := permission.Workspace{ID: "w", Root: root}
		_, _, err := s.Rules(context.Background(), w)
		var bad *session.RuleFileError
		if !errors.As(err, &bad) || bad.File != path || bad.Reason == "" || bad.Next == "" {
			t.Errorf("%s: %v", name, err)
		}
		if got := decision(t, s, w, tool.Write); got.Decision != "ask" || got.Reason.Type != "policy_error" {
			t.Errorf("%s: %s for %s", name, got.Decision, got.Reason.Type)
		}
	}
}

func TestRules_aFolderThatLeadsOutBringsNoRules(t *testing.T) {
	t.Parallel()
	root, elsewhere := t.TempDir(), t.TempDir()
	manifest(t, elsewhere, allowAct)
	if err := os.Symlink(filepath.Join(elsewhere, ".holdfast"), filepath.Join(root, ".holdfast")); err != nil {
		t.Fatal(err)
	}
	s := rules.New(newRuntime(t), rules.Config{})
	if _, _, err := s.Rules(context.Background(), permission.Workspace{ID: "w", Root: root}); !errors.Is(err, session.ErrRule) {
		t.Errorf("read through a link that leads out: %v", err)
	}
}

func TestRules_theUsersFileMayBeALinkButNoPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	profile, kept := filepath.Join(dir, "permissions.json"), filepath.Join(t.TempDir(), "kept.json")
	if err := errors.Join(os.WriteFile(kept, []byte(allowAct), 0o600), os.Symlink(kept, profile)); err != nil {
		t.Fatal(err)
	}
	s := rules.New(newRuntime(t), rules.Config{Profile: profile})
	if got := decision(t, s, permission.Workspace{ID: "w"}, tool.Write); got.Decision != "allow" {
		t.Errorf("the user's rules say %s", got.Decision)
	}
	if err := errors.Join(os.Remove(profile), syscall.Mkfifo(profile, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Rules(context.Background(), permission.Workspace{ID: "w"}); !errors.Is(err, session.ErrRule) {
		t.Errorf("a pipe: %v", err)
	}
	if err := errors.Join(os.Remove(profile), os.Symlink(filepath.Join(dir, "gone.json"), profile)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Rules(context.Background(), permission.Workspace{ID: "w"}); !errors.Is(err, session.ErrRule) {
		t.Errorf("a link that leads nowhere: %v", err)
	}
}
