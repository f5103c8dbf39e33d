package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func listsWhatHasNone(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	wantWaiting(t, open[1], maker)
	s := create(t, open[0], withMessage(t, newSession(t, "s"), "tea one"))
	wantWaiting(t, open[1], maker, "tea one")
	s = save(t, open[0], withMessage(t, s, "tea two"))
	s = mustAppend(t, open[0], withMessage(t, s, "tea three"))
	mustRemember(t, open[0], user("ann"), newMemo("likes", `"tea"`))
	wantWaiting(t, open[1], maker, "tea one", "tea two", "tea three", "likes\ntea")

	mustEmbed(t, open[1], maker, store.Embedding{Token: leaseToken(t, open[1], maker, "tea two"), Vector: vectorTo(1, 1)})
	wantWaiting(t, open[0], maker, "tea one", "tea three", "likes\ntea")
	wantWaiting(t, open[0], "another", "tea one", "tea two", "tea three", "likes\ntea")
	embedAll(t, open[0], maker, meaning)
	wantWaiting(t, open[1], maker)
	s = save(t, open[0], withMessage(t, s, "tea four")) // which seals the tail
	wantWaiting(t, open[1], maker, "tea four")
	embedAll(t, open[0], maker, meaning)
	save(t, open[0], withNote(t, s, "nothing to embed"))
	wantWaiting(t, open[1], maker)
	wantWaiting(t, open[1], "another", "tea one", "tea two", "tea three", "tea four", "likes\ntea")
}

func listsNothingGone(t testing.TB, d Data) {
	st := d.Open(t)
	call := session.ToolCall{ID: "c1", Name: "brew", Arguments: []byte(`{}`)}
	s := create(t, st, withChanges(t, withMessage(t, newSession(t, "s"), "tea"),
		session.MessageAdded{Message: session.Message{ID: "call", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{call}}},
		session.MessageAdded{Message: session.Message{ID: "result", Role: session.RoleTool, Trace: true,
			ToolResult: &session.ToolResult{CallID: "c1", ToolName: "brew", Content: "brewed"}}}))
	wantWaiting(t, st, maker, "tea", "brewed")
	gone := mustAppend(t, st, withMessage(t, s, "refused"))
	wantWaiting(t, st, maker, "tea", "brewed", "refused")
	s = discard(t, st, s, s.Seq()+1, gone.Seq())
	wantWaiting(t, st, maker, "tea", "brewed")
	s = save(t, st, withMessage(t, s, "accepted"))
	wantWaiting(t, st, maker, "tea", "brewed", "accepted")
	s = save(t, st, withChanges(t, s, session.TranscriptCleared{}))
	wantWaiting(t, st, maker, "tea", "brewed", "accepted") // they can come back

	for _, value := range []string{`"first"`, `"second"`} {
		mustRemember(t, st, user("ann"), newMemo("k", value))
	}
	wantWaiting(t, st, maker, "tea", "brewed", "accepted", "k\nsecond")
	forget(t, st, user("ann"), "k")
	wantWaiting(t, st, maker, "tea", "brewed", "accepted")
	if err := st.Delete(t.Context(), store.RefOf(s), 0); err != nil {
		t.Fatalf("purge: %v", err)
	}
	wantWaiting(t, st, maker)
}

func listsSharedOnce(t testing.TB, d Data) {
	st := d.Open(t)
	parent := save(t, st, withMessage(t, createOwned(t, st, "parent", "ann"), "shared"))
	child := save(t, st, withMessage(t, createFork(t, st, parent, "child"), "the child's"))
	save(t, st, withMessage(t, parent, "the parent's"))
	createFork(t, st, child, "grandchild")
	wantWaiting(t, st, maker, "shared", "the child's", "the parent's")
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatalf("purge: %v", err)
	}
	wantWaiting(t, st, maker, "shared", "the child's")
	embedAll(t, st, maker, meaning)
	wantWaiting(t, st, maker)
	wantNear(t, st, nearTo(store.Search{Session: "grandchild"}, vectorTo(1, 0, 0, 0)), "grandchild: the child's", "grandchild: shared")
}

func listsInPages(t testing.TB, d Data) {
	st := d.Open(t)
	s := newSession(t, "s")
	for i := range 501 {
		s = withMessage(t, s, fmt.Sprint("message ", i))
	}
	create(t, st, s)
	for limit, want := range map[int]int{0: 500, 1: 1, 7: 7, 1000: 501} {
		if n := len(listUnembedded(t, st, maker, limit)); n != want {
			t.Errorf("%d are listed with a limit of %d, want %d", n, limit, want)
		}
	}
	seen := map[string]bool{}
	for {
		list := listUnembedded(t, st, maker, 100)
		if len(list) == 0 {
			break
		}
		for _, u := range list {
			if seen[u.Text] {
				t.Fatalf("%q is listed again", u.Text)
			}
			seen[u.Text] = true
			mustEmbed(t, st, maker, store.Embedding{Token: u.Token, Vector: vectorTo(1)})
		}
	}
	if len(seen) != 501 {
		t.Errorf("%d were listed in all, want 501", len(seen))
	}
}

// listsBehindTextless has more changes without text than any page before what
// waits, and after it.
func listsBehindTextless(t testing.TB, d Data) {
	st := d.Open(t)
	mute := func(s session.Session, n int) session.Session {
		for i := range n {
			s = withChanges(t, s, session.MessageAdded{Message: session.Message{ID: fmt.Sprint("mute-", s.Seq(), "-", i), Role: session.RoleAssistant,
				ToolCalls: []session.ToolCall{{ID: fmt.Sprint("c", s.Seq(), "-", i), Name: "brew", Arguments: []byte(`{}`)}}}})
		}
		return s
	}
	for _, id := range []string{"a", "b", "c"} {
		create(t, st, mute(newSession(t, id), 300))
	}
	create(t, st, mute(withMessage(t, mute(newSession(t, "d"), 600), "tea"), 600))
	for _, limit := range []int{1, 10, 0} {
		if list := listUnembedded(t, st, maker, limit); len(list) != 1 || list[0].Text != "tea" {
			t.Errorf("with a limit of %d %v is listed", limit, list)
		}
	}
	embedAll(t, st, maker, meaning)
	wantWaiting(t, st, maker)
}

func nilVector(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withMessage(t, withMessage(t, newSession(t, "s"), "tea"), "cannot be embedded"))
	mustRemember(t, st, user("ann"), newMemo("k", `"cannot either"`))
	embedAll(t, st, maker, func(text string) []float32 {
		if strings.Contains(text, "cannot") {
			return nil
		}
		return meaning(text)
	})
	wantWaiting(t, st, maker)
	wantWaiting(t, st, "another", "tea", "cannot be embedded", "k\ncannot either")
	for _, v := range [][]float32{vectorTo(1, 0, 0, 0), vectorTo(1)} {
		q := nearTo(store.Search{Session: "s", User: "ann"}, v)
		for _, p := range nearest(t, st, q) {
			if p.Text != "tea" {
				t.Errorf("%q is found", p.Text)
			}
		}
	}
	mustRemember(t, st, user("ann"), newMemo("k", `"but this"`)) // another text, another try
	wantWaiting(t, st, maker, "k\nbut this")
}

func embeddedTwice(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withMessage(t, withMessage(t, newSession(t, "s"), "tea"), "milk"))
	mustRemember(t, st, user("ann"), newMemo("k", `"cup"`))
	all := listUnembedded(t, st, maker, 0)
	if len(all) != 3 {
		t.Fatalf("waiting: %v", all)
	}
	var first, second []store.Embedding
	for _, u := range all {
		first = append(first, store.Embedding{Token: u.Token, Vector: vectorTo(1, 0, 0, 0)})
		second = append(second, store.Embedding{Token: u.Token, Vector: meaning(u.Text)})
	}
	mustEmbed(t, st, maker, first...)
	mustEmbed(t, st, maker, first...)
	q := nearTo(store.Search{Session: "s", User: "ann"}, vectorTo(0, 1, 0, 0))
	if n := len(nearest(t, st, q)); n != 3 {
		t.Errorf("%d are found, want 3", n)
	}
	mustEmbed(t, st, maker, append(slices.Clone(second), second...)...)
	q.Least = 0.5
	wantNear(t, st, q, "s: milk")
	mustEmbed(t, st, maker, slices.Concat(first, second)...) // the last one counts
	wantNear(t, st, q, "s: milk")
	mustEmbed(t, st, maker)
	wantWaiting(t, st, maker)
}

// vectorsOfTheGone gives vectors for what went away while they were made.
func vectorsOfTheGone(t testing.TB, d Data) {
	st := d.Open(t)
	purged := create(t, st, withMessage(t, newSessionFrom(t, session.Identity{ID: "purged", UserID: "ann"}), "tea, purged"))
	kept := createOwned(t, st, "kept", "ann")
	refused := mustAppend(t, st, withMessage(t, kept, "tea, refused"))
	mustRemember(t, st, user("ann"), newMemo("forgotten", `"tea"`))
	mustRemember(t, st, agent("ann"), newMemo("all forgotten", `"tea"`))
	var late []store.Embedding
	for _, text := range []string{"tea, purged", "tea, refused", "forgotten\ntea", "all forgotten\ntea"} {
		late = append(late, store.Embedding{Token: leaseToken(t, st, maker, text), Vector: vectorTo(1, 0)})
	}
	if err := st.Delete(t.Context(), store.RefOf(purged), 0); err != nil {
		t.Fatalf("purge: %v", err)
	}
	kept = discard(t, st, kept, kept.Seq()+1, refused.Seq())
	forget(t, st, user("ann"), "forgotten")
	if _, err := ability[store.Memories](t, st).ForgetAll(t.Context(), agent("ann"), false); err != nil {
		t.Fatalf("forget all: %v", err)
	}
	mustEmbed(t, st, maker, late...)
	wantWaiting(t, st, maker)

	// What comes in their place is not what they were made of.
	create(t, st, withMessage(t, newSessionFrom(t, session.Identity{ID: "purged", AgentID: "second", UserID: "ann"}), "new one"))
	save(t, st, withMessage(t, kept, "accepted"))
	mustRemember(t, st, user("ann"), newMemo("forgotten", `"new"`))
	mustRemember(t, st, agent("ann"), newMemo("all forgotten", `"new"`))
	mustEmbed(t, st, maker, late...)
	wantWaiting(t, st, maker, "new one", "accepted", "forgotten\nnew", "all forgotten\nnew")
	q := nearTo(store.Search{User: "ann", Agent: "ann", Cleared: true, Trace: true}, vectorTo(1, 0))
	wantNear(t, st, q)
	embedAll(t, st, maker, func(string) []float32 { return vectorTo(1, 0) })
	wantNear(t, st, q, "kept: accepted", "purged: new one", "all forgotten", "forgotten")
}

func vectorsOfOldVersions(t testing.TB, d Data) {
	st := d.Open(t)
	q := nearTo(store.Search{User: "ann"}, vectorTo(1, 0))
	mustRemember(t, st, user("ann"), newMemo("k", `"first"`))
	first := store.Embedding{Token: leaseToken(t, st, maker, "k\nfirst"), Vector: vectorTo(1, 0)}
	mustEmbed(t, st, maker, first)
	wantNear(t, st, q, "k")
	second := newMemo("k", `{"n":2}`)
	second.At = minute(1)
	mustRemember(t, st, user("ann"), second)
	wantNear(t, st, q) // the first is not the newest any more
	wantWaiting(t, st, maker, "k\n{\"n\":2}")
	mustEmbed(t, st, maker, first)
	wantNear(t, st, q)
	wantWaiting(t, st, maker, "k\n{\"n\":2}")
	embedAll(t, st, maker, func(string) []float32 { return vectorTo(1, 0) })
	p := nearest(t, st, q)
	if len(p) != 1 || p[0].Version != 2 || p[0].Text != `{"n":2}` || !p[0].At.Equal(minute(1)) || p[0].Owner != user("ann") || p[0].Found != 0 || p[0].SessionID != "" {
		t.Errorf("found %+v", p)
	}
	mustEmbed(t, st, maker, store.Embedding{Token: first.Token, Vector: vectorTo(0, 1)})
	q.Least = 0.9
	wantNear(t, st, q, "k")
}

// vectorsGo has passages go away after they were embedded.
func vectorsGo(t testing.TB, d Data) {
	st := d.Open(t)
	s := save(t, st, withMessage(t, createOwned(t, st, "s", "ann"), "sealed"))
	gone := mustAppend(t, st, withMessage(t, s, "refused"))
	save(t, st, withMessage(t, createOwned(t, st, "purged", "ann"), "purged"))
	mustRemember(t, st, user("ann"), newMemo("kept", `"x"`))
	mustRemember(t, st, user("ann"), newMemo("gone", `"x"`))
	mustRemember(t, st, agent("ann"), newMemo("agents", `"x"`))
	embedAll(t, st, maker, func(string) []float32 { return vectorTo(1, 0) })
	q := nearTo(store.Search{User: "ann", Agent: "ann", Cleared: true}, vectorTo(1, 0))
	if n := len(nearest(t, st, q)); n != 6 {
		t.Fatalf("%d are found, want 6", n)
	}
	s = discard(t, st, s, s.Seq()+1, gone.Seq())
	forget(t, st, user("ann"), "gone")
	if _, err := ability[store.Memories](t, st).ForgetAll(t.Context(), agent("ann"), false); err != nil {
		t.Fatalf("forget all: %v", err)
	}
	if err := st.Delete(t.Context(), ref("purged"), 0); err != nil {
		t.Fatalf("purge: %v", err)
	}
	wantNear(t, st, q, "s: sealed", "kept")
	save(t, st, s)
	create(t, st, newSessionFrom(t, session.Identity{ID: "purged", AgentID: "second", UserID: "ann"}))
	mustRemember(t, st, user("ann"), newMemo("gone", `"x"`)) // the same words, and yet another entry
	wantNear(t, st, q, "s: sealed", "kept")
	wantWaiting(t, st, maker, "gone\nx")
	if _, ok := st.(store.Doctors); ok {
		if problems := checkStore(t, st); len(problems) != 0 {
			t.Errorf("the check found %q", problems)
		}
	}
}

// listsOfSession lists what waits of one session, with what it shares.
func listsOfSession(t testing.TB, d Data) {
	st := d.Open(t)
	vectors := ability[store.Vectors](t, st)
	want := func(id string, limit int, texts ...string) {
		t.Helper()
		list, err := vectors.UnembeddedOf(t.Context(), ref(id), maker, limit)
		have := []string{}
		for _, u := range list {
			have = append(have, u.Text)
		}
		if err != nil || !slices.Equal(have, texts) {
			t.Errorf("of %s %q waits, %v, want %q", id, have, err, texts)
		}
	}
	want("parent", 0)
	parent := save(t, st, withMessage(t, createOwned(t, st, "parent", "ann"), "shared"))
	save(t, st, withMessage(t, createOwned(t, st, "other", "ann"), "another's"))
	child := save(t, st, withMessage(t, createFork(t, st, parent, "child"), "the child's"))
	parent = mustAppend(t, st, withMessage(t, parent, "refused"))
	mustRemember(t, st, user("ann"), newMemo("key", `"x"`))
	want("parent", 0, "shared", "refused")
	discard(t, st, load(t, st, ref("parent")), parent.Seq(), parent.Seq())
	want("parent", 0, "shared")
	want("child", 0, "shared", "the child's")
	want("child", 1, "shared")
	for _, text := range []string{"shared", "another's"} {
		mustEmbed(t, st, maker, store.Embedding{Token: leaseToken(t, st, maker, text), Vector: vectorTo(1, 0)})
	}
	want("parent", 0)
	want("child", 0, "the child's")
	want("other", 0)
	list, err := vectors.UnembeddedOf(t.Context(), store.RefOf(child), maker, 0)
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	mustEmbed(t, st, maker, store.Embedding{Token: list[0].Token, Vector: vectorTo(1, 0)})
	wantWaiting(t, st, maker, "key\nx")
}
