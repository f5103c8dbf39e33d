package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// busy is a store that indexes only when it is told to.
func busy(t testing.TB, url string) *postgres.Store {
	t.Helper()
	st, err := postgres.OpenBusy(t.Context(), url)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return closing(t, st)
}

// found are the texts that hold a word, in a session's transcript.
func found(t testing.TB, st *postgres.Store, id, word string) []string {
	t.Helper()
	passages, err := st.Search(t.Context(), session.DefaultTenant, store.Search{Words: store.Words(word), Session: id})
	if err != nil {
		t.Fatalf("search: %v", err)
	}
	texts := []string{}
	for _, p := range passages {
		texts = append(texts, p.Text)
	}
	return texts
}

func wantFound(t testing.TB, st *postgres.Store, id, word string, want ...string) {
	t.Helper()
	if got := found(t, st, id, word); !slices.Equal(got, want) {
		t.Errorf("search for %q in %s found %q, want %q", word, id, got, want)
	}
}

// marked is up to where the log of a session is indexed, and with how many
// passages.
func marked(t testing.TB, conn *pgx.Conn, id string) (upto int64, passages int) {
	t.Helper()
	err := conn.QueryRow(t.Context(), `SELECT coalesce((SELECT upto FROM indexed WHERE log = sid), 0), (SELECT count(*) FROM passages WHERE log = sid)
		FROM sessions WHERE id = $1`, id).Scan(&upto, &passages)
	if err != nil {
		t.Fatal(err)
	}
	return upto, passages
}

func wantMark(t testing.TB, conn *pgx.Conn, id string, upto int64, passages int) {
	t.Helper()
	if gotUpto, got := marked(t, conn, id); gotUpto != upto || got != passages {
		t.Errorf("%s is indexed up to %d with %d passages, want %d with %d", id, gotUpto, got, upto, passages)
	}
}

func TestIndex_isReadUpToItsMarkAndTheLogBehindIt(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, conn := busy(t, url), pgtest.Connect(t, url)
	s := save(t, st, create(t, st, "a"), "tea one")
	st.Index(t.Context())
	s = save(t, st, s, "tea two")
	wantMark(t, conn, "a", s.Seq()-1, 1)
	wantFound(t, st, "a", "tea", "tea two", "tea one")
	pgtest.Exec(t, url, `UPDATE passages SET words = '{}'`)
	wantFound(t, st, "a", "tea", "tea two")
	st.Index(t.Context())
	wantMark(t, conn, "a", s.Seq(), 2)
	wantFound(t, st, "a", "tea", "tea two")
}

// The index knows numbers in the place of words, and two words may share one.
func TestSearch_doesNotBelieveTheIndex(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := busy(t, url)
	s := save(t, st, create(t, st, "a"), "tea")
	s = save(t, st, s, "tea and scones")
	save(t, st, s, "coffee")
	st.Index(t.Context())
	pgtest.Exec(t, url, `UPDATE passages SET words = (SELECT array_agg(w) FROM passages, unnest(words) AS w)`)
	wantFound(t, st, "a", "tea", "tea and scones", "tea")
	wantFound(t, st, "a", "scones", "tea and scones")
}

func TestSearch_tellsWordsApartThatShareANumber(t *testing.T) {
	t.Parallel()
	st := busy(t, migrated.Copy(t))
	const one, other = "w673879", "w1180600"
	s := save(t, st, create(t, st, "a"), one)
	save(t, st, s, one+" "+other)
	st.Index(t.Context())
	wantFound(t, st, "a", one, one+" "+other, one)
	wantFound(t, st, "a", other, one+" "+other)
	passages, err := st.Search(t.Context(), session.DefaultTenant, store.Search{Words: []string{one, other}, Least: 2, Session: "a"})
	if err != nil || len(passages) != 1 || passages[0].Found != 2 {
		t.Errorf("found %+v, %v, want the one with both words", passages, err)
	}
}

func TestSearch_looksFurtherWhenTheBestAreNotInTheTranscript(t *testing.T) {
	t.Parallel()
	st := busy(t, migrated.Copy(t))
	s := save(t, st, create(t, st, "a"), "tea first")
	s, err := s.Fork("b", "agent-b", noon())
	if err != nil {
		t.Fatal(err)
	}
	if s, err = st.Fork(t.Context(), s, store.Commit{ID: "fork", At: noon()}); err != nil {
		t.Fatal(err)
	}
	for i := range 300 { // more than are looked at in one go
		s = said(t, s, fmt.Sprintf("tea %d", i))
	}
	gone, err := st.Append(t.Context(), s, store.Append{})
	if err != nil {
		t.Fatal(err)
	}
	st.Index(t.Context())
	before, err := st.Load(t.Context(), ref("b"), false)
	if err != nil {
		t.Fatal(err)
	}
	refused, err := session.DiscardTail(before, before.Seq()+1, gone.Seq(), noon())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Append(t.Context(), refused, store.Append{}); err != nil {
		t.Fatal(err)
	}
	wantFound(t, st, "b", "tea", "tea first")
}

// A write to one log ends after a later one to another is indexed. A mark over
// both would have passed it.
func TestIndex_passesNoChangeThatIsStillToAppear(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, slow, conn := busy(t, url), pgtest.Connect(t, url), pgtest.Connect(t, url)
	a, b := save(t, st, create(t, st, "a"), "tea early"), create(t, st, "b")
	next := said(t, a, "tea late")
	body := postgres.StoredBody(t, a, session.Unsaved(next)[0])
	tx, err := slow.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE sessions SET last_seq = last_seq + 1, live = live + 1 WHERE id = 'a'`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `INSERT INTO changes (log, seq, version, kind, body) SELECT sid, last_seq, version + 1, 'message_added', $1 FROM sessions
		WHERE id = 'a'`, body); err != nil {
		t.Fatal(err)
	}
	b = save(t, st, b, "tea meanwhile")
	st.Index(t.Context())
	wantMark(t, conn, "a", a.Seq(), 1)
	wantMark(t, conn, "b", b.Seq(), 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantFound(t, st, "a", "tea", "tea late", "tea early")
	st.Index(t.Context()) // the search has seen that there is more
	wantMark(t, conn, "a", next.Seq(), 2)
	wantFound(t, st, "a", "tea", "tea late", "tea early")
}

func TestIndex_isFilledWhenTheNodeIsIdle(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, conn := open(t, url, postgres.Config{}), pgtest.Connect(t, url)
	await := func(s session.Session) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			if upto, _ := marked(t, conn, "a"); upto == s.Seq() {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("nothing was indexed")
			}
		}
	}
	s := save(t, st, create(t, st, "a"), "tea")
	wantFound(t, st, "a", "tea", "tea")
	await(s)
	wantFound(t, st, "a", "tea", "tea")
	for _, text := range []string{"tea two", "tea three"} { // what was searched once is kept up to date
		s = save(t, st, s, text)
		await(s)
	}
}

// Most sessions are never searched: they cost nothing. Those that were are
// kept up to date.
func TestIndex_beginsWithTheFirstSearch(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, conn := busy(t, url), pgtest.Connect(t, url)
	a, b := save(t, st, create(t, st, "a"), "tea one"), save(t, st, create(t, st, "b"), "tea one")
	wantFound(t, st, "b", "tea", "tea one")
	st.IndexWanted(t.Context())
	wantMark(t, conn, "a", 0, 0)
	wantMark(t, conn, "b", b.Seq(), 1)
	save(t, st, a, "tea two")
	b = save(t, st, b, "tea two")
	st.IndexWanted(t.Context())
	wantMark(t, conn, "a", 0, 0)
	wantMark(t, conn, "b", b.Seq(), 2)
	wantFound(t, st, "a", "tea", "tea two", "tea one")
}

func TestClose_indexesWhatIsLeft(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	first, second, conn := busy(t, url), busy(t, url), pgtest.Connect(t, url)
	a, b := save(t, first, create(t, first, "a"), "tea"), save(t, second, create(t, second, "b"), "tea")
	wantFound(t, first, "a", "tea", "tea")
	wantFound(t, first, "b", "tea", "tea")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	wantMark(t, conn, "a", a.Seq(), 1)
	wantMark(t, conn, "b", b.Seq(), 1) // the search of one node found it unindexed
}

func TestIndex_leavesLogsThatAnotherNodeHasInHand(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, other, conn := busy(t, url), pgtest.Connect(t, url), pgtest.Connect(t, url)
	save(t, st, create(t, st, "a"), "tea")
	b := save(t, st, create(t, st, "b"), "tea")
	tx := holdLog(t, other, "a")
	st.Index(t.Context())
	wantMark(t, conn, "a", 0, 0)
	wantMark(t, conn, "b", b.Seq(), 1)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantFound(t, st, "a", "tea", "tea")
}

// holdLog is a transaction that has the log of a session in hand.
func holdLog(t *testing.T, conn *pgx.Conn, id string) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(`+postgres.LogLock+` # sid) FROM sessions WHERE id = $1`, id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestDelete_waitsForIndexingUnderWay(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st, other := busy(t, url), pgtest.Connect(t, url)
	save(t, st, create(t, st, "a"), "tea")
	tx := holdLog(t, other, "a")
	if _, err := tx.Exec(t.Context(), `INSERT INTO passages (log, seq, at, trace, words) SELECT sid, 2, now(), false, '{1}' FROM sessions`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `INSERT INTO indexed (log, upto) SELECT sid, 2 FROM sessions`); err != nil {
		t.Fatal(err)
	}
	deleted := make(chan error, 1)
	go func() { deleted <- st.Delete(t.Context(), ref("a"), 0) }()
	blocked(t, pgtest.Connect(t, url), other, deleted)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; err != nil {
		t.Fatalf("delete: %v", err)
	}
	if left := rowsLeft(t, url); len(left) > 0 {
		t.Errorf("left when all is deleted: %v", left)
	}
}

func TestDelete_keepsTheIndexOfWhatForksShare(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := busy(t, url)
	parent := save(t, st, create(t, st, "parent"), "tea shared")
	fork(t, st, parent, "child")
	save(t, st, parent, "tea not shared")
	st.Index(t.Context())
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatal(err)
	}
	if left := rowsLeft(t, url); left["passages"] != 1 || left["indexed"] != 2 {
		t.Errorf("left: %v, want the one passage that is shared and the marks of both logs", left)
	}
	wantFound(t, st, "child", "tea", "tea shared")
	if err := st.Delete(t.Context(), ref("child"), 0); err != nil {
		t.Fatal(err)
	}
	if left := rowsLeft(t, url); len(left) > 0 {
		t.Errorf("left when all is deleted: %v", left)
	}
}

// A search of all sessions ends when the rest is older than what it found.
func TestSearch_everywhereReadsTheNewestFirst(t *testing.T) {
	t.Parallel()
	st := busy(t, migrated.Copy(t)) // it looks at two sessions at a time
	for i := range 7 {
		at := noon().Add(time.Duration(i) * time.Minute)
		s, err := session.New(session.Identity{ID: fmt.Sprint("s", i), AgentID: "tester"}, session.Definition{Name: "tester"}, session.Seed{}, at)
		if err != nil {
			t.Fatal(err)
		}
		text := "tea"
		if i == 1 {
			text = "tea and cake"
		}
		if s, err = s.WithMessage(session.Message{ID: fmt.Sprint("m", i), Role: session.RoleUser, Content: session.Text(text), CreatedAt: at}, at); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Create(t.Context(), s, store.Commit{ID: "create", At: at}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		words string
		limit int
		want  []string
		read  int // logs so far
	}{
		{"tea", 1, []string{"s6"}, 2}, {"tea", 3, []string{"s6", "s5", "s4"}, 4}, {"cake", 1, []string{"s1"}, 7},
	} {
		words := store.Words(c.words)
		found, err := st.Search(t.Context(), session.DefaultTenant, store.Search{Words: words, Least: len(words), Limit: c.limit, Everywhere: true})
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, p := range found {
			have = append(have, p.SessionID)
		}
		if !slices.Equal(have, c.want) || st.Unindexed() != c.read {
			t.Errorf("%s: found in %q after reading %d logs, want %q after %d", c.words, have, st.Unindexed(), c.want, c.read)
		}
	}
}
