package permission_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/permission"
	"github.com/holdfast-dev/holdfast/session"
)

func TestFile_rulesComeBack(t *testing.T) {
	t.Parallel()
	rules := []session.Rule{
		{ID: "r1", Source: "workspace_manifest", Effect: "deny", Scope: prefix("git push"), CreatedAt: 7, Metadata: session.Values{"why": json.RawMessage(`"<policy>"`)}},
		{Source: "workspace_manifest", Effect: "allow", Scope: session.Scope{Kind: "domain", Domain: "a.org", ToolPrefix: "browser_"}},
		{Source: "workspace_manifest", Effect: "ask", Scope: session.Scope{Kind: "domain", Domain: "b.org", ToolName: "fetch"}},
		{Source: "workspace_manifest", Effect: "ask", Scope: session.Scope{Kind: "path", Path: "/w/a", ToolName: "write_file"}},
	}
	data, err := permission.EncodeRules(rules)
	if err != nil {
		t.Fatal(err)
	}
	back, warnings, err := permission.DecodeRules(data, session.SourceWorkspaceManifest, root)
	if err != nil || len(warnings) > 0 || !reflect.DeepEqual(back, rules) {
		t.Errorf("came back as %+v, %v, %v", back, warnings, err)
	}
	empty, err := permission.EncodeRules(nil)
	if err != nil || string(empty) != "{\n  \"version\": 1,\n  \"rules\": []\n}\n" {
		t.Errorf("no rules are %q, %v", empty, err)
	}
}

func TestFile_badRulesAreLeftOutWithAWarning(t *testing.T) {
	t.Parallel()
	const data = `{"version":1,"rules":[
		{"source":"session","effect":"allow","scope":{"kind":"path","path":"src"}},
		{"effect":"allow","scope":{"kind":"command_prefix","prefix":""}},
		{"effect":"allow","scope":{"kind":"command_prefix","prefix":"*"}},
		{"effect":"allow","scope":{"kind":"command_prefix","prefix":"ls; rm x"}},
		{"effect":"allow","scope":{"kind":"path","path":"*"}},
		{"effect":"allow","scope":{"kind":"path","path":"/w","toolNmae":"x"}},
		{"effect":"permit","scope":{"kind":"tool","toolName":"x"}},
		"nonsense",
		{"effect":"deny","scope":{"kind":"path","path":"../other"}}
	]}`
	rules, warnings, err := permission.DecodeRules([]byte(data), session.SourceWorkspaceManifest, root)
	want := []session.Rule{
		{Source: "workspace_manifest", Effect: "allow", Scope: below("/w/src")},
		{Source: "workspace_manifest", Effect: "deny", Scope: below("/other")},
	}
	if err != nil || len(warnings) != 7 || !reflect.DeepEqual(rules, want) {
		t.Errorf("%+v, %q, %v", rules, warnings, err)
	}
}

func TestFile_thatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		``, `{`, `[]`, `{"rules":[]}`, `{"version":2,"rules":[]}`, `{"version":"1","rules":[]}`, `{"version":1,"rules":{}}`, `{"version":1,"rulez":[]}`,
		`{"version":1,"rules":[]} {}`,
	} {
		rules, _, err := permission.DecodeRules([]byte(data), session.SourceWorkspaceManifest, root)
		if !errors.Is(err, session.ErrRule) || rules != nil {
			t.Errorf("%s gave %v, %v", data, rules, err)
		}
	}
}

func TestCache_followsItsKey(t *testing.T) {
	t.Parallel()
	var c permission.Cache
	loads := 0
	get := func(k permission.Key) *permission.Policy {
		p, err := c.Get(k, func() (*permission.Policy, error) { loads++; return permission.Compile(nil, nil), nil })
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	key := permission.Key{Workspace: "a", Version: 1, ManifestHash: permission.Hash([]byte("x"))}
	first := get(key)
	if get(key) != first || loads != 1 {
		t.Errorf("loaded %d times", loads)
	}
	for name, change := range map[string]func(*permission.Key){
		"another version": func(k *permission.Key) { k.Version++ },
		"another file":    func(k *permission.Key) { k.ManifestHash = permission.Hash([]byte("y")) },
		"another place":   func(k *permission.Key) { k.Workspace = "b" },
	} {
		before, other := loads, key
		change(&other)
		if get(other); loads != before+1 {
			t.Errorf("%s: not loaded", name)
		}
	}
	get(key)
	before := loads
	c.Drop("a")
	if get(key); loads != before+1 {
		t.Error("what was dropped was kept")
	}
}

func TestCache_keepsNoFailureAndNothingLoadedBeforeADrop(t *testing.T) {
	t.Parallel()
	var c permission.Cache
	key := permission.Key{Workspace: "a"}
	bad := errors.New("unreadable")
	if _, err := c.Get(key, func() (*permission.Policy, error) { return nil, bad }); !errors.Is(err, bad) {
		t.Errorf("gave %v", err)
	}
	stale := permission.Compile(nil, nil)
	_, _ = c.Get(key, func() (*permission.Policy, error) {
		c.Drop("a") // a rule is written while the rules are read
		return stale, nil
	})
	fresh := permission.Compile(nil, nil)
	got, err := c.Get(key, func() (*permission.Policy, error) { return fresh, nil })
	if err != nil || got != fresh {
		t.Error("rules read before a drop were kept")
	}
}

func TestCache_isSafeForManyAndBounded(t *testing.T) {
	t.Parallel()
	var c permission.Cache
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 500 {
				key := permission.Key{Workspace: fmt.Sprint(i % 100), Version: int64(i)}
				want := fmt.Sprint(key)
				p, err := c.Get(key, func() (*permission.Policy, error) { return permission.Compile(nil, errors.New(want)), nil })
				if err != nil || p.Warnings()[0] != want {
					t.Errorf("asked for %v, got %v, %v", key, p.Warnings(), err)
				}
				if i%7 == 0 {
					c.Drop(key.Workspace)
				}
			}
		})
	}
	all.Wait()
}
