package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// The suite of this file has one tenant with everything a session can have and
// tries, from others with names that look alike, whatever a runtime can do.

// attempts are what somebody may try with an id. Each returns the error of the
// attempt, and something else than nil for what it got to see.
func attempts(t *testing.T, rt *holdfast.Runtime, id string) map[string]error {
	t.Helper()
	ctx := t.Context()
	tried := map[string]error{}
	note := func(name string, seen any, err error) {
		if v := reflect.ValueOf(seen); seen != nil && !v.IsZero() {
			t.Errorf("%s on %s shows %+v", name, id, seen)
		}
		tried[name] = err
	}
	for _, opts := range [][]holdfast.Option{nil, {holdfast.At(1)}, {holdfast.Whole()}, {holdfast.WithTail()}} {
		s, err := rt.Get(ctx, id, opts...)
		note(fmt.Sprint("Get ", len(tried)), s, err)
	}
	info, err := rt.Info(ctx, id)
	note("Info", info, err)
	for _, a := range []holdfast.Action{
		holdfast.SendMessage{Text: "hi"}, holdfast.ContinueExecution{}, holdfast.AbandonExecution{}, holdfast.ClearSession{}, holdfast.RewindSession{To: 1},
		holdfast.ChangeModel{Model: "other"}, holdfast.ChangeSystemPrompt{Text: "x"}, holdfast.ChangePermissionMode{Mode: session.PermissionPlan}, holdfast.PruneSession{Strategy: session.PruneSliding}, holdfast.WidenWindow{},
		holdfast.StoreVariable{Key: "vault/code", Value: 1}, holdfast.DeleteVariable{Key: "vault/code"}, holdfast.WriteMetadata{Key: "team", Value: 1},
		holdfast.RemoveMetadata{Key: "team"}, holdfast.RenameSession{To: "mine"}, holdfast.SetExpiry{}, holdfast.SuspendSession{}, holdfast.ResumeSession{},
		holdfast.CompleteSession{}, holdfast.FailSession{}, holdfast.DeleteSession{}, holdfast.RestoreSession{}, holdfast.UpdateTask{},
		custom{name: "Custom", run: func(_ context.Context, s session.Session) (session.Session, error) {
			t.Errorf("an action runs on %s", s.ID())
			return s, nil
		}},
	} {
		s, err := rt.Execute(ctx, id, a)
		note(a.Name(), s, err)
	}
	for name, busy := range map[string]holdfast.Busy{"enqueue": holdfast.Enqueue, "interrupt": holdfast.Interrupt, "reject": holdfast.Reject} {
		s, err := rt.Execute(ctx, id, holdfast.SendMessage{Text: "hi"}, holdfast.OnBusy(busy), holdfast.IdempotencyKey("k"))
		note(name, s, err)
	}
	fork, err := rt.Fork(ctx, id, holdfast.At(1))
	note("Fork", fork, err)
	for entry, err := range rt.Log(ctx, id, 0) {
		note("Log", entry, err)
	}
	for entry, err := range rt.Watch(ctx, id, 0) {
		note("Watch", entry, err)
		break
	}
	for update, err := range rt.Follow(ctx, id, 0) {
		note("Follow", update, err)
		break
	}
	commits, err := rt.Commits(ctx, id, 0)
	note("Commits", commits, err)
	diff, err := rt.Diff(ctx, id, 1, 1)
	note("Diff", diff, err)
	m, err := rt.Memory(ctx, id)
	note("Memory", m, err)
	_, err = rt.Post(ctx, id, store.Item{ID: "theirs", Kind: store.ItemFollowUp, Payload: session.Values{"message": []byte(`{"content":"x"}`)}})
	note("Post", nil, err)
	note("Cancel", nil, rt.Cancel(ctx, id))
	note("Purge", nil, rt.Purge(ctx, id, holdfast.Cascade()))
	note("Hold", nil, rt.Hold(ctx, id, func(context.Context, *holdfast.Hold) error {
		t.Errorf("%s is held", id)
		return nil
	}))
	request, err := rt.DecodeRequest(fmt.Appendf(nil, `{"requestId":%q,"sessionId":%q,"payload":{"text":"x"}}`, requestOne, id))
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.Submit(ctx, request)
	note("Submit", s, err)
	for name, ref := range map[string]string{"Resolve": id, "Resolve by its beginning": id[:len(id)-1]} {
		found, err := rt.Resolve(ctx, ref)
		note(name, found, err)
	}
	return tried
}

// Whatever is tried on a session of another tenant ends as on one that does
// not exist, word for word.
func TestTenants_foreignSessionsAreLikeMissingOnes(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		e := openEstate(t, st)
		before := e.inventory()
		for _, tenant := range trespassers() {
			rt := e.h.For(holdfast.Identity{Tenant: tenant, UserID: "ann", Actor: "eve"})
			for _, id := range e.ids() {
				missing := "x" + id[1:]
				nowhere := attempts(t, rt, missing)
				for name, err := range attempts(t, rt, id) {
					if !errors.Is(err, session.ErrNotFound) || strings.ReplaceAll(err.Error(), id[:len(id)-1], missing[:len(id)-1]) != fmt.Sprint(nowhere[name]) {
						t.Errorf("%s: %s on %s: %v; on a missing one: %v", tenant, name, id, err, nowhere[name])
					}
				}
			}
		}
		e.untouched(before)
	})
}

// Nothing that works on many sessions at once reaches those of another tenant.
func TestTenants_sweepingCallsStayAtHome(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		e := openEstate(t, st)
		first, err := e.rt.List(t.Context(), store.Query{Limit: 1})
		if err != nil || first.Next == "" {
			t.Fatalf("%+v, %v", first, err)
		}
		before := e.inventory()
		for _, tenant := range trespassers() {
			rt := e.h.For(holdfast.Identity{Tenant: tenant, UserID: "ann", Actor: "eve"})
			for name, q := range map[string]store.Query{
				"all": {IncludeDeleted: true, Kinds: session.Kinds()}, "name": {Name: "plan"}, "user": {UserID: "ann"}, "agent": {Agent: "tester"},
				"parent": {ParentID: e.parent.ID()}, "prefix": {IDPrefix: "talk"}, "metadata": {Metadata: map[string]string{"team": "red"}}, "cursor": {Cursor: first.Next},
				"origin": {Origin: session.OriginSubagent},
			} {
				if page, err := rt.List(t.Context(), q); err != nil || len(page.Items)+len(page.Corrupt) != 0 || page.Next != "" {
					t.Errorf("%s lists by %s: %+v, %v", tenant, name, page, err)
				}
			}
			if done, err := rt.Recover(t.Context()); err != nil || len(done) != 0 {
				t.Errorf("%s recovers %+v, %v", tenant, done, err)
			}
			for _, idle := range []time.Duration{0, time.Nanosecond} {
				for _, r := range []holdfast.Retention{{DryRun: true}, {Purge: true}, {}} {
					r.IdleFor, r.Expired = idle, idle == 0
					if swept, err := rt.Sweep(t.Context(), r); err != nil || len(swept) != 0 {
						t.Errorf("%s sweeps %v, %v", tenant, swept, err)
					}
				}
			}
			for _, scope := range []memory.Scope{memory.ScopeUser, memory.ScopeAgent} {
				for _, owner := range []string{"ann", "tester", "%", "*", victim + "/ann"} {
					if n, err := rt.Forget(t.Context(), memory.Forgetting{Scope: scope, Owner: owner, Transcripts: scope == memory.ScopeUser}); n != (memory.Forgotten{}) || err != nil && !errors.Is(err, session.ErrInvalid) {
						t.Errorf("%s forgets %+v of %s %s, %v", tenant, n, scope, owner, err)
					}
				}
			}
			if _, err := rt.Resolve(t.Context(), "plan"); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("%s resolves a name: %v", tenant, err)
			}
		}
		e.untouched(before)
	})
}

// A twin has the same session ids, user, agent and keys, and sees only itself:
// through the handle, the agent's tools, what is recalled for it, subagents.
func TestTenants_twinsShareNoMemory(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, st store.Store) {
		e := openEstate(t, st)
		before := e.inventory()
		for _, tenant := range trespassers() {
			rt := e.h.For(holdfast.Identity{Tenant: tenant, UserID: "ann", Actor: "eve"})
			def := agentDef
			def.Memory = &session.MemoryPolicy{
				Strategy: session.PruneAll, Tools: true, Scopes: []string{"session", "user", "agent"},
				Recall: &session.Recall{Limit: 10, Threshold: new(float64), Scopes: []string{"session", "user", "agent"}},
			}
			twin, err := rt.Create(t.Context(), def, holdfast.WithID("talk-0001"), holdfast.WithName("plan"))
			if err != nil || twin.AgentID() == e.talk.AgentID() {
				t.Fatalf("%v", err)
			}
			m, err := rt.Memory(t.Context(), twin.ID())
			if err != nil {
				t.Fatal(err)
			}
			zero := 0.0
			for _, scope := range memory.Scopes() {
				if entry, found, err := m.Get(t.Context(), scope, "vault/code"); found || err != nil {
					t.Errorf("%s gets %+v, %v", tenant, entry, err)
				}
				if keys, err := m.Keys(t.Context(), scope, "", memory.KeyPage{}); err != nil || len(keys) != 0 {
					t.Errorf("%s lists %+v, %v", tenant, keys, err)
				}
				for _, query := range []string{"vault code saffron", "%", "_", "*", `"vault" OR "code"`, "some drink"} {
					for _, mode := range []memory.Mode{memory.Keyword, memory.Semantic, memory.Hybrid} {
						hits, err := m.Recall(t.Context(), query, memory.RecallOptions{
							Scopes: []memory.Scope{scope}, Mode: mode, Threshold: &zero, Limit: 100, IncludeCleared: true, IncludeTrace: true,
						})
						if err != nil || len(hits) != 0 {
							t.Errorf("%s recalls %q by %s: %+v, %v", tenant, query, mode, hits, err)
						}
					}
				}
				if entry := keep(t, m, scope, "vault/code", "mine"); entry.Version != 1 {
					t.Errorf("%s stores version %d", tenant, entry.Version)
				}
				if gone, err := m.Delete(t.Context(), scope, "vault/code"); !gone || err != nil {
					t.Errorf("%s deletes: %t, %v", tenant, gone, err)
				}
			}
			if page, err := m.History(t.Context(), memory.HistoryOptions{IncludeCleared: true, IncludeTrace: true}); err != nil || page.Total != 0 {
				t.Errorf("%s reads %+v, %v", tenant, page, err)
			}
			e.askTwin(rt, twin)
			e.bossTwin(rt)
			if n, err := rt.Forget(t.Context(), memory.Forgetting{Scope: memory.ScopeUser, Owner: "ann"}); err != nil || n.Entries != 0 {
				t.Errorf("%s forgets %+v, %v", tenant, n, err)
			}
			for _, id := range []string{"talk-0001", "boss-0001"} {
				if err := rt.Purge(t.Context(), id, holdfast.Cascade()); err != nil {
					t.Error(err)
				}
			}
		}
		e.untouched(before)
	})
}

// askTwin has the twin's agent ask for everything with its tools.
func (e *estate) askTwin(rt *holdfast.Runtime, twin session.Session) {
	e.t.Helper()
	var calls []session.ToolCall
	for _, scope := range memory.Scopes() {
		for name, arguments := range map[string]string{
			"memory_recall": `{"query":"vault code","threshold":0.1,"limit":100,"scope":%q}`, "memory_get": `{"key":"vault/code","scope":%q}`,
		} {
			calls = append(calls, session.ToolCall{ID: fmt.Sprint(name, scope), Name: name, Arguments: fmt.Appendf(nil, arguments, scope)})
		}
	}
	calls = append(calls, session.ToolCall{ID: "h", Name: "memory_history", Arguments: []byte(`{"limit":100}`)})
	var told []llm.Request
	e.answer = func(r llm.Request) llm.Response {
		told = append(told, r)
		if len(told) == 1 {
			return llm.Response{ToolCalls: calls}
		}
		return llm.Response{Content: session.Text("nothing")}
	}
	defer func() { e.answer = nil }()
	got, err := rt.Execute(e.t.Context(), twin.ID(), holdfast.SendMessage{Text: "what is in the box?"})
	if err != nil {
		e.t.Fatal(err)
	}
	for _, r := range told {
		raw, err := json.Marshal(r)
		if err != nil || strings.Contains(string(raw), "saffron") {
			e.t.Errorf("the twin's model was told %s, %v", raw, err)
		}
	}
	if n := len(got.Execution().Steps[0].ToolExecutions); n != len(calls) {
		e.t.Errorf("%d tools ran", n)
	}
}

// bossTwin has a twin of the parent spawn a twin of the child.
func (e *estate) bossTwin(rt *holdfast.Runtime) {
	e.t.Helper()
	twin, err := rt.Create(e.t.Context(), boss(), holdfast.WithID("boss-0001"))
	if err != nil {
		e.t.Fatal(err)
	}
	if _, err := rt.Execute(e.t.Context(), twin.ID(), holdfast.SendMessage{Text: "go"}); err != nil {
		e.t.Fatal(err)
	}
	page, err := rt.List(e.t.Context(), store.Query{ParentID: twin.ID()})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID == e.child.ID || page.Items[0].Tenant != twin.Tenant() {
		e.t.Errorf("children %+v, %v", page.Items, err)
	}
}
