package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// wantByNote expects exactly these sessions to be found by the note that
// withNote writes.
func wantByNote(t testing.TB, st store.Store, when, note string, ids ...string) {
	t.Helper()
	have := find(t, st, store.Query{Order: store.IDAsc, IncludeDeleted: true, Metadata: map[string]string{"note": note}})
	if !slices.Equal(have, append([]string{}, ids...)) {
		t.Errorf("%s: found by the note %.20q: %v, want %v", when, note, have, ids)
	}
}

// metadataIsFoundAsItIs: a filter finds what the last version holds, whatever
// made it so.
func metadataIsFoundAsItIs(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, withNote(t, newSession(t, "other"), "other"))
	s := create(t, st, withNote(t, newSession(t, "s"), "born"))
	wantByNote(t, st, "created", "born", "s")
	first := s
	s = save(t, st, withNote(t, s, "changed"))
	wantByNote(t, st, "changed", "born")
	wantByNote(t, st, "changed", "changed", "s")
	save(t, st, withMessage(t, s, "hello"))
	wantByNote(t, st, "nothing changed", "changed", "s")
	s = save(t, st, withChanges(t, load(t, st, ref("s")), session.MetadataRemoved{Key: "note"}))
	wantByNote(t, st, "removed", "changed")
	long := strings.Repeat("long ", 1000)
	s = save(t, st, withNote(t, s, long))
	wantByNote(t, st, "long", long, "s")
	wantByNote(t, st, "long", long+"er")
	wantByNote(t, st, "long", "other", "other")
	s = save(t, st, withChanges(t, s, session.MetadataWritten{Key: "note", Value: []byte("7")}))
	wantByNote(t, st, "a number", "7")
	back, err := s.Rewound(first, start().Add(time.Hour))
	if err != nil {
		t.Fatalf("rewind: %v", err)
	}
	s = save(t, st, back)
	wantByNote(t, st, "rewound", "born", "s")
	save(t, st, withChanges(t, s, session.StatusChanged{Status: session.Deleted}))
	wantByNote(t, st, "marked as deleted", "born", "s")
	if got := find(t, st, store.Query{Metadata: map[string]string{"note": "born"}}); len(got) != 0 {
		t.Errorf("marked as deleted and listed: %v", got)
	}
	if err := st.Delete(t.Context(), ref("s"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	wantByNote(t, st, "deleted", "born")
	create(t, st, withNote(t, newSession(t, "s"), "again"))
	wantByNote(t, st, "created again", "again", "s")
	wantByNote(t, d.Open(t), "opened again", "again", "s")
}

// metadataOfTheTail is found when a version holds it.
func metadataOfTheTail(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, withNote(t, newSession(t, "s"), "before"))
	worked := mustAppend(t, st, withNote(t, s, "tail"))
	wantByNote(t, st, "in the tail", "tail")
	wantByNote(t, st, "in the tail", "before", "s")
	s = discard(t, st, s, s.Seq()+1, worked.Seq())
	s = save(t, st, s)
	wantByNote(t, st, "discarded", "before", "s")
	mustAppend(t, st, withNote(t, s, "sealed"))
	save(t, st, loadTail(t, st, ref("s")))
	wantByNote(t, st, "sealed", "sealed", "s")
	wantByNote(t, st, "sealed", "before")
}

// metadataOfForks: a fork is found by what it has from its parent, and then by
// its own.
func metadataOfForks(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, withNote(t, newSession(t, "parent"), "shared"))
	child := createFork(t, st, s, "child")
	wantByNote(t, st, "forked", "shared", "child", "parent")
	save(t, st, withNote(t, child, "own"))
	wantByNote(t, st, "changed", "shared", "parent")
	wantByNote(t, st, "changed", "own", "child")
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	wantByNote(t, st, "the parent is deleted", "own", "child")
	wantByNote(t, st, "the parent is deleted", "shared")
}

// manyKeys: a session is found by any of its keys, however many there are.
func manyKeys(t testing.TB, d Data) {
	st := d.Open(t)
	var changes []session.Change
	for i := range 300 {
		changes = append(changes, session.MetadataWritten{Key: fmt.Sprint("k", i), Value: quote(t, fmt.Sprint("v", i))})
	}
	s := create(t, st, withNote(t, newSession(t, "s"), "few"))
	s = save(t, st, withChanges(t, s, changes...))
	wantByNote(t, st, "many keys", "few", "s")
	for _, i := range []int{0, 150, 299} {
		if got := find(t, st, store.Query{Metadata: map[string]string{fmt.Sprint("k", i): fmt.Sprint("v", i), "note": "few"}}); len(got) != 1 {
			t.Errorf("found by key %d: %v", i, got)
		}
	}
	changes = nil
	for i := range 300 {
		changes = append(changes, session.MetadataRemoved{Key: fmt.Sprint("k", i)})
	}
	save(t, st, withChanges(t, s, changes...))
	wantByNote(t, st, "few keys again", "few", "s")
	if got := find(t, st, store.Query{Metadata: map[string]string{"k0": "v0"}}); len(got) != 0 {
		t.Errorf("found by a removed key: %v", got)
	}
}
