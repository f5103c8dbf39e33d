package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// The database knows nothing of new tables. The first page must not make it read
// every session all the same, and has the newest ones where several were
// changed at nearly the same time.
func TestList_firstPageReadsFewRowsOfNewTables(t *testing.T) {
	t.Parallel()
	const sessions, page = 200, 20
	url := pgtest.Schema(t)
	st, conn := open(t, url, postgres.Config{}), pgtest.Connect(t, url)
	for i := range sessions {
		at := noon().Add(time.Duration(i) * 50 * time.Millisecond)
		if _, err := st.Create(t.Context(), fresh(t, fmt.Sprintf("s%03d", i)), store.Commit{ID: "c", At: at}); err != nil {
			t.Fatal(err)
		}
	}
	text, args := postgres.ListStatement(t, session.DefaultTenant, store.Query{Limit: page})
	var explained []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+text, args).Scan(&explained); err != nil {
		t.Fatal(err)
	}
	if pages := explained[0].Plan.Hit + explained[0].Plan.Read; pages == 0 || pages > sessions {
		t.Errorf("%d pages of the disk are read for %d of %d sessions", pages, page, sessions)
	}
	found, err := st.List(t.Context(), session.DefaultTenant, store.Query{Limit: page})
	if err != nil || len(found.Items) != page || found.Next == "" {
		t.Fatalf("%d sessions, next %q, %v", len(found.Items), found.Next, err)
	}
	for i, got := range found.Items {
		if want := fmt.Sprintf("s%03d", sessions-1-i); got.ID != want {
			t.Errorf("%s is number %d of the page, want %s", got.ID, i, want)
		}
	}
}
