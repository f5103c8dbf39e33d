package holdfast

import (
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

func openInternal(t *testing.T, c Config) *Runtime {
	t.Helper()
	c.Store = inmem.New(inmem.Config{})
	rt, err := New(c)
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

// Tools are asked for at every step.
func TestAvailableTools_memoryToolsAreMadeOnce(t *testing.T) {
	rt := openInternal(t, Config{})
	def := session.Definition{Name: "a", Memory: &session.MemoryPolicy{Tools: true}}
	allocs := testing.AllocsPerRun(10, func() {
		if set, err := rt.availableTools(t.Context(), def); err != nil || len(set.Names()) != 6 {
			t.Fatalf("%d tools, %v", len(set.Names()), err)
		}
	})
	if allocs > 500 {
		t.Errorf("%v allocations to list six tools", allocs)
	}
}

// Every string of every change is searched for secrets.
func TestRedactText_sortsTheSecretsOnce(t *testing.T) {
	rt := openInternal(t, Config{Secrets: map[string]string{"a": "aaaaaaaa", "b": "aaaaaaaabbbb", "none": ""}})
	if allocs := testing.AllocsPerRun(10, func() { rt.redactText("nothing to hide") }); allocs > 0 {
		t.Errorf("%v allocations to find nothing", allocs)
	}
	if got := rt.redactText("x aaaaaaaabbbb y aaaaaaaa z"); got != "x [secret:b] y [secret:a] z" {
		t.Errorf("redacted to %q", got)
	}
}
