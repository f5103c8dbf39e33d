package postgres_test

import (
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
	for _, table := range []string{"sessions", "changes", "discards", "commits", "snapshots", "lineage", "inbox", "takings", "keys"} {
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
	url := pgtest.Schema(t)
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
	url := pgtest.Schema(t)
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
