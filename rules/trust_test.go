package rules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/rules"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

// trustDesk is a workspace with rules, and where trust in it is kept.
type trustDesk struct {
	rules  *rules.Store
	trust  *rules.Trust
	w      permission.Workspace
	root   string
	warned *[]string
}

func newTrustDesk(t *testing.T, text string) trustDesk {
	t.Helper()
	root, home := t.TempDir(), t.TempDir()
	manifest(t, root, text)
	trust := rules.NewTrust(filepath.Join(home, "deep", "trust.json"))
	warned := &[]string{}
	s := rules.New(newRuntime(t), rules.Config{
		Profile: filepath.Join(home, "permissions.json"), Trust: trust,
		Warn: func(format string, args ...any) { *warned = append(*warned, fmt.Sprintf(format, args...)) },
	})
	return trustDesk{s, trust, permission.Workspace{ID: "w", Root: root}, root, warned}
}

func (d trustDesk) expect(t *testing.T, what, want string) {
	t.Helper()
	if got := decision(t, d.rules, d.w, tool.Write); got.Decision != want {
		t.Errorf("%s: %s (%s), want %s", what, got.Decision, got.Reason.Summary, want)
	}
}

func (d trustDesk) add(t *testing.T) {
	t.Helper()
	if _, err := d.trust.Add(d.root, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
}

const allowAct = `{"version":1,"rules":[{"effect":"allow","scope":{"kind":"tool","toolName":"act"}}]}`

func TestTrust_aWorkspaceAllowsNothingUntilItIsTrusted(t *testing.T) {
	t.Parallel()
	d := newTrustDesk(t, allowAct)
	d.expect(t, "never trusted", "ask")
	if len(*d.warned) != 1 || !strings.Contains((*d.warned)[0], "allow tool act") || !strings.Contains((*d.warned)[0], "holdfast task trust "+d.root) {
		t.Fatalf("told are %q", *d.warned)
	}
	d.add(t)
	d.expect(t, "trusted", "allow")
	manifest(t, d.root, allowAct+"\n")
	d.expect(t, "changed", "ask")
	if len(*d.warned) != 2 || !strings.Contains((*d.warned)[1], "changed since you trusted it") {
		t.Fatalf("told are %q", *d.warned)
	}
	if _, err := d.rules.Add(context.Background(), d.w, toolRule("workspace_db", "deny", "other")); err != nil {
		t.Fatal(err)
	}
	d.expect(t, "changed, and rules were compiled anew", "ask")
	if len(*d.warned) != 2 {
		t.Errorf("told again: %q", *d.warned)
	}
	d.add(t)
	d.expect(t, "trusted again", "allow")
	if removed, err := d.trust.Remove(d.root); err != nil || !removed {
		t.Fatal(removed, err)
	}
	d.expect(t, "taken back", "ask")
	if removed, err := d.trust.Remove(d.root); err != nil || removed {
		t.Errorf("removed twice: %v, %v", removed, err)
	}
}

func TestTrust_whatAWorkspaceDeniesCountsWithoutTrust(t *testing.T) {
	t.Parallel()
	for _, effect := range []string{"deny", "ask"} {
		d := newTrustDesk(t, strings.Replace(allowAct, `"allow"`, `"`+effect+`"`, 1))
		if _, err := d.rules.Add(context.Background(), d.w, toolRule("profile", "allow", "act")); err != nil {
			t.Fatal(err)
		}
		d.expect(t, "not trusted", effect)
		if len(*d.warned) > 0 {
			t.Errorf("told are %q", *d.warned)
		}
	}
}

func TestTrust_doesNotBeatWhatTheUserDenies(t *testing.T) {
	t.Parallel()
	d := newTrustDesk(t, allowAct)
	d.add(t)
	if _, err := d.rules.Add(context.Background(), d.w, toolRule("profile", "deny", "act")); err != nil {
		t.Fatal(err)
	}
	d.expect(t, "trusted, and denied by the user", "deny")
}

func TestTrust_isForOneFolder(t *testing.T) {
	t.Parallel()
	d := newTrustDesk(t, allowAct)
	d.add(t)
	other := t.TempDir()
	manifest(t, other, allowAct)
	d.w = permission.Workspace{ID: "other", Root: other}
	d.expect(t, "the same rules elsewhere", "ask")
}

func TestTrust_aFileThatCannotBeReadTrustsNothing(t *testing.T) {
	t.Parallel()
	d := newTrustDesk(t, allowAct)
	d.add(t)
	home := t.TempDir()
	path := filepath.Join(home, "trust.json")
	if err := os.WriteFile(path, []byte(`{"version":9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := rules.NewTrust(path)
	if _, err := broken.Add(d.root, time.Unix(1, 0)); !errors.Is(err, session.ErrRule) {
		t.Errorf("added to a file of another version: %v", err)
	}
	d.rules = rules.New(newRuntime(t), rules.Config{Trust: broken})
	d.expect(t, "the file of trust is broken", "ask")
}

func TestTrust_listsWhatIsTrustedAndWhetherItChanged(t *testing.T) {
	t.Parallel()
	d := newTrustDesk(t, allowAct)
	if list, err := d.trust.List(); err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	d.add(t)
	d.add(t)
	list, err := d.trust.List()
	if err != nil || len(list) != 1 || !list[0].Current() {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := os.Remove(filepath.Join(d.root, filepath.FromSlash(permission.ManifestPath))); err != nil {
		t.Fatal(err)
	}
	if list[0].Current() {
		t.Error("a file that is gone is as it was")
	}
	var missing *session.NotFoundError
	if _, err := d.trust.Add(d.root, time.Unix(1, 0)); !errors.As(err, &missing) {
		t.Errorf("trusted a workspace without rules: %v", err)
	}
}
