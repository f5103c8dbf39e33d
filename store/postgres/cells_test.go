package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// direction is about a text's number.
func direction(text string) []float32 {
	number := 0.0
	_, _ = fmt.Sscanf(text, "%f", &number)
	return store.Pack([]float32{1, float32(number) / 10}).Unpack()
}

// A place that a search had to compare gets its index, and what comes later is
// in it. Nothing of it is left when its session is purged.
func TestNearest_makesTheIndexOfWhatItCompared(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := open(t, url, postgres.Config{})
	st.TinyCells()
	s := create(t, st, "s")
	for i := range 20 {
		s = save(t, st, s, fmt.Sprint(i))
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
	for deadline := time.Now().Add(time.Minute); number(t, url, `SELECT count(*) FROM vector_places WHERE ready`) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the index is not made")
		}
	}
	if got := near(); !slices.Equal(got, want) {
		t.Errorf("with the index found %q, without %q", got, want)
	}
	if members, cells := number(t, url, `SELECT count(*) FROM vector_members`), number(t, url, `SELECT count(*) FROM vector_cells`); members != 20 || cells < 7 {
		t.Errorf("%d vectors are in %d cells, want 20 in cells of at most 3", members, cells)
	}
	save(t, st, s, "12.0 again")
	embedAll(t, st, direction)
	if got := near(); !slices.Contains(got, "12.0 again") || number(t, url, `SELECT count(*) FROM vector_members`) != 21 {
		t.Errorf("what came later is not among %q", got)
	}
	if problems := check(t, st); len(problems) > 0 {
		t.Errorf("the check found %q", problems)
	}
	if err := st.Delete(t.Context(), ref("s"), 0); err != nil {
		t.Fatal(err)
	}
	if left := rowsLeft(t, url); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// An empty cell keeps no direction: it would tell of what was purged.
func TestDelete_leavesNoCentreOfWhatIsGone(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	st := open(t, url, postgres.Config{})
	st.TinyCells()
	parent := create(t, st, "parent")
	for i := range 6 {
		parent = save(t, st, parent, fmt.Sprint(i))
	}
	fork(t, st, parent, "child")
	for i := range 6 {
		parent = save(t, st, parent, fmt.Sprint(-500-i))
	}
	embedAll(t, st, direction)
	if err := st.BuildCells(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatal(err)
	}
	const empty = `SELECT count(*) FROM vector_cells c WHERE NOT EXISTS (SELECT 1 FROM vector_members m WHERE m.cell = c.cell)`
	if n := number(t, url, empty); n == 0 {
		t.Fatal("no cell is empty")
	}
	if n := number(t, url, empty+` AND substr(centre, 1, 4) <> '\x00000000'`); n != 0 {
		t.Errorf("%d empty cells have a direction", n)
	}
	if problems := check(t, st); len(problems) > 0 {
		t.Errorf("the check found %q", problems)
	}
}

func TestCheck_namesAWrongIndexOfVectorsAndRepairMendsIt(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"a vector is missing":    `DELETE FROM vector_members WHERE seq = 5`,
		"a vector is another":    `UPDATE vector_members SET vector = '\x00' WHERE seq = 5`,
		"a vector is in no cell": `UPDATE vector_members SET cell = 1000000 WHERE seq = 5`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := migrated.Copy(t)
			st := family(t, url)
			st.TinyCells()
			embedAll(t, st, direction)
			if err := st.BuildCells(t.Context()); err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, url, sql)
			if problems := check(t, st); len(problems) != 1 || !strings.Contains(problems[0], "index of vectors") {
				t.Errorf("found %q", problems)
			}
			if repaired := repair(t, st); len(repaired) != 1 {
				t.Errorf("repaired %q", repaired)
			}
			if problems := check(t, st); len(problems) > 0 || number(t, url, `SELECT count(*) FROM vector_places WHERE ready`) == 0 {
				t.Errorf("after the repair: %q", problems)
			}
		})
	}
}
