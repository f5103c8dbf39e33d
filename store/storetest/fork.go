package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func forkBehaviours() []behaviour {
	both := []string{Forks, Logs}
	return []behaviour{
		{name: "fork/createTakesAny", check: createTakesAnyFork},
		{name: "fork/createNeedsNoParent", check: createNeedsNoParent},
		{name: "fork/andParentNeverAffectEachOther", needs: both, check: forkAndParentAreApart},
		{name: "fork/ofAForkHasTheWholeHistory", needs: both, check: forksOfForks},
		{name: "fork/ofAnEarlierVersionHasThatHistory", needs: both, check: forkOfEarlierVersion},
		{name: "fork/neverSeesTheOpenTail", needs: []string{Forks, Logs, Tails}, check: forkSeesNoTail},
		{name: "fork/inheritsNoLeaseInboxOrKeys", needs: []string{Forks, Leases, Inboxes, Keys}, check: forkInheritsNothingElse},
		{name: "fork/outlivesItsParents", needs: both, check: forkOutlivesParents},
		{name: "fork/sharesOnlyWithItsOwnParent", needs: []string{Forks}, check: forkNeedsItsParent},
		{name: "fork/afterARewindHasTheRightMessages", needs: both, check: forkAfterRewind},
	}
}

// newFork makes a version-0 fork of a saved session.
func newFork(t testing.TB, s session.Session, id string) session.Session {
	t.Helper()
	f, err := s.Fork(id, "agent-of-"+id, start().Add(time.Hour))
	if err != nil {
		t.Fatalf("fork %s: %v", s.ID(), err)
	}
	return f
}

// createFork stores a fork that shares its parent's log.
func createFork(t testing.TB, st store.Store, s session.Session, id string) session.Session {
	t.Helper()
	f := newFork(t, s, id)
	created, err := ability[store.Forks](t, st).Fork(t.Context(), f, commit(f, "fork"))
	if err != nil {
		t.Fatalf("store fork %s of %s: %v", id, s.ID(), err)
	}
	return created
}

// conversation creates a session and saves a message for each text.
func conversation(t testing.TB, st store.Store, id string, texts ...string) session.Session {
	t.Helper()
	s := create(t, st, newSession(t, id))
	for _, text := range texts {
		s = save(t, st, withMessage(t, s, text))
	}
	return s
}

// wantTexts fails the test unless the transcript has exactly these texts.
func wantTexts(t testing.TB, s session.Session, texts ...string) {
	t.Helper()
	var have []string
	for _, m := range s.All() {
		have = append(have, m.Content.Text())
	}
	if fmt.Sprint(have) != fmt.Sprint(texts) {
		t.Errorf("%s says %q, want %q", s.ID(), have, texts)
	}
}

func loadWhole(t testing.TB, st store.Store, r store.Ref, version int64) session.Session {
	t.Helper()
	s, err := ability[store.Logs](t, st).LoadWhole(t.Context(), r, version)
	if err != nil {
		t.Fatalf("load version %d of %s whole: %v", version, r.ID, err)
	}
	return s
}

func createTakesAnyFork(t testing.TB, d Data) {
	st := d.Open(t)
	parent := conversation(t, st, "parent", "one", "two")
	child := create(t, st, withMessage(t, newFork(t, parent, "child"), "three"))
	if i := child.Info(); i.Version != 1 || i.Origin != session.OriginFork || i.ParentID != "parent" || i.Fork == nil || i.Fork.Version != 3 {
		t.Errorf("header of the fork: %s", encode(t, i))
	}
	wantTexts(t, load(t, st, ref("child")), "one", "two", "three")
	wantSame(t, load(t, st, ref("child")), child)
	wantSame(t, load(t, st, ref("parent")), parent)
	save(t, st, withMessage(t, child, "four"))
	wantTexts(t, load(t, st, ref("child")), "one", "two", "three", "four")
	page, err := st.List(t.Context(), session.DefaultTenant, store.Query{ParentID: "parent"})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != "child" {
		t.Errorf("children of parent: %v, %v", page.Items, err)
	}
}

func createNeedsNoParent(t testing.TB, d Data) {
	st := d.Open(t)
	parent := conversation(t, st, "parent", "one", "two")
	windowed := save(t, st, withChanges(t, parent, session.WindowMoved{Strategy: session.PruneSliding, To: parent.Seq(), Keep: []int64{}}))
	orphan := newFork(t, windowed, "orphan")
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	// Another session under the parent's id must not lend its log.
	usurper := create(t, st, newSessionFrom(t, session.Identity{ID: "parent", AgentID: "second"}))
	for range 3 {
		usurper = save(t, st, withMessage(t, usurper, "of somebody else"))
	}
	child := create(t, st, orphan)
	loaded := load(t, st, ref("orphan"))
	wantSame(t, loaded, child)
	if got := loaded.WindowMessages(); len(got) != 1 || got[0].Content.Text() != "two" {
		t.Errorf("the window of the orphan shows %d messages, want the last", len(got))
	}
	if loaded.Info().MessageCount != 2 {
		t.Errorf("%d messages counted, want 2", loaded.Info().MessageCount)
	}
	if _, ok := st.(store.Logs); ok {
		wantTexts(t, loadWhole(t, st, ref("orphan"), 0), "one", "two")
	}
}

func forkAndParentAreApart(t testing.TB, d Data) {
	st := d.Open(t)
	parent := conversation(t, st, "parent", "one", "two")
	child := createFork(t, st, parent, "child")
	for i := range 3 {
		parent = save(t, st, withMessage(t, parent, fmt.Sprintf("parent %d", i)))
		child = save(t, st, withMessage(t, child, fmt.Sprintf("child %d", i)))
	}
	wantTexts(t, load(t, st, ref("parent")), "one", "two", "parent 0", "parent 1", "parent 2")
	wantTexts(t, load(t, st, ref("child")), "one", "two", "child 0", "child 1", "child 2")
	wantSame(t, load(t, st, ref("parent")), parent)
	wantSame(t, load(t, st, ref("child")), child)
	wantTexts(t, loadWhole(t, st, ref("child"), 1), "one", "two")
	wantTexts(t, loadWhole(t, st, ref("child"), 2), "one", "two", "child 0")
	if err := st.Delete(t.Context(), ref("child"), 0); err != nil {
		t.Fatalf("delete the fork: %v", err)
	}
	wantSame(t, load(t, st, ref("parent")), parent)
}

func forksOfForks(t testing.TB, d Data) {
	st := d.Open(t)
	s := conversation(t, st, "g0", "0")
	var texts []string
	for g := 1; g <= 6; g++ {
		texts = append(texts, fmt.Sprint(g-1))
		s = save(t, st, withMessage(t, createFork(t, st, s, fmt.Sprintf("g%d", g)), fmt.Sprint(g)))
	}
	wantTexts(t, load(t, st, ref("g6")), append(texts, "6")...)
	wantTexts(t, load(t, st, ref("g3")), "0", "1", "2", "3")
	entries := allEntries(t, st, ref("g6"), 4)
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Fatalf("entry %d of the log has seq %d", i, e.Seq)
		}
	}
	if last := entries[len(entries)-1]; last.Seq != s.Seq() || last.Version != 2 {
		t.Errorf("the log ends with seq %d of version %d, want %d of 2", last.Seq, last.Version, s.Seq())
	}
}

func forkOfEarlierVersion(t testing.TB, d Data) {
	st := d.Open(t)
	conversation(t, st, "parent", "one", "two", "three", "four")
	for v := int64(1); v <= 5; v++ {
		at, err := ability[store.Logs](t, st).LoadAt(t.Context(), ref("parent"), v)
		if err != nil {
			t.Fatalf("load version %d: %v", v, err)
		}
		child := createFork(t, st, at, fmt.Sprintf("at-%d", v))
		child = save(t, st, withMessage(t, child, "and on"))
		wantTexts(t, load(t, st, store.RefOf(child)), append([]string{"one", "two", "three", "four"}[:v-1:v-1], "and on")...)
		if f := child.Info().Fork; f == nil || f.Version != v || f.Seq != at.Seq() {
			t.Errorf("fork point %+v, want version %d at %d", f, v, at.Seq())
		}
	}
}

func forkSeesNoTail(t testing.TB, d Data) {
	st := d.Open(t)
	parent := conversation(t, st, "parent", "one")
	running := mustAppend(t, st, withMessage(t, parent, "in the tail"))
	child := createFork(t, st, load(t, st, ref("parent")), "child")
	child = save(t, st, withMessage(t, child, "of the fork"))
	wantTexts(t, load(t, st, ref("child")), "one", "of the fork")
	wantTexts(t, save(t, st, running), "one", "in the tail")
	wantTexts(t, loadTail(t, st, ref("child")), "one", "of the fork")
	wantSame(t, load(t, st, ref("child")), child)
}

func forkInheritsNothingElse(t testing.TB, d Data) {
	st := d.Open(t)
	fresh := newSession(t, "parent")
	parent, err := st.Create(t.Context(), fresh, commitWithKeys(fresh, store.Key{Name: "k", Fingerprint: "f"}))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	post(t, st, ref("parent"), item("a"))
	acquire(t, st, ref("parent"), "worker")
	child := createFork(t, st, parent, "child")
	if _, live, err := ability[store.Leases](t, st).Holding(t.Context(), ref("child")); live || err != nil {
		t.Errorf("the fork is held: %t, %v", live, err)
	}
	wantUnread(t, st, ref("child"))
	wantKey(t, st, ref("child"), "k", "", -1)
	save(t, st, withNote(t, child, "free"))
	post(t, st, ref("child"), item("a"))
	wantUnread(t, st, ref("child"), "a")
}

func forkOutlivesParents(t testing.TB, d Data) {
	st := d.Open(t)
	grandparent := conversation(t, st, "grandparent", "one")
	parent := save(t, st, withMessage(t, createFork(t, st, grandparent, "parent"), "two"))
	child := save(t, st, withMessage(t, createFork(t, st, parent, "child"), "three"))
	sibling := createFork(t, st, parent, "sibling")
	log := string(encode(t, allEntries(t, st, ref("child"), 0)))
	for _, id := range []string{"parent", "grandparent"} {
		if err := st.Delete(t.Context(), ref(id), 0); err != nil {
			t.Fatalf("delete %s: %v", id, err)
		}
	}
	conversation(t, st, "parent", "somebody else", "entirely", "with", "more", "changes")
	for _, st := range []store.Store{st, d.Open(t)} {
		wantTexts(t, load(t, st, ref("child")), "one", "two", "three")
		wantTexts(t, loadWhole(t, st, ref("child"), 1), "one", "two")
		wantSame(t, load(t, st, ref("child")), child)
		wantSame(t, load(t, st, ref("sibling")), sibling)
		if have := string(encode(t, allEntries(t, st, ref("child"), 0))); have != log {
			t.Errorf("the fork's log changed when its parents went:\n got %s\nwant %s", have, log)
		}
	}
	if err := st.Delete(t.Context(), ref("child"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	wantTexts(t, save(t, st, withMessage(t, load(t, st, ref("sibling")), "on")), "one", "two", "on")
}

func forkNeedsItsParent(t testing.TB, d Data) {
	st := d.Open(t)
	forks := ability[store.Forks](t, st)
	parent := conversation(t, st, "parent", "one")
	child := newFork(t, parent, "child")
	taken := create(t, st, newSession(t, "taken"))
	_, err := forks.Fork(t.Context(), newFork(t, parent, "taken"), commit(parent, "fork"))
	wantConflict(t, "fork under a present id", err, session.ReasonExists)
	_, err = forks.Fork(t.Context(), newSession(t, "no-fork"), commit(parent, "fork"))
	wantErr(t, "fork of nothing", err, session.ErrInvalid)
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	_, err = forks.Fork(t.Context(), child, commit(child, "fork"))
	wantErr(t, "fork of a parent that is gone", err, session.ErrNotFound)
	second := create(t, st, newSessionFrom(t, session.Identity{ID: "parent", AgentID: "second"}))
	save(t, st, withMessage(t, second, "of somebody else"))
	_, err = forks.Fork(t.Context(), child, commit(child, "fork"))
	wantErr(t, "fork of a parent that was replaced", err, session.ErrNotFound)
	_, err = st.Load(t.Context(), ref("child"), false)
	wantErr(t, "load of a refused fork", err, session.ErrNotFound)
	wantSame(t, load(t, st, ref("taken")), taken)
}

func forkAfterRewind(t testing.TB, d Data) {
	st := d.Open(t)
	s := conversation(t, st, "parent", "one", "two", "three")
	back, err := s.Rewound(loadWhole(t, st, ref("parent"), 2), start().Add(time.Hour))
	if err != nil {
		t.Fatalf("rewind: %v", err)
	}
	s = save(t, st, withMessage(t, save(t, st, back), "other"))
	child := save(t, st, withMessage(t, createFork(t, st, s, "child"), "of the fork"))
	wantTexts(t, load(t, st, ref("child")), "one", "other", "of the fork")
	wantSame(t, load(t, st, ref("child")), child)
	wantTexts(t, loadWhole(t, st, ref("child"), 1), "one", "other")
}
