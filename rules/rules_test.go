package rules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/rules"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/tool"
)

func newRuntime(t *testing.T) *holdfast.Runtime {
	t.Helper()
	return runtimeOn(t, inmem.New(inmem.Config{}))
}

func runtimeOn(t *testing.T, st store.Store) *holdfast.Runtime {
	t.Helper()
	rt, err := holdfast.New(holdfast.Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func toolRule(source, effect, name string) session.Rule {
	return session.Rule{Source: source, Effect: effect, Scope: session.Scope{Kind: "tool", ToolName: name}}
}

// decision is what a policy makes of a call.
func decision(t *testing.T, s *rules.Store, w permission.Workspace, effects tool.Effects) permission.Result {
	t.Helper()
	p, err := s.Policy(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	return permission.Engine{}.Evaluate(permission.Request{
		Tool: "act", Known: true, Effects: effects, Policy: p, Workspace: w, AllowPersistence: true,
	})
}

func manifest(t *testing.T, root, text string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(permission.ManifestPath))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRules_evaluationAfterAChangeUsesTheNewOnes(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t)
	ctx, root := context.Background(), t.TempDir()
	profile := filepath.Join(t.TempDir(), "deep", "permissions.json")
	s := rules.New(rt, rules.Config{Profile: profile})
	w := permission.Workspace{ID: "w1", Root: root}
	expect := func(what, want string) {
		t.Helper()
		if got := decision(t, s, w, tool.Write); got.Decision != want {
			t.Errorf("%s: %s (%s), want %s", what, got.Decision, got.Reason.Summary, want)
		}
	}
	expect("nothing", "ask")
	if added, err := s.Add(ctx, w, toolRule("profile", "allow", "act")); err != nil || !added {
		t.Fatal(added, err)
	}
	expect("the profile allows", "allow")
	manifest(t, root, `{"version":1,"rules":[{"effect":"deny","scope":{"kind":"tool","toolName":"act"}}]}`)
	expect("the manifest denies", "deny")
	if added, err := s.Add(ctx, w, toolRule("workspace_db", "allow", "act")); err != nil || !added {
		t.Fatal(added, err)
	}
	expect("the store allows, which is no answer to a denial", "deny")
	other := rules.New(rt, rules.Config{Profile: profile}) // another process
	if removed, err := other.Remove(ctx, w, toolRule("workspace_db", "allow", "act")); err != nil || !removed {
		t.Fatal(removed, err)
	}
	expect("another took it back", "deny")
	if err := os.Remove(filepath.Join(root, filepath.FromSlash(permission.ManifestPath))); err != nil {
		t.Fatal(err)
	}
	expect("the manifest is gone", "allow")
	if removed, err := other.Remove(ctx, w, toolRule("profile", "allow", "act")); err != nil || !removed {
		t.Fatal(removed, err)
	}
	expect("all are gone", "ask")
	if removed, err := s.Remove(ctx, w, toolRule("workspace_db", "allow", "act")); err != nil || removed {
		t.Errorf("removed what is not there: %v, %v", removed, err)
	}
}

func TestRules_aManifestThatCannotBeReadAsksForAllButReading(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"another version": `{"version":2,"rules":[]}`,
		"no JSON":         `{"version":1,`,
		"unknown fields":  `{"version":1,"rules":[],"allow":"all"}`,
	} {
		root := t.TempDir()
		manifest(t, root, text)
		rt := newRuntime(t)
		s := rules.New(rt, rules.Config{})
		w := permission.Workspace{ID: "w", Root: root}
		if _, err := s.Add(context.Background(), w, toolRule("workspace_db", "allow", "act")); err != nil {
			t.Fatal(err)
		}
		if got := decision(t, s, w, tool.Write); got.Decision != "ask" || got.Reason.Type != "policy_error" {
			t.Errorf("%s: %s for %s", name, got.Decision, got.Reason.Type)
		}
		if got := decision(t, s, w, tool.Read); got.Decision != "allow" {
			t.Errorf("%s: reading is %s", name, got.Decision)
		}
	}
}

func TestRules_oneBadRuleIsLeftOutAndToldOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	manifest(t, root, `{"version":1,"rules":[{"effect":"allow","scope":{"kind":"command_prefix","prefix":"*"}},{"effect":"deny","scope":{"kind":"tool","toolName":"act"}}]}`)
	rt := newRuntime(t)
	var warned []string
	s := rules.New(rt, rules.Config{Warn: func(format string, args ...any) { warned = append(warned, fmt.Sprintf(format, args...)) }})
	w := permission.Workspace{ID: "w", Root: root}
	for range 3 {
		if got := decision(t, s, w, tool.Write); got.Decision != "deny" {
			t.Errorf("the good rule says %s", got.Decision)
		}
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "left out") {
		t.Errorf("told are %q", warned)
	}
}

func TestRules_ofAWorkspaceAreOneHiddenSession(t *testing.T) {
	t.Parallel()
	st := inmem.New(inmem.Config{})
	one, other := runtimeOn(t, st), runtimeOn(t, st)
	ctx, w := context.Background(), permission.Workspace{ID: "/home/ann/project"}
	const each = 10
	var wg sync.WaitGroup
	for i := range 2 * each {
		wg.Go(func() {
			s := rules.New([]*holdfast.Runtime{one, other}[i%2], rules.Config{})
			if _, err := s.Add(ctx, w, toolRule("workspace_db", "deny", fmt.Sprintf("t%d", i/2))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	kept, _, err := rules.New(one, rules.Config{}).Rules(ctx, w)
	if err != nil || len(kept) != each {
		t.Errorf("%d rules are kept, %v", len(kept), err)
	}
	page, err := one.List(ctx, store.Query{Kinds: []session.Kind{session.KindPolicy}})
	if err != nil || len(page.Items) != 1 || page.Items[0].Name != "policy:/home/ann/project" {
		t.Errorf("policies are %+v, %v", page.Items, err)
	}
	if page, err = one.List(ctx, store.Query{}); err != nil || len(page.Items) != 0 {
		t.Errorf("a listing shows %+v, %v", page.Items, err)
	}
	long := permission.Workspace{ID: strings.Repeat("x", 500)}
	if _, err := rules.New(one, rules.Config{}).Add(ctx, long, toolRule("workspace_db", "deny", "t")); err != nil {
		t.Errorf("a long id: %v", err)
	}
}

func TestRules_theProfileIsReplacedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t)
	profile := filepath.Join(t.TempDir(), "permissions.json")
	s := rules.New(rt, rules.Config{Profile: profile})
	ctx, w := context.Background(), permission.Workspace{ID: "w"}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if added, err := s.Add(ctx, w, toolRule("profile", "deny", fmt.Sprintf("t%d", i))); err != nil || !added {
				t.Error(added, err)
			}
		})
	}
	wg.Wait()
	kept, _, err := s.Rules(ctx, w)
	if err != nil || len(kept) != 10 {
		t.Errorf("%d rules are kept, %v", len(kept), err)
	}
	broken := `{"version":1,"rules":[{"effect":"maybe","scope":{"kind":"tool","toolName":"x"}}]}`
	if err := os.WriteFile(profile, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add(ctx, w, toolRule("profile", "deny", "t")); !errors.Is(err, session.ErrRule) {
		t.Errorf("added to a file that is not understood: %v", err)
	}
	if data, err := os.ReadFile(profile); err != nil || string(data) != broken {
		t.Errorf("the file is %q, %v", data, err)
	}
	if left, err := filepath.Glob(profile + ".*"); err != nil || slices.ContainsFunc(left, func(p string) bool { return !strings.HasSuffix(p, ".lock") }) {
		t.Errorf("left behind are %v, %v", left, err)
	}
	none := rules.New(rt, rules.Config{})
	if _, err := none.Add(ctx, w, toolRule("profile", "deny", "t")); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("without a profile: %v", err)
	}
	if _, err := none.Add(ctx, w, toolRule("workspace_manifest", "deny", "t")); !errors.Is(err, session.ErrRule) {
		t.Errorf("into the manifest: %v", err)
	}
}

func TestRules_aDomainRuleKeepsItsToolPrefix(t *testing.T) {
	t.Parallel()
	rt := newRuntime(t)
	profile := filepath.Join(t.TempDir(), "permissions.json")
	ctx, w := context.Background(), permission.Workspace{ID: "w"}
	for _, source := range []string{"workspace_db", "profile"} {
		rule := session.Rule{Source: source, Effect: "deny", Scope: session.Scope{Kind: "domain", ToolPrefix: "browser_", Domain: "example.com"}}
		if _, err := rules.New(rt, rules.Config{Profile: profile}).Add(ctx, w, rule); err != nil {
			t.Fatal(err)
		}
	}
	kept, _, err := rules.New(rt, rules.Config{Profile: profile}).Rules(ctx, w)
	if err != nil || len(kept) != 2 || kept[0].Scope.ToolPrefix != "browser_" || kept[1].Scope.ToolPrefix != "browser_" {
		t.Errorf("kept are %+v, %v", kept, err)
	}
}
