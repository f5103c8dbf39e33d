package storetest

import (
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// transcriptsAreForgotten takes a user's transcripts out of search: indexed and
// unindexed messages, embedded and waiting ones, of forks and of an open tail.
// Neither a later message nor a rebuilt index brings them back.
func transcriptsAreForgotten(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	st, memories := open[0], ability[store.Memories](t, open[0])
	parent := save(t, st, withMessage(t, createOwned(t, st, "parent", "ann"), "tea, shared"))
	child := save(t, st, withMessage(t, createFork(t, st, parent, "child"), "tea of the child"))
	gone := save(t, st, withMessage(t, createOwned(t, st, "gone", "ann"), "tea that went"))
	save(t, st, withChanges(t, gone, session.StatusChanged{Status: session.Deleted}))
	save(t, st, withMessage(t, createOwned(t, st, "bobs", "bob"), "tea of bob"))
	mustRemember(t, st, user("ann"), newMemo("likes", `"tea"`))
	embedAll(t, st, maker, meaning)
	parent = mustAppend(t, st, withMessage(t, parent, "tea in the open tail"))
	late := store.Embedding{Token: leaseToken(t, st, maker, "tea in the open tail"), Vector: meaning("tea")}

	all := store.Search{Words: store.Words("tea"), User: "ann", Cleared: true, Trace: true}
	before := []string{"child: tea of the child", "child: tea, shared", "likes", "parent: tea in the open tail"}
	wantPassages(t, st, all, before...)
	forgetTranscripts := func(tenant, user string, dry bool, want int) {
		t.Helper()
		if n, err := memories.ForgetTranscripts(t.Context(), tenant, user, dry); n != want || err != nil {
			t.Fatalf("forget the transcripts of %q in %q, dry %t: %d, %v, want %d", user, tenant, dry, n, err, want)
		}
	}
	forgetTranscripts(session.DefaultTenant, "ann", true, 3)
	forgetTranscripts("other", "ann", false, 0)
	forgetTranscripts(session.DefaultTenant, "an", false, 0)
	wantPassages(t, st, all, before...)
	forgetTranscripts(session.DefaultTenant, "ann", false, 3)
	mustEmbed(t, st, maker, late)

	check := func(want ...string) {
		t.Helper()
		for _, st := range open {
			wantPassages(t, st, all, want...)
			near := nearTo(all, meaning("tea"))
			near.Words = nil
			if have := nearest(t, st, near); len(have) != len(want) {
				t.Errorf("by meaning %d passages are found, want %d: %+v", len(have), len(want), have)
			}
			wantFound(t, st, searchIn("parent", "tea"))
			wantWaiting(t, st, maker)
		}
	}
	check("likes")
	save(t, st, withMessage(t, child, "tea, said later"))
	parent = save(t, st, parent)
	createFork(t, st, parent, "forked")
	embedAll(t, st, maker, meaning)
	check("child: tea, said later", "likes")
	if _, ok := st.(store.Doctors); ok {
		if problems := checkStore(t, st); len(problems) != 0 {
			t.Errorf("the check found %q", problems)
		}
		reindex(t, st)
		repairStore(t, st)
		check("child: tea, said later", "likes")
	}
	embedAll(t, st, "test/second", func(text string) []float32 {
		if text != "tea of bob" && text != "tea, said later" && text != "likes\ntea" {
			t.Errorf("a second embedder is given %q", text)
		}
		return meaning(text)
	})
	everywhere := store.Search{Words: store.Words("tea"), Everywhere: true}
	wantPassages(t, st, everywhere, "bobs: tea of bob", "child: tea, said later")
	if s := loadWhole(t, st, ref("parent"), 0); len(s.Messages()) != 2 {
		t.Errorf("the transcript has %d messages, want 2", len(s.Messages()))
	}

	// What is purged takes its marks with it.
	for _, id := range []string{"parent", "child", "gone", "forked"} {
		if err := st.Delete(t.Context(), ref(id), 0); err != nil {
			t.Fatalf("purge %s: %v", id, err)
		}
	}
	create(t, st, withMessage(t, newSessionFrom(t, session.Identity{ID: "parent", AgentID: "second", UserID: "ann"}), "tea once more"))
	wantPassages(t, st, all, "likes", "parent: tea once more")
}
