package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/tool"
)

// said is a session of a user in which one thing was said.
func (h *house) said(user, text string) session.Session {
	h.t.Helper()
	s, err := h.For(holdfast.Identity{UserID: user}).Create(h.t.Context(), agentDef)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.do(s.ID(), holdfast.SendMessage{Text: text})
}

func TestRecall_whoseWordsEachScopeFinds(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		h := open(t, func(c *holdfast.Config) { c.Store = st })
		here := h.said("ann", "green tea here")
		h.said("ann", "green tea elsewhere")
		deleted := h.said("ann", "green tea deleted")
		h.do(deleted.ID(), holdfast.DeleteSession{})
		purged := h.said("ann", "green tea purged")
		if err := h.Purge(t.Context(), purged.ID()); err != nil {
			t.Fatal(err)
		}
		other := h.said("bob", "green tea of bob")
		m := h.memory(here.ID())
		keep(t, m, memory.ScopeUser, "likes", "green tea for ann")
		keep(t, m, memory.ScopeAgent, "menu", "green tea on the menu")
		keep(t, m, memory.ScopeSession, "note", "green tea noted")
		keep(t, h.memory(other.ID()), memory.ScopeUser, "likes", "green tea for bob")
		for _, c := range []struct {
			scopes []memory.Scope
			want   []string
		}{
			{nil, []string{"green tea here", "green tea noted"}},
			{[]memory.Scope{memory.ScopeUser}, []string{"green tea elsewhere", "green tea for ann", "green tea here"}},
			{[]memory.Scope{memory.ScopeAgent}, []string{"green tea on the menu"}},
			{memory.Scopes(), []string{"green tea elsewhere", "green tea for ann", "green tea here", "green tea noted", "green tea on the menu"}},
		} {
			got := recall(t, m, "green tea", c.scopes...)
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("%v finds %q, want %q", c.scopes, got, c.want)
			}
		}
	})
}

func TestRecall_thresholdIsAShareOfTheWords(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	m := h.memory(h.said("", "one two three").ID())
	for threshold, found := range map[float64]bool{0: true, 0.5: true, 0.75: true, 0.76: false, 1: false} {
		hits, err := m.Recall(t.Context(), "ONE two, three four", memory.RecallOptions{Threshold: &threshold})
		if err != nil || (len(hits) == 1) != found || found && hits[0].Score != 0.75 {
			t.Errorf("%v: %+v, %v", threshold, hits, err)
		}
	}
	for _, threshold := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if _, err := m.Recall(t.Context(), "one", memory.RecallOptions{Threshold: &threshold}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%v: %v", threshold, err)
		}
	}
}

func TestCreate_memoryThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	limit := 5
	for name, policy := range map[string]session.MemoryPolicy{
		"recall beyond the scopes":   {Limit: &limit, Recall: &session.Recall{Scopes: []string{"session", "user"}}},
		"recall beyond other scopes": {Limit: &limit, Scopes: []string{"user"}, Recall: &session.Recall{Scopes: []string{"agent"}}},
		"an unknown model":           {Strategy: session.PruneSummary, Limit: &limit, SummaryPrompt: "x", SummaryModel: "nobody"},
		"no limit":                   {Strategy: session.PruneTokens},
		"a limit of nothing":         {Limit: new(int)},
		"an unknown strategy":        {Strategy: "magic", Limit: &limit},
		"a prompt for nothing":       {Limit: &limit, SummaryPrompt: "x"},
	} {
		def := agentDef
		def.Memory = &policy
		if _, err := h.Create(t.Context(), def); !errors.Is(err, session.ErrDefinition) {
			t.Errorf("%s: %v", name, err)
		}
	}
	def := agentDef
	def.Memory = &session.MemoryPolicy{Limit: &limit, Scopes: []string{"session", "user"}, Recall: &session.Recall{Scopes: []string{"user"}}}
	if _, err := h.Create(t.Context(), def); err != nil {
		t.Errorf("what can be: %v", err)
	}
}

// Without a policy nothing is pruned and no tool is offered.
func TestMemory_noPolicyNoMemory(t *testing.T) {
	t.Parallel()
	h := open(t, nil)
	s := h.create()
	for range 30 {
		h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	}
	requests := h.model.Requests()
	if last := requests[len(requests)-1]; len(last.Messages) != 59 || len(last.Tools) != 0 {
		t.Errorf("%d messages and %d tools were sent", len(last.Messages), len(last.Tools))
	}
}

func TestPrune_vectorStoreKeepsWhatItCannotIndex(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		h, embedder := openConcepts(t, func(c *holdfast.Config) { c.Store = st })
		embedder.broken.Store(true)
		s := h.started(remembering(session.PruneVector, 2))
		h.do(s.ID(), holdfast.SendMessage{Text: "the ferry"})
		got := h.do(s.ID(), holdfast.SendMessage{Text: "the dog"})
		if len(got.WindowMessages()) != 4 || !slices.Contains(h.heard.kinds(), "MemoryPruneFailed") {
			t.Errorf("%d messages shown, events %v", len(got.WindowMessages()), h.heard.kinds())
		}
		embedder.broken.Store(false)
		got = h.do(s.ID(), holdfast.SendMessage{Text: "more"})
		if len(got.WindowMessages()) != 2 {
			t.Errorf("%d messages shown when it works again", len(got.WindowMessages()))
		}
		hits, err := h.memory(s.ID()).Recall(t.Context(), "boat", memory.RecallOptions{Mode: memory.Semantic})
		if err != nil || len(hits) != 1 || hits[0].Text != "the ferry" {
			t.Errorf("%+v, %v", hits, err)
		}
	})
}

// What is stored for a user is there at once: a turn that is refused does not
// take it back, and a call that runs again after a crash writes it once.
func TestMemory_userEntriesAreOutsideOfVersions(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		refuse := true
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		note := toolFunc{spec: tool.Spec{Name: "note", Nature: tool.Idempotent}, call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			calls++
			_, err := holdfast.Env(ctx).Memory().Store(ctx, memory.ScopeUser, "key "+c.ID, "value")
			if calls == 2 {
				cancel()
				return tool.Result{}, ctx.Err()
			}
			return tool.Result{Content: "ok"}, err
		}}
		asked := 0
		h := open(t, func(c *holdfast.Config) {
			c.Store, c.Tools = st, toolSet(t, note)
			c.Models = llm.Map{"demo": modelFunc(func(_ context.Context, r llm.Request) (llm.Response, error) {
				if last := r.Messages[len(r.Messages)-1]; last.Role == session.RoleUser {
					asked++
					return llm.Response{ToolCalls: []session.ToolCall{callOf(fmt.Sprint(asked), "note")}}, nil
				}
				return llm.Response{Content: session.Text("done")}, nil
			})}
			c.Hooks = holdfast.HookFunc(func(_ context.Context, stage session.Stage, s session.Session) (session.Session, error) {
				if stage == session.BeforeSave && refuse && s.Version() > 0 {
					return s, errBoom
				}
				return s, nil
			})
		})
		def := remembering(session.PruneAll, 1)
		def.Memory.Scopes = []string{"session", "user"}
		s, err := h.For(holdfast.Identity{UserID: "ann"}).Create(t.Context(), def)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "note it"}); !errors.Is(err, errBoom) {
			t.Fatalf("not refused: %v", err)
		}
		refuse = false
		if e, found, err := h.memory(s.ID()).Get(t.Context(), memory.ScopeUser, "key 1"); !found || err != nil {
			t.Errorf("after the refusal: %+v, %v", e, err)
		}
		if _, err := h.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "note again"}); !errors.Is(err, session.ErrInterrupted) {
			t.Fatalf("not interrupted: %v", err)
		}
		h.do(s.ID(), holdfast.ContinueExecution{})
		if e, _, err := h.memory(s.ID()).Get(t.Context(), memory.ScopeUser, "key 2"); err != nil || e.Version != 1 || calls != 3 {
			t.Errorf("version %d after %d calls, %v", e.Version, calls, err)
		}
		fork, err := h.Fork(t.Context(), s.ID(), holdfast.At(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, found, err := h.memory(fork.ID()).Get(t.Context(), memory.ScopeUser, "key 2"); !found || err != nil {
			t.Errorf("the fork shares it: %t, %v", found, err)
		}
	})
}

// What one parent may not give its child, the child of another may have.
func TestSubagent_scopesAreNarrowedForThisChildAlone(t *testing.T) {
	t.Parallel()
	limit := 100
	scopes := []string{"session", "agent"}
	cook := session.Definition{Name: "cook", Memory: &session.MemoryPolicy{Limit: &limit, Scopes: scopes, Recall: &session.Recall{Scopes: []string{"agent"}}}}
	again := []scripted.Reply{{ToolCalls: []session.ToolCall{spawning("cook", "Go")}}, {Text: "ok"}}
	h, _ := openKitchen(t, nil, cook, map[string][]scripted.Reply{"boss": again, "cook": {{Text: "done"}}})
	for _, policy := range []*session.MemoryPolicy{nil, {Strategy: session.PruneAll, Scopes: scopes}} {
		def := boss()
		def.Memory = policy
		s := h.started(def)
		h.do(s.ID(), holdfast.SendMessage{Text: "go"})
		kids := children(t, h, s.ID())
		if len(kids) != 1 {
			t.Fatalf("%d children", len(kids))
		}
		got := h.stored(kids[0].ID).Definition().Memory
		if policy == nil && (!slices.Equal(got.Scopes, []string{"session"}) || got.Recall != nil) || policy != nil && (!slices.Equal(got.Scopes, scopes) || got.Recall == nil) {
			t.Errorf("of a parent with %+v: %+v", policy, got)
		}
	}
}
