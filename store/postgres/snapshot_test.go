package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// Whatever a node remembers, no version is folded from more than 200 others,
// and a large head is not written at every save.
func TestSave_snapshotsAreNeitherFarApartNorMany(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]bool{"a node that remembers": false, "a node that forgets": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := migrated.Copy(t)
			st := open(t, url, postgres.Config{})
			s := fresh(t, "a")
			for i := range 4 {
				var err error
				if s, err = s.WithMetadata(fmt.Sprint("part-", i), fmt.Appendf(nil, "%q", strings.Repeat("x", 50<<10)), noon()); err != nil {
					t.Fatal(err)
				}
			}
			s, err := st.Create(t.Context(), s, store.Commit{ID: "create", At: noon()})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 420 {
				if forget {
					st.ForgetSnapshotsDue()
				}
				if s, err = s.WithMetadata("n", fmt.Append(nil, i), noon()); err != nil {
					t.Fatal(err)
				}
				s = commit(t, st, s)
			}
			rows, err := pgtest.Connect(t, url).Query(t.Context(), `SELECT version FROM snapshots ORDER BY version`)
			if err != nil {
				t.Fatal(err)
			}
			versions, err := pgx.CollectRows(rows, pgx.RowTo[int64])
			if err != nil {
				t.Fatal(err)
			}
			last := int64(0)
			for _, v := range append(versions, s.Version()) {
				if v-last > 200 {
					t.Errorf("no snapshot between versions %d and %d", last, v)
				}
				last = v
			}
			if len(versions) > 5 {
				t.Errorf("%d snapshots of 421 versions: %v", len(versions), versions)
			}
			same(t, load(t, open(t, url, postgres.Config{}), "a"), s)
		})
	}
}
