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

func searchBehaviours() []behaviour {
	needs := []string{Memories}
	tails, forks := []string{Memories, Tails}, []string{Memories, Forks, Logs}
	return []behaviour{
		{name: "search/findsAMessageAsSoonAsItIsDurable", needs: tails, check: findsAtOnce},
		{name: "search/findsWhatWasAcknowledged", needs: tails, check: findsWhatWasAcknowledged},
		{name: "search/neverFindsTheDiscarded", needs: tails, check: neverFindsDiscarded},
		{name: "search/deletedSessionsAreNotSearched", needs: needs, check: deletedAreNotSearched},
		{name: "search/purgedSessionsAreGone", needs: needs, check: purgedAreGone},
		{name: "search/clearedIsFoundOnRequest", needs: tails, check: clearedOnRequest},
		{name: "search/rewoundIsFoundOnRequest", needs: []string{Memories, Logs}, check: rewoundOnRequest},
		{name: "search/traceIsFoundOnRequest", needs: needs, check: traceOnRequest},
		{name: "search/prunedIsFound", needs: needs, check: prunedIsFound},
		{name: "search/forksFindWhatTheyShare", needs: forks, check: forksFindShared},
		{name: "search/forksAreCutAtTheirPoint", needs: forks, check: forksAreCut},
		{name: "search/rootedForkFindsItsOwn", needs: needs, check: rootedForkFinds},
		{name: "search/userHasSessionsAndEntries", needs: needs, check: userHasSessionsAndEntries},
		{name: "search/everywhereHasAllSessionsAndNoEntries", needs: forks, check: everywhereHasAllSessions},
		{name: "search/agentHasEntriesOnly", needs: needs, check: agentHasEntriesOnly},
		{name: "search/severalPlacesHoldAPassageOnce", needs: forks, check: foundOnce},
		{name: "search/findsTheNewestOfAnEntry", needs: needs, check: newestEntryFound},
		{name: "search/ranksAndLimits", needs: needs, check: ranksAndLimits},
		{name: "search/asksForTheLeast", needs: needs, check: leastWords},
		{name: "search/foldsCaseInEveryScript", needs: needs, check: foldsCase},
		{name: "search/wordsAreNoPatterns", needs: needs, check: wordsAreNoPatterns},
		{name: "search/readsTextsAndToolResults", needs: needs, check: textsAndResults},
		{name: "search/takesLongTexts", needs: needs, check: longTexts},
		{name: "search/lookAlikeTenantsNeverMeet", needs: needs, check: searchTenants},
		{name: "search/badSearchesAreRefused", needs: needs, check: badSearches},
		{name: "search/corruptSessionBreaksItselfAlone", needs: []string{Memories, corruptHook}, check: corruptIsSearchedAround},
		{name: "search/forgottenTranscriptsAreNeverFoundAgain", needs: []string{Memories, Vectors, Tails, Forks, Logs}, check: transcriptsAreForgotten},
		{name: "search/agreesWithAModel", needs: []string{Memories, Tails, Forks, Logs}, check: searchAgreesWithModel},
	}
}

// search looks in the default tenant and expects it to work.
func search(t testing.TB, st store.Store, q store.Search) []store.Passage {
	t.Helper()
	found, err := ability[store.Memories](t, st).Search(t.Context(), session.DefaultTenant, q)
	if err != nil {
		t.Fatalf("search %+v: %v", q, err)
	}
	return found
}

// passageLabel names a passage: an entry by its key, a message by session and text.
func passageLabel(p store.Passage) string {
	if p.Key != "" {
		return p.Key
	}
	return p.SessionID + ": " + p.Text
}

// wantFound fails the test unless a search finds these, in this order.
func wantFound(t testing.TB, st store.Store, q store.Search, want ...string) {
	t.Helper()
	var have []string
	for _, p := range search(t, st, q) {
		have = append(have, passageLabel(p))
	}
	if !slices.Equal(have, want) {
		t.Errorf("search %+v found %q, want %q", q, have, want)
	}
}

// searchIn searches a session's transcript for the words of a text.
func searchIn(id, text string) store.Search {
	return store.Search{Words: store.Words(text), Session: id}
}

// searchUser is a search in all that a user has.
func searchUser(name, text string) store.Search {
	return store.Search{Words: store.Words(text), User: name}
}

// createOwned creates a session of a user.
func createOwned(t testing.TB, st store.Store, id, userID string) session.Session {
	t.Helper()
	return create(t, st, newSessionFrom(t, session.Identity{ID: id, UserID: userID}))
}

func findsAtOnce(t testing.TB, d Data) {
	open := openHandles(t, d, 2)
	wantFound(t, open[1], searchIn("s", "tea"))
	s := create(t, open[0], withMessage(t, newSession(t, "s"), "tea at one"))
	wantFound(t, open[1], searchIn("s", "tea"), "s: tea at one")
	stale := s
	s = save(t, open[0], withMessage(t, s, "tea at two"))
	wantFound(t, open[1], searchIn("s", "tea"), "s: tea at two", "s: tea at one")
	s = mustAppend(t, open[0], withMessage(t, s, "tea at three"))
	s = mustAppend(t, open[0], withMessage(t, withMessage(t, s, "tea at four"), "coffee at four"))
	want := []string{"s: tea at four", "s: tea at three", "s: tea at two", "s: tea at one"}
	wantFound(t, open[1], searchIn("s", "tea"), want...)
	_, err := open[0].Save(t.Context(), withMessage(t, stale, "tea too late"), commit(stale, "stale"))
	wantConflict(t, "stale save", err, session.ReasonStale)
	s = save(t, open[0], s)
	wantFound(t, open[1], searchIn("s", "tea"), want...)
	s = save(t, open[0], s)
	wantFound(t, open[1], searchIn("s", "tea"), want...)

	m := s.Message(0)
	p := search(t, open[1], searchIn("s", "one"))[0]
	if p != (store.Passage{SessionID: "s", Seq: m.Seq, MessageID: m.ID, Text: "tea at one", Found: 1, At: p.At}) || !p.At.Equal(m.CreatedAt) {
		t.Errorf("the passage is %+v of message %+v", p, m)
	}
}

// findsWhatWasAcknowledged has writers look for each message they wrote, with
// another handle, as soon as it was acknowledged.
func findsWhatWasAcknowledged(t testing.TB, d Data) {
	reader := d.Open(t)
	for i := range clients {
		createOwned(t, reader, fmt.Sprint("s", i), "ann")
	}
	for i, err := range runTogether(t, d, clients, func(i int, st store.Store) error {
		id := fmt.Sprint("s", i)
		s, err := st.Load(t.Context(), ref(id), true)
		for n := 0; err == nil && n < 10; n++ {
			text := fmt.Sprintf("word%d of %s", n, id)
			if next := withMessage(t, s, text); n%2 == 0 {
				s, err = ability[store.Tails](t, st).Append(t.Context(), next, store.Append{})
			} else {
				s, err = st.Save(t.Context(), next, commit(next, "test"))
			}
			if err != nil {
				return err
			}
			q := searchUser("ann", text)
			q.Least = len(q.Words)
			wantFound(t, reader, q, id+": "+text)
		}
		return err
	}) {
		if err != nil {
			t.Errorf("writer %d: %v", i, err)
		}
	}
}

func neverFindsDiscarded(t testing.TB, d Data) {
	st := d.Open(t)
	sealed := create(t, st, withMessage(t, newSession(t, "s"), "tea, sealed"))
	kept := mustAppend(t, st, withMessage(t, sealed, "tea, kept"))
	refused := mustAppend(t, st, withMessage(t, withMessage(t, kept, "tea, refused"), "tea, refused too"))
	wantFound(t, st, searchIn("s", "tea"), "s: tea, refused too", "s: tea, refused", "s: tea, kept", "s: tea, sealed")
	after := discard(t, st, kept, kept.Seq()+1, refused.Seq())
	want := []string{"s: tea, kept", "s: tea, sealed"}
	check := func() {
		t.Helper()
		wantFound(t, st, searchIn("s", "tea"), want...)
		q := searchIn("s", "tea")
		q.Cleared, q.Trace = true, true
		wantFound(t, st, q, want...)
	}
	check()
	next := mustAppend(t, st, withMessage(t, after, "tea, accepted"))
	want = append([]string{"s: tea, accepted"}, want...)
	check()
	save(t, st, next)
	check()
	check = func() { // all of a tail
		t.Helper()
		wantFound(t, st, searchIn("all", "tea"))
	}
	before := create(t, st, newSession(t, "all"))
	gone := mustAppend(t, st, withMessage(t, before, "tea"))
	wantFound(t, st, searchIn("all", "tea"), "all: tea")
	after = discard(t, st, before, before.Seq()+1, gone.Seq())
	check()
	save(t, st, after)
	check()
}

func deletedAreNotSearched(t testing.TB, d Data) {
	st := d.Open(t)
	s := save(t, st, withMessage(t, createOwned(t, st, "s", "ann"), "tea"))
	mark := func(status session.Status) {
		t.Helper()
		next, err := s.WithStatus(status, "", start().Add(time.Hour))
		if err != nil {
			t.Fatalf("status %s: %v", status, err)
		}
		s = save(t, st, next)
	}
	found := []string{"s: tea"}
	for range 2 {
		wantFound(t, st, searchIn("s", "tea"), found...)
		wantFound(t, st, searchUser("ann", "tea"), found...)
		mark(session.Deleted)
		wantFound(t, st, searchIn("s", "tea"))
		q := searchUser("ann", "tea")
		q.Cleared, q.Trace, q.Session = true, true, "s"
		wantFound(t, st, q)
		mark(session.Active)
	}
	mark(session.Suspended)
	wantFound(t, st, searchUser("ann", "tea"), found...)
}

func purgedAreGone(t testing.TB, d Data) {
	st := d.Open(t)
	save(t, st, withMessage(t, createOwned(t, st, "s", "ann"), "tea before"))
	save(t, st, withMessage(t, createOwned(t, st, "other", "ann"), "tea elsewhere"))
	wantFound(t, st, searchIn("s", "tea"), "s: tea before")
	if err := st.Delete(t.Context(), ref("s"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	wantFound(t, st, searchIn("s", "tea"))
	wantFound(t, st, searchUser("ann", "tea"), "other: tea elsewhere")
	again := create(t, st, newSessionFrom(t, session.Identity{ID: "s", AgentID: "second", UserID: "ann"}))
	q := searchIn("s", "tea")
	q.Cleared = true
	wantFound(t, st, q)
	save(t, st, withMessage(t, withMessage(t, again, "coffee"), "tea after"))
	wantFound(t, st, q, "s: tea after")
	wantFound(t, st, searchUser("ann", "tea"), "s: tea after", "other: tea elsewhere")
}

func clearedOnRequest(t testing.TB, d Data) {
	st := d.Open(t)
	all := searchIn("s", "tea")
	all.Cleared = true
	s := create(t, st, withMessage(t, newSession(t, "s"), "tea one"))
	s = save(t, st, withChanges(t, s, session.TranscriptCleared{}))
	wantFound(t, st, searchIn("s", "tea"))
	wantFound(t, st, all, "s: tea one")
	s = save(t, st, withMessage(t, s, "tea two"))
	wantFound(t, st, searchIn("s", "tea"), "s: tea two")

	cleared := mustAppend(t, st, withMessage(t, withChanges(t, s, session.TranscriptCleared{}), "tea three"))
	wantFound(t, st, searchIn("s", "tea"), "s: tea three")
	wantFound(t, st, all, "s: tea three", "s: tea two", "s: tea one")
	after := discard(t, st, s, s.Seq()+1, cleared.Seq()) // and the clear with it
	wantFound(t, st, searchIn("s", "tea"), "s: tea two")
	wantFound(t, st, all, "s: tea two", "s: tea one")
	save(t, st, after)
	wantFound(t, st, searchIn("s", "tea"), "s: tea two")
}

func rewoundOnRequest(t testing.TB, d Data) {
	st := d.Open(t)
	s := conversation(t, st, "s", "tea one", "tea two", "tea three") // versions 2, 3, 4
	all := searchIn("s", "tea")
	all.Cleared = true
	rewind := func(to int64) {
		t.Helper()
		back, err := s.Rewound(loadWhole(t, st, ref("s"), to), start().Add(time.Hour))
		if err != nil {
			t.Fatalf("rewind to %d: %v", to, err)
		}
		s = save(t, st, back)
	}
	rewind(2)
	wantFound(t, st, searchIn("s", "tea"), "s: tea one")
	wantFound(t, st, all, "s: tea three", "s: tea two", "s: tea one")
	s = save(t, st, withMessage(t, s, "tea instead"))
	wantFound(t, st, searchIn("s", "tea"), "s: tea instead", "s: tea one")
	rewind(4)
	wantFound(t, st, searchIn("s", "tea"), "s: tea three", "s: tea two", "s: tea one")
	wantFound(t, st, all, "s: tea instead", "s: tea three", "s: tea two", "s: tea one")
	rewind(1)
	wantFound(t, st, searchIn("s", "tea"))
	rewind(6)
	wantFound(t, st, searchIn("s", "tea"), "s: tea instead", "s: tea one")
}

func traceOnRequest(t testing.TB, d Data) {
	st := d.Open(t)
	said := func(id, text string, trace bool) session.MessageAdded {
		return session.MessageAdded{Message: session.Message{ID: id, Role: session.RoleAssistant, Content: session.Text(text), Trace: trace}}
	}
	create(t, st, withChanges(t, withMessage(t, newSession(t, "s"), "tea?"), said("a", "looking for tea", true), said("b", "there is tea", false)))
	wantFound(t, st, searchIn("s", "tea"), "s: there is tea", "s: tea?")
	q := searchIn("s", "tea")
	q.Trace = true
	wantFound(t, st, q, "s: there is tea", "s: looking for tea", "s: tea?")
	q.Trace, q.Cleared = false, true
	wantFound(t, st, q, "s: there is tea", "s: tea?")
}

func prunedIsFound(t testing.TB, d Data) {
	st := d.Open(t)
	s := conversation(t, st, "s", "tea one", "tea two")
	save(t, st, withChanges(t, s, session.WindowMoved{Strategy: session.PruneSliding, To: s.Message(1).Seq, Keep: []int64{}}))
	wantFound(t, st, searchIn("s", "tea"), "s: tea two", "s: tea one")
}

func searchTenants(t testing.TB, d Data) {
	st := d.Open(t)
	memories := ability[store.Memories](t, st)
	for i, r := range lookAlikes() {
		s := newSessionFrom(t, session.Identity{ID: r.ID, Tenant: r.Tenant, UserID: "ann", AgentID: fmt.Sprint("agent-", i)})
		create(t, st, withMessage(t, s, fmt.Sprintf("tea only%d", i)))
		mustRemember(t, st, store.Owner{Tenant: r.Tenant, Scope: store.ScopeUser, Name: "ann"}, newMemo("key-"+r.ID, fmt.Sprintf(`"tea only%d"`, i)))
	}
	for i, r := range lookAlikes() {
		for j, o := range lookAlikes() {
			q := store.Search{Words: store.Words(fmt.Sprintf("only%d", j)), User: "ann", Session: r.ID, Cleared: true}
			found, err := memories.Search(t.Context(), r.Tenant, q)
			want := 2 // the message and the entry
			if r.Tenant != o.Tenant {
				want = 0
			}
			if err != nil || len(found) != want {
				t.Errorf("%v looks for what %v has: %d found, %v; want %d", r, o, len(found), err, want)
			}
			if i == j && len(found) == 2 && (found[0].Text != fmt.Sprintf("tea only%d", i) || found[1].Text != found[0].Text) {
				t.Errorf("%v found %+v", r, found)
			}
		}
	}
	found, err := memories.Search(t.Context(), "nobody", store.Search{Words: []string{"tea"}, User: "ann", Session: "c", Agent: "ann"})
	if err != nil || len(found) != 0 {
		t.Errorf("a tenant without anything found %v, %v", found, err)
	}
}

func badSearches(t testing.TB, d Data) {
	st := d.Open(t)
	memories := ability[store.Memories](t, st)
	good := store.Search{Words: []string{"tea"}, User: "ann"}
	for what, spoil := range map[string]func(*store.Search){
		"no words": func(q *store.Search) { q.Words = nil }, "a blank word": func(q *store.Search) { q.Words = []string{"tea", ""} },
		"no place": func(q *store.Search) { q.User = "" }, "least -1": func(q *store.Search) { q.Least = -1 },
		"limit -1": func(q *store.Search) { q.Limit = -1 }, "limit 1001": func(q *store.Search) { q.Limit = 1001 },
		"a bad session": func(q *store.Search) { q.Session = "no/session" }, "a bad user": func(q *store.Search) { q.User = "a\nb" },
		"a bad agent": func(q *store.Search) { q.Agent = strings.Repeat("n", 257) },
	} {
		q := good
		spoil(&q)
		_, err := memories.Search(t.Context(), session.DefaultTenant, q)
		wantErr(t, "search with "+what, err, session.ErrInvalid)
	}
	_, err := memories.Search(t.Context(), "no/tenant", good)
	wantErr(t, "search in a bad tenant", err, session.ErrInvalid)
	wantFound(t, st, searchIn("nobody", "tea"))
}

func corruptIsSearchedAround(t testing.TB, d Data) {
	st := d.Open(t)
	save(t, st, withMessage(t, createOwned(t, st, "good", "ann"), "tea"))
	save(t, st, withMessage(t, createOwned(t, st, "bad", "ann"), "tea"))
	d.Corrupt(t, ref("bad"))
	for _, st := range []store.Store{st, d.Open(t)} {
		found := search(t, st, searchUser("ann", "tea"))
		if !slices.ContainsFunc(found, func(p store.Passage) bool { return p.SessionID == "good" }) {
			t.Errorf("beside a corrupt session only %+v is found", found)
		}
		search(t, st, searchIn("bad", "tea"))
	}
}
