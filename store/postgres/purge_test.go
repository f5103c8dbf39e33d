package postgres_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

func fork(t *testing.T, st *postgres.Store, s session.Session, id string) session.Session {
	t.Helper()
	f, err := s.Fork(id, "agent-"+id, noon())
	if err != nil {
		t.Fatalf("fork: %v", err)
	}
	if f, err = st.Fork(t.Context(), f, store.Commit{ID: "fork", At: noon()}); err != nil {
		t.Fatalf("store fork: %v", err)
	}
	return f
}

// rowsLeft counts the rows of every table that belongs to sessions.
func rowsLeft(t *testing.T, url string) map[string]int {
	t.Helper()
	conn := pgtest.Connect(t, url)
	left := map[string]int{}
	for _, table := range []string{"sessions", "changes", "discards", "seals", "snapshots", "lineage", "inbox", "takings", "keys", "passages", "indexed", "message_vectors", "embedded", "vector_places", "vector_cells", "vector_members"} {
		var n int
		if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			left[table] = n
		}
	}
	return left
}

func TestDelete_keepsWhatForksShareAndNoMore(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := open(t, url, postgres.Config{})
	parent := save(t, st, create(t, st, "parent"), "one")
	child := save(t, st, fork(t, st, parent, "child"), "two")
	fork(t, st, child, "grandchild")
	for i := range 5 { // after the fork, so nobody shares it
		parent = save(t, st, parent, fmt.Sprint("more ", i))
	}
	if err := st.Post(t.Context(), ref("parent"), store.Item{ID: "i", Kind: store.ItemFollowUp, At: noon()}); err != nil {
		t.Fatal(err)
	}
	before := rowsLeft(t, url)
	remove := func(id string) {
		t.Helper()
		if err := st.Delete(t.Context(), ref(id), 0); err != nil {
			t.Fatalf("delete %s: %v", id, err)
		}
	}
	remove("parent")
	after := rowsLeft(t, url)
	if gone := before["changes"] - after["changes"]; gone != 5 {
		t.Errorf("%d changes went with the parent, want the 5 after the fork", gone)
	}
	if after["inbox"] != 0 {
		t.Errorf("%d inbox items are left of the parent", after["inbox"])
	}
	remove("child")
	if got := load(t, st, "grandchild"); got.Len() != 2 {
		t.Errorf("the fork of a fork has %d messages when both parents are gone, want 2", got.Len())
	}
	remove("grandchild")
	if left := rowsLeft(t, url); len(left) > 0 {
		t.Errorf("left when all are deleted: %v", left)
	}
}

func TestDelete_ofForksAtOnceLeavesNothing(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := open(t, url, postgres.Config{})
	for round := range 10 {
		parent := save(t, st, create(t, st, "parent"), "one")
		ids := []string{"parent"}
		for i := range 6 {
			ids = append(ids, fmt.Sprintf("fork-%d-%d", round, i))
			fork(t, st, parent, ids[i+1])
		}
		var group sync.WaitGroup
		for _, id := range ids {
			group.Go(func() {
				if err := st.Delete(t.Context(), ref(id), 0); err != nil {
					t.Errorf("delete %s: %v", id, err)
				}
			})
		}
		group.Wait()
		if left := rowsLeft(t, url); len(left) > 0 {
			t.Fatalf("left in round %d: %v", round, left)
		}
	}
}

func TestFork_besideTheDeletionOfItsParentIsWholeOrRefused(t *testing.T) {
	t.Parallel()
	st := open(t, migrated.Copy(t), postgres.Config{})
	for round := range 20 {
		parent := save(t, st, create(t, st, "parent"), "one")
		id := fmt.Sprint("fork-", round)
		f, err := parent.Fork(id, "agent-"+id, noon())
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() {
			if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
		_, err = st.Fork(t.Context(), f, store.Commit{ID: "fork", At: noon()})
		group.Wait()
		if errors.Is(err, session.ErrNotFound) {
			continue
		}
		if err != nil {
			t.Fatalf("fork: %v", err)
		}
		if got := load(t, st, id); got.Len() != 1 || got.Message(0).Content.Text() != "one" {
			t.Fatalf("round %d: the fork has lost its parent's messages", round)
		}
	}
}

// A fork holds on to its parent before it shares anything: a deletion that
// comes in between waits for it.
func TestFork_waitsForADeletionUnderWay(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := open(t, url, postgres.Config{})
	parent := save(t, st, create(t, st, "parent"), "one")
	f, err := parent.Fork("fork", "agent-fork", noon())
	if err != nil {
		t.Fatal(err)
	}
	other := pgtest.Connect(t, url)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`DELETE FROM sessions WHERE id = 'parent'`, `DELETE FROM changes`, `DELETE FROM seals`} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	forked := make(chan error, 1)
	go func() {
		_, err := st.Fork(t.Context(), f, store.Commit{ID: "fork", At: noon()})
		forked <- err
	}()
	blocked(t, pgtest.Connect(t, url), other, forked)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-forked; !errors.Is(err, session.ErrNotFound) {
		t.Errorf("fork of a parent that was being deleted: %v, want ErrNotFound", err)
	}
}

// When the answer to a deletion is lost it is asked for again, but not of
// another session that has the id by then.
func TestDelete_triedAgainSparesASuccessor(t *testing.T) {
	t.Parallel()
	direct := migrated.Copy(t)
	other := open(t, direct, postgres.Config{})
	create(t, other, "a")
	p := newProxy(t, direct, "commit\x00", dropAnswer)
	p.mayRepeat.Store(true)
	tries := 0
	st := open(t, p.url(direct), postgres.Config{OnWrite: func(point string) {
		if point != "after delete" {
			return
		}
		if tries++; tries == 1 {
			create(t, other, "a")
		}
	}})
	if err := st.Delete(t.Context(), ref("a"), 0); err != nil {
		t.Fatalf("delete: %v", err)
	}
	wantStruck(t, p)
	if tries != 2 {
		t.Errorf("tried %d times, want 2", tries)
	}
	load(t, other, "a")
}
