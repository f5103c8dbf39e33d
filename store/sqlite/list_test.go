package sqlite_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// fill makes a store of n sessions x1, x2, …, each updated after the one
// before it. Every hundredth is suspended, and each fifty of them have a user
// of their own. A listing reads rows and nothing else, so there is no more.
func fill(t testing.TB, st *sqlite.Store, n int) {
	t.Helper()
	s, err := session.New(session.Identity{ID: "x0", AgentID: "agent", UserID: "user"}, session.Definition{Name: "tester", Model: "test/model"}, session.Seed{}, noon())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Create(t.Context(), s, store.Commit{ID: "c", At: noon()}); err != nil {
		t.Fatal(err)
	}
	rewrite(t, st, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1),
	made(i, status, user) AS (SELECT i, CASE WHEN i % 100 THEN 'active' ELSE 'suspended' END, 'user-' || (i / 50) FROM n)
INSERT INTO sessions (tenant, id, agent_id, version, seq, last_seq, forked_at, open, kind, status, name, user_id, parent_id, origin,
	agent_name, created_at, updated_at, header)
SELECT tenant, 'x' || i, agent_id, version, seq, last_seq, forked_at, open, kind, made.status, name, user, parent_id, origin,
	agent_name, created_at, updated_at + i * 1000000,
	replace(replace(replace(replace(header, '"updatedAt":"2026-03-04T12:00:00Z"', strftime('"updatedAt":"%Y-%m-%dT%H:%M:%SZ"', updated_at / 1000000 + i, 'unixepoch')), '"x0"', '"x' || i || '"'), '"status":"active"', '"status":"' || made.status || '"'), '"userId":"user"', '"userId":"' || user || '"')
FROM sessions, made`, n)
	if err := st.Resum(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestList_findsTheFewAndTheManyAlike(t *testing.T) {
	t.Parallel()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	fill(t, st, 3000)
	for what, c := range map[string]struct {
		query store.Query
		fits  func(i int) bool
	}{
		"all":              {store.Query{}, func(int) bool { return true }},
		"a common status":  {store.Query{Statuses: []session.Status{session.Active}}, func(i int) bool { return i%100 != 0 || i == 0 }},
		"a rare status":    {store.Query{Statuses: []session.Status{session.Suspended}}, func(i int) bool { return i%100 == 0 && i > 0 }},
		"both":             {store.Query{Statuses: []session.Status{session.Active, session.Suspended}}, func(int) bool { return true }},
		"a status of none": {store.Query{Statuses: []session.Status{session.Failed}}, func(int) bool { return false }},
		"a user":           {store.Query{UserID: "user-7"}, func(i int) bool { return i/50 == 7 }},
		"a user, rarely":   {store.Query{UserID: "user-8", Statuses: []session.Status{session.Suspended}}, func(i int) bool { return i == 400 }},
		"a common agent":   {store.Query{Agent: "tester"}, func(int) bool { return true }},
		"a common kind":    {store.Query{Kinds: []session.Kind{session.KindChat}}, func(int) bool { return true }},
		"a kind of none":   {store.Query{Kinds: []session.Kind{session.KindTask}}, func(int) bool { return false }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var want []string
			for i := 3000; i >= 0; i-- {
				if c.fits(i) {
					want = append(want, fmt.Sprintf("x%d", i))
				}
			}
			var have []string
			query := c.query
			for query.Limit = 700; ; {
				page, err := st.List(t.Context(), session.DefaultTenant, query)
				if err != nil || len(page.Corrupt) > 0 {
					t.Fatal(page.Corrupt, err)
				}
				for _, i := range page.Items {
					have = append(have, i.ID)
				}
				if query.Cursor = page.Next; query.Cursor == "" {
					break
				}
			}
			if !slices.Equal(have, want) {
				t.Errorf("%d sessions listed, want %d", len(have), len(want))
			}
		})
	}
}
