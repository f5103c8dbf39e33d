package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

const maker = "test/maker"

// embedPage gives what waits a vector, all of it that fits a page, and says how
// much that was.
func embedPage(ctx context.Context, st *sqlite.Store, limit int, of func(text string) []float32) (int, error) {
	waiting, err := st.Unembedded(ctx, maker, limit)
	if err != nil {
		return 0, err
	}
	var made []store.Embedding
	for _, u := range waiting {
		made = append(made, store.Embedding{Token: u.Token, Vector: of(u.Text)})
	}
	return len(waiting), st.Embedded(ctx, maker, made)
}

func east(string) []float32 { return []float32{1, 0} }

func embedAll(t testing.TB, st *sqlite.Store, of func(text string) []float32) {
	t.Helper()
	for {
		if n, err := embedPage(t.Context(), st, 0, of); err != nil || n == 0 {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

// nearIn are the texts near the east in a session.
func nearIn(t testing.TB, st *sqlite.Store, id string) []string {
	t.Helper()
	passages, err := st.Nearest(t.Context(), session.DefaultTenant, store.Near{
		Search: store.Search{Session: id}, Embedder: maker, Vector: []float32{1, 0}, Least: 0.5,
	})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{}
	for _, p := range passages {
		texts = append(texts, p.Text)
	}
	return texts
}

func mark(t testing.TB, st *sqlite.Store) int64 {
	t.Helper()
	n, err := st.Count(t.Context(), "SELECT changes FROM embedders")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Numbers of removed changes are given again. What comes to have them must
// not be taken for what was embedded.
func TestUnembedded_listsWhatTakesThePlaceOfThePurged(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	save(t, st, said(t, create(t, st, "stays"), "stays"))
	save(t, st, said(t, create(t, st, "old"), "old"))
	embedAll(t, st, east)
	before := mark(t, st)
	if err := st.Delete(t.Context(), ref("old"), 0); err != nil {
		t.Fatal(err)
	}
	healthy(t, st)
	save(t, st, said(t, create(t, st, "new"), "new"))
	if got := nearIn(t, st, "new"); len(got) > 0 {
		t.Errorf("found %q before it was embedded", got)
	}
	waiting, err := st.Unembedded(t.Context(), maker, 0)
	if err != nil || len(waiting) != 1 || waiting[0].Text != "new" {
		t.Errorf("waiting: %v, %v", waiting, err)
	}
	embedAll(t, st, east)
	if got := nearIn(t, st, "new"); len(got) != 1 || mark(t, st) < before {
		t.Errorf("found %q, with the mark at %d after %d", got, mark(t, st), before)
	}
	healthy(t, st)
}

// Marks keep what is embedded from being looked at again and again.
func TestEmbedded_movesTheMarkToWhatWaitsFirst(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	s := fresh(t, "s")
	for i := range 20 {
		s = said(t, s, fmt.Sprint("message ", i))
	}
	if _, err := st.Create(t.Context(), s, store.Commit{ID: "c"}); err != nil {
		t.Fatal(err)
	}
	all, err := st.Unembedded(t.Context(), maker, 0)
	if err != nil || len(all) != 20 {
		t.Fatal(len(all), err)
	}
	give := func(u ...store.Unembedded) {
		t.Helper()
		var made []store.Embedding
		for _, u := range u {
			made = append(made, store.Embedding{Token: u.Token, Vector: east("")})
		}
		if err := st.Embedded(t.Context(), maker, made); err != nil {
			t.Fatal(err)
		}
		healthy(t, st)
	}
	give(all[1:10]...)
	first := mark(t, st)
	give(all[0])
	if tenth := mark(t, st); tenth != first+10 {
		t.Errorf("the mark moved from %d to %d, want 10 further", first, tenth)
	}
	give(all[10:]...)
	last, err := st.Count(t.Context(), "SELECT max(n) FROM changes")
	if err != nil || mark(t, st) != last {
		t.Errorf("the mark is at %d, the log ends at %d, %v", mark(t, st), last, err)
	}
}

func TestCheck_namesWhatIsWrongWithVectorsAndRepairMendsIt(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ statement, want string }{
		"of the discarded":      {"UPDATE changes SET discarded = 1 WHERE kind = 'message_added' AND seq < 20", "vectors are of no message"},
		"a message passed over": {"DELETE FROM message_vectors WHERE seq = 5", "without a vector"},
		"an entry passed over":  {"DELETE FROM entry_vectors", "without a vector"},
		"a mark beyond the log": {"UPDATE embedders SET changes = 1000000", "without a vector"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			st := family(t)
			if _, err := st.Remember(t.Context(), rememberer(), store.Memo{Key: "k", Value: []byte("1"), At: noon()}); err != nil {
				t.Fatal(err)
			}
			embedAll(t, st, east)
			healthy(t, st)
			rewrite(t, st, c.statement)
			problems, err := st.Check(t.Context(), nil)
			if err != nil || !strings.Contains(strings.Join(problems, "\n"), c.want) {
				t.Errorf("found %q (%v), want one that says %q", problems, err, c.want)
			}
			mended, err := st.Repair(t.Context(), nil)
			if err != nil || !strings.Contains(strings.Join(mended, "\n"), c.want) {
				t.Errorf("mended %q (%v), want what says %q", mended, err, c.want)
			}
			problems, err = st.Check(t.Context(), nil)
			if err != nil || strings.Contains(strings.Join(problems, "\n"), c.want) {
				t.Errorf("after the repair %q, %v", problems, err)
			}
			embedAll(t, st, east)
		})
	}
}

func TestCheck_namesVectorsOfNothing(t *testing.T) {
	t.Parallel()
	st := family(t)
	embedAll(t, st, east)
	raw, err := sql.Open("sqlite", st.Path()) // which minds no foreign keys
	if err != nil {
		t.Fatal(err)
	}
	_, err = raw.ExecContext(t.Context(), "INSERT INTO message_vectors (log, seq, embedder, at, trace) VALUES (999, 1, 1, 0, 0)")
	if err := errors.Join(err, raw.Close()); err != nil {
		t.Fatal(err)
	}
	problems, err := st.Check(t.Context(), nil)
	if err != nil || !strings.Contains(strings.Join(problems, "\n"), "message_vectors belongs to no") {
		t.Errorf("found %q, %v", problems, err)
	}
}

// A session of a user that shares much with others is searched in parts: what
// is near but cannot be seen must not hide what can.
func TestNearest_findsTheSeenAmongManyUnseen(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	s := fresh(t, "s")
	for i := range 2_500 {
		s = said(t, s, fmt.Sprint("cleared ", i))
	}
	cleared, err := s.Cleared(noon())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Create(t.Context(), said(t, cleared, "seen"), store.Commit{ID: "c"}); err != nil {
		t.Fatal(err)
	}
	embedAll(t, st, func(text string) []float32 {
		if text == "seen" {
			return []float32{0.8, 0.6}
		}
		return []float32{1, 0}
	})
	if got := nearIn(t, st, "s"); len(got) != 1 || got[0] != "seen" {
		t.Errorf("found %d, want the one that is seen", len(got))
	}
}
