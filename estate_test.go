package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	victim  = "acme"
	private = "the vault code is saffron tea"
)

// trespassers are tenants that a careless runtime would take for the victim.
func trespassers() []string {
	return []string{session.DefaultTenant, "acme-corp", "acm", "ACME", "acme_", "acme-default"}
}

// estate is the victim's: what is there and must stay as it is.
type estate struct {
	t  *testing.T
	h  *house
	rt *holdfast.Runtime

	talk        session.Session // with messages, variables, an inbox and a name
	interrupted session.Session // whose turn was broken off
	parent      session.Session // with a child
	child       session.Info

	answer func(llm.Request) llm.Response // in place of the usual; nil: as usual
}

// openEstate gives the victim its belongings.
func openEstate(t *testing.T, st store.Store) *estate {
	t.Helper()
	e := &estate{t: t}
	var breakOff context.CancelFunc
	model := modelFunc(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		if breakOff != nil {
			breakOff()
			return llm.Response{}, ctx.Err()
		}
		if e.answer != nil {
			return e.answer(r), nil
		}
		if r.Agent == "boss" && len(r.Messages) == 1 {
			return llm.Response{ToolCalls: []session.ToolCall{spawning("cook", private)}}, nil
		}
		return llm.Response{Content: session.Text("noted")}, nil
	})
	e.h, _ = openConcepts(t, func(c *holdfast.Config) {
		c.Store, c.Models = st, llm.Map{"demo": model, "other": scripted.New()}
		c.Definitions = staff{"cook": {Name: "cook"}}
	})
	e.rt = e.h.For(holdfast.Identity{Tenant: victim, UserID: "ann", Actor: "ann"})
	e.talk = e.create(agentDef, "talk-0001", holdfast.WithName("plan"), holdfast.WithExpiry(time.Now().Add(-time.Hour)))
	e.talk = e.do("talk-0001", holdfast.SendMessage{Text: private})
	e.talk = e.do("talk-0001", holdfast.WriteMetadata{Key: "team", Value: "red"})
	m := e.memory("talk-0001")
	for _, scope := range memory.Scopes() {
		keep(t, m, scope, "vault/code", private)
	}
	if _, err := e.rt.Post(t.Context(), "talk-0001", store.Item{ID: "item", Kind: store.ItemFollowUp, Payload: session.Values{"message": []byte(`{"content":"later"}`)}}); err != nil {
		t.Fatal(err)
	}
	e.interrupted = e.create(agentDef, "broken-0001")
	ctx, cancel := context.WithCancel(t.Context())
	breakOff = cancel
	if _, err := e.rt.Execute(ctx, "broken-0001", holdfast.SendMessage{Text: private}); !errors.Is(err, session.ErrInterrupted) {
		t.Fatalf("not interrupted: %v", err)
	}
	breakOff = nil
	e.parent = e.create(boss(), "boss-0001")
	e.parent = e.do("boss-0001", holdfast.SendMessage{Text: "have it noted"})
	page, err := e.rt.List(t.Context(), store.Query{ParentID: "boss-0001"})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("children %v, %v", page.Items, err)
	}
	e.child = page.Items[0]
	if _, err := e.h.Embed(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *estate) create(def session.Definition, id string, opts ...holdfast.Option) session.Session {
	e.t.Helper()
	s, err := e.rt.Create(e.t.Context(), def, append(opts, holdfast.WithID(id))...)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

func (e *estate) do(id string, a holdfast.Action) session.Session {
	e.t.Helper()
	s, err := e.rt.Execute(e.t.Context(), id, a)
	if err != nil {
		e.t.Fatal(err)
	}
	return s
}

func (e *estate) memory(id string) memory.Handle {
	e.t.Helper()
	m, err := e.rt.Memory(e.t.Context(), id)
	if err != nil {
		e.t.Fatal(err)
	}
	return m
}

func (e *estate) ids() []string {
	return []string{e.talk.ID(), e.interrupted.ID(), e.parent.ID(), e.child.ID}
}

// inventory is everything the victim has, as text.
func (e *estate) inventory() map[string]string {
	e.t.Helper()
	all := map[string]string{}
	put := func(key string, value any, err error) {
		raw, jsonErr := json.Marshal(value)
		if err != nil || jsonErr != nil {
			e.t.Fatalf("%s: %v, %v", key, err, jsonErr)
		}
		all[key] = string(raw)
	}
	ctx := e.t.Context()
	for _, id := range e.ids() {
		ref := store.Ref{Tenant: victim, ID: id}
		s, err := e.h.store.Load(ctx, ref, true)
		put(id, s, err)
		items, err := e.h.store.(store.Inboxes).Inbox(ctx, ref)
		put(id+" inbox", items, err)
		log, err := e.h.store.(store.Logs).Log(ctx, ref, 0, 0)
		put(id+" log", log, err)
		_, live, err := e.h.store.(store.Leases).Holding(ctx, ref)
		put(id+" lease", live, err)
	}
	page, err := e.rt.List(ctx, store.Query{IncludeDeleted: true, Kinds: session.Kinds()})
	put("sessions", page, err)
	m := e.memory(e.talk.ID())
	for _, scope := range memory.Scopes() {
		keys, err := m.Keys(ctx, scope, "", memory.KeyPage{})
		put("keys of "+string(scope), keys, err)
	}
	for _, mode := range []memory.Mode{memory.Keyword, memory.Semantic} {
		zero := 0.0
		hits, err := m.Recall(ctx, "saffron drink", memory.RecallOptions{Scopes: memory.Scopes(), Mode: mode, Threshold: &zero, Limit: 100})
		put("recall by "+string(mode), hits, err)
	}
	return all
}

// untouched fails where the victim's belongings are not what they were.
func (e *estate) untouched(before map[string]string) {
	e.t.Helper()
	after := e.inventory()
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if after[key] != before[key] {
			e.t.Errorf("%s changed\n got %s\nwant %s", key, after[key], before[key])
		}
	}
}
