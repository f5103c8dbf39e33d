package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

func tiny(t *testing.T) *sqlite.Store {
	t.Helper()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	st.TinyCells()
	return st
}

func count(t testing.TB, st *sqlite.Store, query string) int64 {
	t.Helper()
	n, err := st.Count(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// direction is about a text's number.
func direction(text string) []float32 {
	number := 0.0
	_, _ = fmt.Sscanf(text, "%f", &number)
	return scaled([]float32{1, float32(number) / 10}, 1)
}

// A place that a search had to compare gets its index, and what comes later is
// in it.
func TestNearest_makesTheIndexOfWhatItCompared(t *testing.T) {
	t.Parallel()
	st := tiny(t)
	s := create(t, st, "s")
	for i := range 20 {
		s = save(t, st, said(t, s, fmt.Sprint(i)))
	}
	embedAll(t, st, direction)
	near := func() (texts []string) {
		found, err := st.Nearest(t.Context(), session.DefaultTenant, store.Near{
			Search: store.Search{Session: "s", Limit: 3}, Embedder: maker, Vector: direction("12"),
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			texts = append(texts, p.Text)
		}
		return texts
	}
	want := near()
	for deadline := time.Now().Add(time.Minute); count(t, st, "SELECT count(*) FROM vector_places WHERE ready = 1") == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the index is not made")
		}
		time.Sleep(time.Millisecond)
	}
	if got := near(); !slices.Equal(got, want) {
		t.Errorf("with the index found %q, without %q", got, want)
	}
	if members, cells := count(t, st, "SELECT count(*) FROM vector_members"), count(t, st, "SELECT count(*) FROM vector_cells"); members != 20 || cells < 7 {
		t.Errorf("%d vectors are in %d cells, want 20 in cells of at most 3", members, cells)
	}
	save(t, st, said(t, s, "12 again"))
	embedAll(t, st, direction)
	if got := near(); !slices.Contains(got, "12 again") {
		t.Errorf("what came later is not among %q", got)
	}
	healthy(t, st)
}

// What is purged leaves no vector behind, not even in a centre.
func TestDelete_leavesNothingInTheIndexOfVectors(t *testing.T) {
	t.Parallel()
	st := tiny(t)
	parent := create(t, st, "parent")
	for i := range 10 {
		parent = save(t, st, said(t, parent, fmt.Sprint(i)))
	}
	child := save(t, st, said(t, fork(t, st, parent, "child"), "11"))
	save(t, st, said(t, parent, "50"))
	embedAll(t, st, direction)
	if err := st.BuildCells(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []struct {
		id      string
		members int64
	}{{"parent", 11}, {"child", 0}} {
		if err := st.Delete(t.Context(), ref(gone.id), 0); err != nil {
			t.Fatal(err)
		}
		if n := count(t, st, "SELECT count(*) FROM vector_members"); n != gone.members {
			t.Errorf("after %s is gone %d vectors are in cells, want %d", gone.id, n, gone.members)
		}
		const empty = "SELECT count(*) FROM vector_cells c WHERE hex(centre) NOT GLOB '00000000*' AND NOT EXISTS (SELECT 1 FROM vector_members m WHERE m.id >> 30 = c.id)"
		if n := count(t, st, empty); n != 0 {
			t.Errorf("after %s is gone %d empty cells have a direction", gone.id, n)
		}
		healthy(t, st)
	}
	if n := count(t, st, "SELECT count(*) FROM vector_places"); n != 0 {
		t.Errorf("%d places are left of %s and its parent", n, child.ID())
	}
}

func TestCheck_namesAWrongIndexOfVectorsAndRepairMendsIt(t *testing.T) {
	t.Parallel()
	for what, statement := range map[string]string{
		"a vector is missing":     "DELETE FROM vector_members WHERE seq = 10",
		"a vector is another":     "UPDATE vector_members SET vector = zeroblob(length(vector)) WHERE seq = 10",
		"a vector is in no cell":  "UPDATE vector_members SET id = id + (1000000 << 30) WHERE seq = 10",
		"a part there never was":  "UPDATE vector_members SET part = 7 WHERE seq = 10",
		"a cell has disappeared":  "DELETE FROM vector_cells WHERE id = 1",
		"the index is not ready":  "",
		"the index has no member": "DELETE FROM vector_members",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			st := family(t)
			st.TinyCells()
			embedAll(t, st, direction)
			if err := st.BuildCells(t.Context()); err != nil {
				t.Fatal(err)
			}
			healthy(t, st)
			if statement == "" {
				rewrite(t, st, "UPDATE vector_places SET ready = 0")
				healthy(t, st)
				return
			}
			rewrite(t, st, statement)
			problems, err := st.Check(t.Context(), nil)
			if err != nil || !strings.Contains(strings.Join(problems, "\n"), "index of vectors") {
				t.Errorf("found %q, %v", problems, err)
			}
			if mended, err := st.Repair(t.Context(), nil); err != nil || !strings.Contains(strings.Join(mended, "\n"), "index of vectors") {
				t.Errorf("mended %q, %v", mended, err)
			}
			healthy(t, st)
			if count(t, st, "SELECT count(*) FROM vector_places WHERE ready = 1") == 0 {
				t.Error("after the repair there is no index")
			}
		})
	}
}
