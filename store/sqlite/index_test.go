package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// halfIndexed is a store whose index of words has come a little further before
// every search, so that a suite meets it in all its states. Of three searches by
// meaning one makes the index of vectors before.
type halfIndexed struct {
	*sqlite.Store
	searches *atomic.Int64
}

func (h halfIndexed) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	if n := h.searches.Add(1) % 9; n > 0 {
		if err := h.Index(ctx, int(n*n)); err != nil {
			return nil, err
		}
	}
	return h.Store.Search(ctx, tenant, q)
}

func (h halfIndexed) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	if h.searches.Add(1)%3 == 0 {
		_ = h.BuildCells(ctx) // if it fails, so does the search, or it is right without
	}
	return h.Store.Nearest(ctx, tenant, q)
}

// found are the texts that a search of one session finds.
func found(t testing.TB, st store.Memories, id string, words ...string) []string {
	t.Helper()
	passages, err := st.Search(t.Context(), session.DefaultTenant, store.Search{Words: words, Session: id})
	if err != nil {
		t.Fatalf("search %s for %q: %v", id, words, err)
	}
	texts := []string{}
	for _, p := range passages {
		texts = append(texts, p.Text)
	}
	return texts
}

// indexAll brings all of the log into the index.
func indexAll(t testing.TB, st *sqlite.Store) {
	t.Helper()
	for unindexed(t, st) > 0 {
		if err := st.Index(t.Context(), 100); err != nil {
			t.Fatalf("index: %v", err)
		}
	}
}

func unindexed(t testing.TB, st *sqlite.Store) int64 {
	t.Helper()
	n, err := st.Unindexed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSearch_findsEachMessageOnceWhereverTheIndexEnds(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	s := create(t, st, "s")
	var want []string
	for i := range 12 {
		text := fmt.Sprintf("tea number %d", i)
		s, want = save(t, st, said(t, s, text)), append([]string{text}, want...)
	}
	for unindexed(t, st) > 0 {
		if got := found(t, st, "s", "tea"); !slices.Equal(got, want) {
			t.Errorf("with %d changes behind the index found %q, want %q", unindexed(t, st), got, want)
		}
		if err := st.Index(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		healthy(t, st)
	}
	if got := found(t, st, "s", "tea"); !slices.Equal(got, want) {
		t.Errorf("with everything indexed found %q, want %q", got, want)
	}
}

// Numbers of removed changes are given again. What comes to have them must not
// be taken for what was indexed.
func TestSearch_findsWhatTakesThePlaceOfThePurged(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	create(t, st, "stays")
	save(t, st, said(t, create(t, st, "old"), "old tea"))
	indexAll(t, st)
	if err := st.Delete(t.Context(), ref("old"), 0); err != nil {
		t.Fatal(err)
	}
	save(t, st, said(t, create(t, st, "new"), "new tea"))
	for _, how := range []string{"before it is indexed", "when it is indexed"} {
		if got := found(t, st, "new", "tea"); !slices.Equal(got, []string{"new tea"}) {
			t.Errorf("%s found %q", how, got)
		}
		healthy(t, st)
		indexAll(t, st)
	}
	if rows, err := st.Count(t.Context(), "SELECT count(*) FROM message_terms WHERE term = 'wold'"); err != nil || rows != 0 {
		t.Errorf("%d rows of the purged session are in the index, %v", rows, err)
	}
}

func TestSearch_ofAUserMeetsNoOtherTenant(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	for _, tenant := range []string{"acme", "acme-corp"} {
		s, err := session.New(session.Identity{ID: "of-" + tenant, AgentID: "agent", Tenant: tenant, UserID: "ann"}, session.Definition{Name: "tester"}, session.Seed{}, noon())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Create(t.Context(), said(t, s, "tea of "+tenant), store.Commit{ID: "c"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, how := range []string{"read", "indexed"} {
		passages, err := st.Search(t.Context(), "acme", store.Search{Words: []string{"tea"}, User: "ann"})
		if err != nil || len(passages) != 1 || passages[0].SessionID != "of-acme" {
			t.Errorf("%s: found %+v, %v", how, passages, err)
		}
		if foreign := found(t, st, "of-acme-corp", "tea"); len(foreign) > 0 {
			t.Errorf("%s: found %q of another tenant", how, foreign)
		}
		indexAll(t, st)
	}
}

// A part of the log is read before the writer is asked to index it. Meanwhile
// it may be purged, and its numbers given to others.
func TestIndex_ofWhatWasPurgedMeanwhileIsNotWritten(t *testing.T) {
	t.Parallel()
	g := newGate("before commit")
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{OnWrite: g.onWrite})
	save(t, st, said(t, create(t, st, "old"), "old tea"))
	g.shut.Store(true)
	purged, indexed := make(chan error, 1), make(chan error, 1)
	go func() { purged <- st.Delete(t.Context(), ref("old"), 0) }()
	<-g.reached // the purge is on its way, and nobody sees it yet
	go func() { indexed <- st.Index(t.Context(), 100) }()
	waitUntil(t, func() bool { return st.Queued() == 1 })
	close(g.open)
	if err := <-purged; err != nil {
		t.Fatal(err)
	}
	if err := <-indexed; err != nil {
		t.Fatalf("index: %v", err)
	}
	healthy(t, st)
	save(t, st, said(t, create(t, st, "new"), "new tea"))
	if got := found(t, st, "new", "tea"); !slices.Equal(got, []string{"new tea"}) {
		t.Errorf("found %q", got)
	}
	healthy(t, st)
}

// chatty is a stored session with so many messages.
func chatty(t *testing.T, st *sqlite.Store, messages int) {
	t.Helper()
	s := fresh(t, "chatty")
	for i := range messages {
		s = said(t, s, fmt.Sprintf("tea %d", i))
	}
	if _, err := st.Create(t.Context(), s, store.Commit{ID: "c"}); err != nil {
		t.Fatal(err)
	}
}

func TestIndex_keepsUpWithAStoreThatIsNeverQuiet(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{Synchronous: sqlite.Normal})
	chatty(t, st, 6_000)
	found(t, st, "chatty", "tea")
	busy := create(t, st, "busy")
	for i := 0; unindexed(t, st) > 4_500; i++ {
		if i == 5_000 {
			t.Fatalf("after %d writes %d changes are not indexed", i, unindexed(t, st))
		}
		busy = save(t, st, busy)
	}
	healthy(t, st)
}

func TestClose_indexesWhatIsQuicklyDone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	st := open(t, path, sqlite.Config{})
	st.SetCloseFor(time.Minute) // on a slow machine, too
	chatty(t, st, 100)
	found(t, st, "chatty", "tea")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path, sqlite.Config{})
	if n := unindexed(t, again); n > 0 {
		t.Errorf("%d changes were left behind", n)
	}
	healthy(t, again)
}

// A file that nobody searches has no index to pay for. One that was searched
// once is kept up to date, also by those who only write.
func TestIndex_beginsWithTheFirstSearch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	with := func(do func(st *sqlite.Store)) (left int64) {
		st := open(t, path, sqlite.Config{})
		st.SetCloseFor(time.Minute) // on a slow machine, too
		do(st)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		st = open(t, path, sqlite.Config{})
		healthy(t, st)
		left = unindexed(t, st)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		return left
	}
	if n := with(func(st *sqlite.Store) { chatty(t, st, 100) }); n != 101 {
		t.Errorf("never searched, but only %d changes are not indexed", n)
	}
	if n := with(func(st *sqlite.Store) {
		if got := found(t, st, "chatty", "tea"); len(got) == 0 {
			t.Error("found nothing")
		}
	}); n > 0 {
		t.Errorf("searched, and %d changes are not indexed", n)
	}
	if n := with(func(st *sqlite.Store) {
		s := create(t, st, "more")
		for i := range 100 {
			s = said(t, s, fmt.Sprint("tea ", i))
		}
		save(t, st, s)
	}); n > 0 {
		t.Errorf("written later, and %d changes are not indexed", n)
	}
}

func TestIndex_keepsWordsOfEveryKindApart(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	texts := []string{"tea", "Straße über Ærø", "日本語 テキスト", "don't", "dont", "3.14 x33", "c3 x", "l1", "o1", "snake_case", "x746561", "naïve e\u0301", strings.Repeat("long", 40)}
	s := fresh(t, "s")
	for _, text := range texts {
		s = said(t, s, text)
	}
	if _, err := st.Create(t.Context(), s, store.Commit{ID: "c"}); err != nil {
		t.Fatal(err)
	}
	ask := func() (answers [][]string) {
		for _, text := range texts {
			for _, word := range store.Words(text) {
				answers = append(answers, found(t, st, "s", word))
			}
		}
		return answers
	}
	before := ask()
	indexAll(t, st)
	for i, after := range ask() {
		if len(after) == 0 || !slices.Equal(after, before[i]) {
			t.Errorf("answer %d: indexed %q, read %q", i, after, before[i])
		}
	}
	healthy(t, st)
}
