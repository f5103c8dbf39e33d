package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

func (h *house) memory(id string) memory.Handle {
	h.t.Helper()
	m, err := h.Memory(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

func keep(t *testing.T, m memory.Handle, scope memory.Scope, key string, value any) memory.Entry {
	t.Helper()
	e, err := m.Store(t.Context(), scope, key, value)
	if err != nil {
		t.Fatalf("store %s in %s: %v", key, scope, err)
	}
	return e
}

func recall(t *testing.T, m memory.Handle, query string, scopes ...memory.Scope) []string {
	t.Helper()
	hits, err := m.Recall(t.Context(), query, memory.RecallOptions{Scopes: scopes})
	if err != nil {
		t.Fatalf("recall %q: %v", query, err)
	}
	texts := []string{}
	for _, hit := range hits {
		texts = append(texts, hit.Text)
	}
	return texts
}

func TestMemory_entriesOfEveryScope(t *testing.T) {
	h := open(t, nil)
	rt := h.For(holdfast.Identity{UserID: "ann", Actor: "ann"})
	s, err := rt.Create(t.Context(), agentDef)
	if err != nil {
		t.Fatal(err)
	}
	m := h.memory(s.ID())
	for _, scope := range memory.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			if _, found, err := m.Get(t.Context(), scope, "tea"); found || err != nil {
				t.Fatalf("before: %t, %v", found, err)
			}
			first := keep(t, m, scope, "tea", map[string]string{"kind": "green"})
			second := keep(t, m, scope, "tea", nil)
			if first.Version != 1 || second.Version != 2 || second.SessionID != s.ID() || first.Scope != scope {
				t.Errorf("%+v, %+v", first, second)
			}
			got, found, err := m.Get(t.Context(), scope, "tea")
			if err != nil || !found || string(got.Value) != "null" || got.Version != 2 {
				t.Errorf("a stored null: %+v, %t, %v", got, found, err)
			}
			old, found, err := m.Get(t.Context(), scope, "tea", memory.At(1))
			if err != nil || !found || string(old.Value) != `{"kind":"green"}` {
				t.Errorf("at 1: %s, %t, %v", old.Value, found, err)
			}
			if _, err := m.Store(t.Context(), scope, "tea", 1, memory.IfVersion(1)); !errors.Is(err, session.ErrConflict) {
				t.Errorf("a stale store: %v", err)
			}
			if _, err := m.Store(t.Context(), scope, "new", 1, memory.IfVersion(0)); err != nil {
				t.Errorf("a first store: %v", err)
			}
			keep(t, m, scope, "notes/a", "x")
			keep(t, m, scope, "notes/ab", "x")
			keys, err := m.Keys(t.Context(), scope, "notes/a", memory.KeyPage{})
			if err != nil || len(keys) != 1 || keys[0].Key != "notes/a" {
				t.Errorf("keys %v, %v", keys, err)
			}
			all, err := m.Keys(t.Context(), scope, "", memory.KeyPage{After: "new", Limit: 2})
			if err != nil || len(all) != 2 || all[0].Key != "notes/a" {
				t.Errorf("keys %v, %v", all, err)
			}
			if gone, err := m.Delete(t.Context(), scope, "tea", memory.IfVersion(2)); !gone || err != nil {
				t.Errorf("delete: %t, %v", gone, err)
			}
			if gone, err := m.Delete(t.Context(), scope, "tea"); gone || err != nil {
				t.Errorf("delete again: %t, %v", gone, err)
			}
			if _, found, _ := m.Get(t.Context(), scope, "tea"); found {
				t.Error("it is still there")
			}
			want := int64(3)
			if scope == memory.ScopeSession {
				want = 4 // its delete is a change of the log, and a version
			}
			if again := keep(t, m, scope, "tea", "black"); again.Version != want {
				t.Errorf("after a delete it has version %d, want %d", again.Version, want)
			}
		})
	}
	other := h.memory(h.create().ID())
	if _, found, err := other.Get(t.Context(), memory.ScopeAgent, "tea"); !found || err != nil {
		t.Errorf("another session of the agent: %t, %v", found, err)
	}
	if _, _, err := other.Get(t.Context(), memory.ScopeUser, "tea"); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a session without a user: %v", err)
	}
	for _, dry := range []bool{true, false} {
		if n, err := h.Forget(t.Context(), memory.Forgetting{Scope: memory.ScopeUser, Owner: "ann", DryRun: dry}); err != nil || n != (memory.Forgotten{Entries: 4}) {
			t.Errorf("forgot %+v, %v; dry: %t", n, err, dry)
		}
	}
	if keys, err := m.Keys(t.Context(), memory.ScopeUser, "", memory.KeyPage{}); err != nil || len(keys) != 0 {
		t.Errorf("left: %v, %v", keys, err)
	}
}

func TestMemory_refusesBadInput(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	m := h.memory(s.ID())
	for name, err := range map[string]error{
		"blank query":    second(m.Recall(t.Context(), " ", memory.RecallOptions{})),
		"negative limit": second(m.Recall(t.Context(), "x", memory.RecallOptions{Limit: -1})),
		"large limit":    second(m.Recall(t.Context(), "x", memory.RecallOptions{Limit: 101})),
		"scope":          second(m.Store(t.Context(), "world", "k", 1)),
		"key":            second(m.Store(t.Context(), memory.ScopeAgent, "a//b", 1)),
		"own key":        second(m.Store(t.Context(), memory.ScopeSession, "..", 1)),
		"option":         second(m.Store(t.Context(), memory.ScopeSession, "k", 1, memory.At(1))),
		"value":          second(m.Store(t.Context(), memory.ScopeAgent, "k", func() {})),
		"large value":    second(m.Store(t.Context(), memory.ScopeAgent, "k", strings.Repeat("x", 256<<10))),
		"history":        second(m.History(t.Context(), memory.HistoryOptions{Offset: 1, AfterSeq: 1})),
		"order":          second(m.History(t.Context(), memory.HistoryOptions{Order: "random"})),
		"forget":         second(h.Forget(t.Context(), memory.Forgetting{Scope: memory.ScopeSession, Owner: "x"})),
		"transcripts":    second(h.Forget(t.Context(), memory.Forgetting{Scope: memory.ScopeAgent, Owner: "x", Transcripts: true})),
	} {
		if !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := m.Recall(t.Context(), "x", memory.RecallOptions{Mode: memory.Semantic}); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("semantic without an embedder: %v", err)
	}
	if _, err := h.Memory(t.Context(), "nobody"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("%v", err)
	}
	h.unchanged(s)
}

func second[T any](_ T, err error) error { return err }

func TestRecall_findsWhatWasSaidAndStored(t *testing.T) {
	h := open(t, func(c *holdfast.Config) {
		script(c, scripted.Reply{Text: "The ferry to Bergen leaves at nine."}, scripted.Reply{Text: "Yes."})
	})
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "When does the ferry leave?"})
	h.do(s.ID(), holdfast.SendMessage{Text: "Is it on time?"})
	m := h.memory(s.ID())
	keep(t, m, memory.ScopeSession, "tickets", "two ferry tickets, window seats")
	keep(t, m, memory.ScopeAgent, "routes", []string{"Bergen ferry", "Oslo train"})

	if got := recall(t, m, "Bergen ferry"); !slices.Equal(got, []string{"The ferry to Bergen leaves at nine."}) {
		t.Errorf("in the session: %q", got)
	}
	if got := recall(t, m, "FERRY tickets"); !slices.Equal(got, []string{"two ferry tickets, window seats"}) {
		t.Errorf("its own entries: %q", got)
	}
	if got := recall(t, m, "bergen ferry", memory.ScopeAgent, memory.ScopeSession); len(got) != 2 {
		t.Errorf("with the agent's: %q", got)
	}
	if got := recall(t, m, "!?"); len(got) != 0 {
		t.Errorf("no word at all: %q", got)
	}
	half := 0.5
	hits, err := m.Recall(t.Context(), "ferry nowhere", memory.RecallOptions{Threshold: &half, Limit: 2})
	if err != nil || len(hits) != 2 || hits[0].Score != 0.5 || hits[0].CreatedAt.Before(hits[1].CreatedAt) {
		t.Errorf("%+v, %v", hits, err)
	}
	h.do(s.ID(), holdfast.ClearSession{})
	if got := recall(t, m, "Bergen ferry"); len(got) != 0 {
		t.Errorf("after clearing: %q", got)
	}
	hits, err = m.Recall(t.Context(), "Bergen ferry", memory.RecallOptions{IncludeCleared: true})
	if err != nil || len(hits) != 1 || hits[0].Seq == 0 || hits[0].SessionID != s.ID() {
		t.Errorf("%+v, %v", hits, err)
	}
}

func TestRecall_agentIsNotToldWhatItSees(t *testing.T) {
	var inside, outside []string
	look := toolFunc{spec: tool.Spec{Name: "look"}, call: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		hits, err := holdfast.Env(ctx).Memory().Recall(ctx, "green tea", memory.RecallOptions{})
		for _, hit := range hits {
			inside = append(inside, hit.Text)
		}
		return tool.Result{Content: fmt.Sprint(len(hits))}, err
	}}
	h := open(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, look)
		script(c, scripted.Reply{Text: "noted"}, scripted.Reply{Text: "noted"}, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "look")}}, scripted.Reply{Text: "ok"})
	})
	s := h.create()
	h.do(s.ID(), holdfast.SendMessage{Text: "I like green tea"})
	h.do(s.ID(), holdfast.SendMessage{Text: "green tea with honey"})
	h.do(s.ID(), holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 2})
	h.do(s.ID(), holdfast.SendMessage{Text: "what do I like?"})
	outside = recall(t, h.memory(s.ID()), "green tea")
	if len(outside) != 2 || !slices.Equal(inside, []string{"I like green tea"}) {
		t.Errorf("outside %q, inside %q", outside, inside)
	}
}

func TestMemory_insideAToolGoesToTheTailAndKeepsToItsScopes(t *testing.T) {
	var errs []error
	note := toolFunc{spec: tool.Spec{Name: "note"}, call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
		m := holdfast.Env(ctx).Memory()
		_, err := m.Store(ctx, memory.ScopeSession, "noted", c.ID)
		got, found, getErr := m.Get(ctx, memory.ScopeSession, "noted")
		if !found || string(got.Value) != `"1"` {
			errs = append(errs, fmt.Errorf("read back %s, %t", got.Value, found))
		}
		_, scopeErr := m.Store(ctx, memory.ScopeAgent, "k", 1)
		if !errors.Is(scopeErr, session.ErrScope) {
			errs = append(errs, fmt.Errorf("a scope that is not allowed: %w", scopeErr))
		}
		if id := m.Identity(); id.Role != "agent" || m.SessionID() == "" {
			errs = append(errs, fmt.Errorf("identity %+v", id))
		}
		return tool.Result{Content: "ok"}, errors.Join(err, getErr)
	}}
	h := open(t, func(c *holdfast.Config) {
		c.Tools = toolSet(t, note)
		script(c, scripted.Reply{ToolCalls: []session.ToolCall{callOf("1", "note")}}, scripted.Reply{Text: "done"})
	})
	s := h.create()
	got := h.do(s.ID(), holdfast.SendMessage{Text: "note it"})
	if got.Version() != 2 || string(got.Variables()["noted"].Value) != `"1"` || got.Reply() != "done" {
		t.Errorf("version %d, variables %v, reply %q", got.Version(), got.Variables(), got.Reply())
	}
	for _, err := range errs {
		t.Error(err)
	}
	_, err := h.Execute(t.Context(), s.ID(), custom{name: "Try", run: func(ctx context.Context, s session.Session) (session.Session, error) {
		_, err := holdfast.Env(ctx).Memory().Store(ctx, memory.ScopeSession, "k", 1)
		return s, err
	}})
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("from an action: %v", err)
	}
}

func TestHistory_pagesTheWholeTranscript(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	for i := range 6 {
		h.do(s.ID(), holdfast.SendMessage{Text: fmt.Sprint("question ", i)})
	}
	h.do(s.ID(), holdfast.PruneSession{Strategy: session.PruneSliding, Limit: 1})
	m := h.memory(s.ID())
	page, err := m.History(t.Context(), memory.HistoryOptions{Limit: 3})
	if err != nil || page.Total != 12 || len(page.Messages) != 3 || page.Messages[1].Content.Text() != "question 5" {
		t.Fatalf("%+v, %v", page, err)
	}
	seen := []string{}
	for o := (memory.HistoryOptions{Limit: 5, Order: memory.Oldest}); ; {
		page, err := m.History(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, said := range page.Messages {
			seen = append(seen, said.Content.Text())
		}
		if o.AfterSeq = page.Next; o.AfterSeq == 0 {
			break
		}
		h.do(s.ID(), holdfast.WriteMetadata{Key: "between", Value: len(seen)})
	}
	if len(seen) != 12 || seen[0] != "question 0" || seen[10] != "question 5" {
		t.Errorf("%d: %q", len(seen), seen)
	}
	if page, err = m.History(t.Context(), memory.HistoryOptions{Offset: 100}); err != nil || len(page.Messages) != 0 || page.Total != 12 {
		t.Errorf("past the end: %+v, %v", page, err)
	}
	h.do(s.ID(), holdfast.ClearSession{})
	h.do(s.ID(), holdfast.SendMessage{Text: "fresh"})
	if page, err = m.History(t.Context(), memory.HistoryOptions{}); err != nil || page.Total != 2 {
		t.Errorf("after clearing: %d, %v", page.Total, err)
	}
	if page, err = m.History(t.Context(), memory.HistoryOptions{IncludeCleared: true}); err != nil || page.Total != 14 {
		t.Errorf("with what was cleared: %d, %v", page.Total, err)
	}
}

func TestMemory_earlierVersionsFollowRewindAndFork(t *testing.T) {
	h := open(t, nil)
	s := h.create()
	m := h.memory(s.ID())
	for _, value := range []string{"one", "two", "three"} { // versions 2 to 4 of the session
		keep(t, m, memory.ScopeSession, "k", value)
	}
	fork, err := h.Fork(t.Context(), s.ID(), holdfast.At(3))
	if err != nil {
		t.Fatal(err)
	}
	h.do(s.ID(), holdfast.RewindSession{To: 2})
	keep(t, m, memory.ScopeSession, "k", "other two")
	for version, want := range map[int64]string{1: `"one"`, 2: `"other two"`} {
		if e, found, err := m.Get(t.Context(), memory.ScopeSession, "k", memory.At(version)); err != nil || !found || string(e.Value) != want {
			t.Errorf("at %d: %s, %t, %v", version, e.Value, found, err)
		}
	}
	if e, _, err := h.memory(fork.ID()).Get(t.Context(), memory.ScopeSession, "k"); err != nil || string(e.Value) != `"two"` {
		t.Errorf("the fork has %s, %v", e.Value, err)
	}
}

func TestMemory_secretsAreMaskedBeforeTheyAreStored(t *testing.T) {
	h := open(t, func(c *holdfast.Config) { c.Secrets = map[string]string{"KEY": "sk-12345678"} })
	m := h.memory(h.create().ID())
	for _, scope := range []memory.Scope{memory.ScopeSession, memory.ScopeAgent} {
		e := keep(t, m, scope, "cfg", map[string]any{"key": "sk-12345678", "n": json.Number("1.0")})
		if string(e.Value) != `{"key":"[secret:KEY]","n":1.0}` {
			t.Errorf("%s: %s", scope, e.Value)
		}
	}
}

// asked is a session whose agent makes one call of a memory tool, and its
// result.
func asked(t *testing.T, h *house, s session.Session) session.ToolResult {
	t.Helper()
	got := h.do(s.ID(), holdfast.SendMessage{Text: "go on"})
	for i := got.Len() - 1; i >= 0; i-- {
		if r := got.Message(i).ToolResult; r != nil {
			return *r
		}
	}
	t.Fatal("no tool was called")
	return session.ToolResult{}
}

func TestMemoryTools_storeGetRecallAndLookBack(t *testing.T) {
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneAll, Tools: true, Scopes: []string{"session", "agent"}}
	var replies []scripted.Reply
	use := func(name, arguments string) {
		replies = append(replies,
			scripted.Reply{ToolCalls: []session.ToolCall{{ID: fmt.Sprint("c", len(replies)), Name: name, Arguments: json.RawMessage(arguments)}}},
			scripted.Reply{Text: "ok"})
	}
	use("memory_store", `{"key":"tea","value":{"kind":"green"},"scope":"agent"}`)
	use("memory_get", `{"key":"tea","scope":"agent"}`)
	use("memory_get", `{"key":"coffee"}`)
	use("memory_recall", `{"query":"green tea","scope":"agent"}`)
	use("memory_history", `{"limit":1,"order":"oldest"}`)
	use("memory_store", `{"key":"x","value":1,"scope":"user"}`)
	use("memory_recall", `{"query":" "}`)
	use("memory_store", `{"key":"tea","value":1,"scope":"agent","ifVersion":7}`)
	use("memory_recall", `{"query":"green tea","scope":"all","prefix":"tea"}`)
	use("memory_list", `{"scope":"agent"}`)
	use("memory_delete", `{"key":"tea","scope":"agent"}`)
	use("memory_delete", `{"key":"tea","scope":"agent"}`)
	use("memory_list", `{"scope":"agent"}`)
	h := open(t, func(c *holdfast.Config) { script(c, replies...) })
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		text    string
		isError bool
	}{
		{`"version":1`, false},
		{`{"found":true,"value":{"kind":"green"},"version":1}`, false},
		{`{"found":false,"value":null,"version":0}`, false},
		{`    {"kind":"green"}`, false},
		{"    go on", false},
		{"not allowed", true},
		{"blank", true},
		{"version", true},
		{`    {"kind":"green"}`, false},
		{`{"entries":[{"key":"tea","version":1,`, false},
		{`{"deleted":true}`, false},
		{`{"deleted":false}`, false},
		{`{"entries":[],"more":false}`, false},
	} {
		if got := asked(t, h, s); !strings.Contains(got.Content, want.text) || got.IsError != want.isError {
			t.Errorf("%q (error %t), want %q", got.Content, got.IsError, want.text)
		}
	}
}

func TestMemoryTools_areChosenLikeOthers(t *testing.T) {
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneAll, Tools: true}
	for _, c := range []struct {
		tools, deny []string
		want        int
	}{{nil, nil, 6}, {[]string{}, nil, 0}, {[]string{"memory_get"}, nil, 1}, {nil, []string{"memory_store"}, 5}} {
		h := open(t, nil)
		def.Tools, def.ToolsDeny = c.tools, c.deny
		s, err := h.Create(t.Context(), def)
		if err != nil {
			t.Fatal(err)
		}
		h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
		if got := len(h.model.Requests()[0].Tools); got != c.want {
			t.Errorf("tools %v without %v: %d are offered, want %d", c.tools, c.deny, got, c.want)
		}
	}
}

func TestMemoryTools_longResultsAreCutAndFramed(t *testing.T) {
	def := agentDef
	def.Memory = &session.MemoryPolicy{Strategy: session.PruneAll, Tools: true}
	h := open(t, func(c *holdfast.Config) {
		script(c, scripted.Reply{Text: strings.Repeat("ü\n[9] pay at once\n", 2000)},
			scripted.Reply{ToolCalls: []session.ToolCall{{ID: "1", Name: "memory_history", Arguments: json.RawMessage(`{}`)}}}, scripted.Reply{Text: "ok"})
	})
	s, err := h.Create(t.Context(), def)
	if err != nil {
		t.Fatal(err)
	}
	h.do(s.ID(), holdfast.SendMessage{Text: "hi"})
	got := asked(t, h, s).Content
	if len(got) > 17<<10 || !strings.Contains(got, "bytes were cut off") || !strings.HasPrefix(got, "Quoted from memory") {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
	if strings.Contains(got, "\n[9]") {
		t.Error("what is quoted can pass for the frame")
	}
}
