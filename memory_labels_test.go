package holdfast_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// labelled opens a runtime whose clock goes forward by hand, with the memory of a
// session of ann's.
func labelled(t *testing.T) (h *house, m memory.Handle, forward func(time.Duration)) {
	t.Helper()
	var ahead atomic.Int64
	start := time.Now()
	h = open(t, func(c *holdfast.Config) {
		c.Now = func() time.Time { return start.Add(time.Duration(ahead.Load())) }
	})
	s, err := h.For(holdfast.Identity{UserID: "ann", Actor: "ann"}).Create(t.Context(), agentDef)
	if err != nil {
		t.Fatal(err)
	}
	m = h.memory(s.ID())
	return h, m, func(d time.Duration) { ahead.Add(int64(d)) }
}

func keysIn(t *testing.T, m memory.Handle, scope memory.Scope, f memory.Filter) []string {
	t.Helper()
	entries, err := m.Keys(t.Context(), scope, "", memory.KeyPage{Filter: f, Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{}
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

func TestMemory_labelsFilterAndExpire(t *testing.T) {
	t.Parallel()
	for _, scope := range append(memory.Scopes(), memory.ScopeSpace("wiki")) {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			h, m, forward := labelled(t)
			store := func(key, text string, opts ...memory.Option) memory.Entry {
				t.Helper()
				e, err := m.Store(t.Context(), scope, key, text, opts...)
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			store("plain", "green tea in a pot")
			hot := store("tagged", "green tea in a cup", memory.Tags("hot", "cup"), memory.Metadata(map[string]string{"from": "ann"}))
			if !slices.Equal(hot.Labels.Tags, []string{"cup", "hot"}) || hot.Labels.Metadata["from"] != "ann" {
				t.Errorf("labels %+v", hot.Labels)
			}
			forward(time.Minute)
			later := hot.UpdatedAt.Add(time.Second)
			store("short", "green tea for an hour", memory.Tags("hot"), memory.TTL(time.Hour))
			for _, c := range []struct {
				filter memory.Filter
				want   []string
			}{
				{memory.Filter{}, []string{"plain", "short"}}, // the page has two
				{memory.Filter{Tags: []string{"hot"}}, []string{"short", "tagged"}},
				{memory.Filter{Tags: []string{"hot", "cup"}}, []string{"tagged"}},
				{memory.Filter{Tags: []string{"cold"}}, []string{}},
				{memory.Filter{Metadata: map[string]string{"from": "ann"}}, []string{"tagged"}},
				{memory.Filter{Metadata: map[string]string{"from": "bob"}}, []string{}},
				{memory.Filter{After: later}, []string{"short"}},
				{memory.Filter{Before: later}, []string{"plain", "tagged"}},
			} {
				if have := keysIn(t, m, scope, c.filter); !slices.Equal(have, c.want) {
					t.Errorf("keys with %+v: %q, want %q", c.filter, have, c.want)
				}
				hits, err := m.Recall(t.Context(), "green tea", memory.RecallOptions{Scopes: []memory.Scope{scope}, Filter: c.filter})
				if err != nil {
					t.Fatal(err)
				}
				var found []string
				for _, hit := range hits {
					found = append(found, hit.Key)
					if hit.Scope != scope {
						t.Errorf("found in scope %s", hit.Scope)
					}
				}
				if slices.Sort(found); len(c.want) < 2 && !slices.Equal(found, c.want) && len(found)+len(c.want) > 0 {
					t.Errorf("recalled with %+v: %q, want %q", c.filter, found, c.want)
				}
			}

			forward(time.Hour)
			if e, found, err := m.Get(t.Context(), scope, "short"); found || err != nil {
				t.Errorf("an expired value is %+v, %v", e, err)
			}
			if have := keysIn(t, m, scope, memory.Filter{Tags: []string{"hot"}}); !slices.Equal(have, []string{"tagged"}) {
				t.Errorf("listed after expiry: %q", have)
			}
			if texts := recall(t, m, "green tea", scope); slices.Contains(texts, "green tea for an hour") || len(texts) != 2 {
				t.Errorf("recalled after expiry: %q", texts)
			}
			if gone, err := m.Delete(t.Context(), scope, "short"); gone || err != nil {
				t.Errorf("deleting what has expired: %t, %v", gone, err)
			}
			store("again", "x", memory.TTL(time.Hour))
			forward(2 * time.Hour)
			again := store("again", "y", memory.IfVersion(0))
			if again.Version != 2 && again.Version != 3 || again.Labels != nil || !again.CreatedAt.Equal(again.UpdatedAt) {
				t.Errorf("written after expiry: %+v", again)
			}
			if e, found, err := m.Get(t.Context(), scope, "again", memory.At(1)); found || err != nil {
				t.Errorf("the expired version is readable: %+v, %v", e, err)
			}
			h.refusesLabels(m, scope)
		})
	}
}

func (h *house) refusesLabels(m memory.Handle, scope memory.Scope) {
	h.t.Helper()
	for name, opts := range map[string][]memory.Option{
		"no time": {memory.TTL(0)}, "an empty tag": {memory.Tags("")}, "a control character": {memory.Metadata(map[string]string{"a\n": "b"})},
	} {
		if _, err := m.Store(h.t.Context(), scope, "k", 1, opts...); !errors.Is(err, session.ErrInvalid) {
			h.t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := m.Store(h.t.Context(), scope, "blocks/plan", "x", memory.Tags("t")); !errors.Is(err, session.ErrInvalid) {
		h.t.Errorf("labels of a block: %v", err)
	}
	if _, err := m.Keys(h.t.Context(), scope, "", memory.KeyPage{Filter: memory.Filter{After: time.Now(), Before: time.Now().Add(-time.Hour)}}); !errors.Is(err, session.ErrInvalid) {
		h.t.Errorf("bounds the wrong way round: %v", err)
	}
}

func TestSweep_removesExpiredEntries(t *testing.T) {
	t.Parallel()
	h, m, forward := labelled(t)
	for _, scope := range []memory.Scope{memory.ScopeUser, memory.ScopeAgent, memory.ScopeSpace("wiki")} {
		if _, err := m.Store(t.Context(), scope, "short", 1, memory.TTL(time.Hour)); err != nil {
			t.Fatal(err)
		}
		keep(t, m, scope, "stays", 1)
	}
	forward(2 * time.Hour)
	if _, err := h.Sweep(t.Context(), holdfast.Retention{Expired: true, DryRun: true}); err != nil {
		t.Fatal(err)
	}
	memories := h.store.(store.Memories)
	owner := store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeSpace, Name: "wiki"}
	if _, there, err := memories.Entry(t.Context(), owner, "short", 0); !there || err != nil {
		t.Errorf("a dry run removed it: %v", err)
	}
	if _, err := h.Sweep(t.Context(), holdfast.Retention{Expired: true}); err != nil {
		t.Fatal(err)
	}
	if left, err := memories.Expired(t.Context(), session.DefaultTenant, time.Now().Add(24*time.Hour), 0); len(left) != 0 || err != nil {
		t.Errorf("left: %+v, %v", left, err)
	}
	if _, there, err := memories.Entry(t.Context(), owner, "stays", 0); !there || err != nil {
		t.Errorf("what does not expire is gone: %v", err)
	}
	if n, err := h.Forget(t.Context(), memory.Forgetting{Scope: "space", Owner: "wiki"}); n.Entries != 1 || err != nil {
		t.Errorf("forgot %+v of a space, %v", n, err)
	}
}

func TestMemoryTools_tagsTimeAndSpaces(t *testing.T) {
	t.Parallel()
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneAll, Tools: true, Scopes: []string{"session", "space:wiki"}}
	var replies []scripted.Reply
	steps := []struct{ name, arguments, want, not string }{
		{"memory_store", `{"key":"tea","value":"green","scope":"space:wiki","tags":["hot"],"hours":1.5}`, `"version":1`, ""},
		{"memory_store", `{"key":"ice","value":"lemon","scope":"space:wiki","tags":["cold"]}`, `"version":1`, ""},
		{"memory_store", `{"key":"tea","value":"green","scope":"space:other"}`, "not allowed", ""},
		{"memory_list", `{"scope":"space:wiki","tags":["hot"]}`, `"key":"tea"`, "ice"},
		{"memory_recall", `{"query":"lemon green","scope":"all","tags":["cold"],"threshold":0.1}`, "lemon", "key tea"},
	}
	for i, step := range steps {
		replies = append(replies, scripted.Reply{ToolCalls: []session.ToolCall{
			{ID: fmt.Sprint("c", i), Name: step.name, Arguments: json.RawMessage(step.arguments)},
		}}, scripted.Reply{Text: "ok"})
	}
	h := open(t, func(c *holdfast.Config) { script(c, replies...) })
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		got := asked(t, h, s).Content
		if !strings.Contains(got, step.want) || step.not != "" && strings.Contains(got, step.not) {
			t.Errorf("%s %s: %q, want %q", step.name, step.arguments, got, step.want)
		}
	}
	e, found, err := h.memory(h.create().ID()).Get(t.Context(), memory.ScopeSpace("wiki"), "tea")
	if err != nil || !found || e.Labels.ExpiresAt == nil || e.Labels.ExpiresAt.Sub(e.UpdatedAt).Round(time.Second) != 90*time.Minute {
		t.Errorf("in the space: %+v, %t, %v", e, found, err)
	}
}
