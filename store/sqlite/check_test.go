package sqlite_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// healthy fails the test when the check finds anything.
func healthy(t testing.TB, st *sqlite.Store) {
	t.Helper()
	problems, err := st.Check(context.WithoutCancel(t.Context()), nil)
	if err != nil {
		t.Errorf("check: %v", err)
	}
	for _, p := range problems {
		t.Errorf("found: %s", p)
	}
}

// family is a store with a session, an open tail, a fork of a purged parent
// and an inbox.
func family(t *testing.T) *sqlite.Store {
	t.Helper()
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{})
	s := create(t, st, "s")
	for range 70 { // more than two heads that are kept
		s = save(t, st, said(t, s, "message "+strings.Repeat("x", s.Len())))
	}
	if err := st.Post(t.Context(), ref("s"), store.Item{ID: "i", Kind: store.ItemFollowUp}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Append(t.Context(), said(t, s, "in the tail"), store.Append{Keys: []store.Key{{Name: "k"}}}); err != nil {
		t.Fatal(err)
	}
	parent := save(t, st, said(t, create(t, st, "parent"), "shared"))
	save(t, st, said(t, fork(t, st, parent, "child"), "own"))
	save(t, st, said(t, parent, "not shared"))
	if err := st.Delete(t.Context(), ref("parent"), 0); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestCheck_findsNothingInHealthyData(t *testing.T) {
	t.Parallel()
	healthy(t, family(t))
}

func TestCheck_namesEveryDamage(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ statement, want string }{
		"a change altered":   {`UPDATE changes SET data = CAST(replace(CAST(data AS TEXT), 'tester', 'taster') AS BLOB) WHERE seq = 1`, "record 1: what is stored does not match its checksum"},
		"a change missing":   {"DELETE FROM changes WHERE seq = 5", "record 5: it is missing"},
		"a head altered":     {`UPDATE heads SET data = CAST(replace(CAST(data AS TEXT), 'tester', 'taster') AS BLOB)`, "checksum"},
		"no head":            {"DELETE FROM heads", "there is no head"},
		"a head of nothing":  {"UPDATE heads SET version = 9999 WHERE version > 40", "belongs to no version"},
		"a commit missing":   {"UPDATE changes SET first_seq = NULL WHERE version = 3", "does not follow"},
		"a commit's id cut":  {"UPDATE changes SET commit_id = NULL, commit_uuid = x'00' WHERE version = 3", "the id of a commit cannot be read"},
		"a header altered":   {"UPDATE sessions SET header = replace(header, 'tester', 'taster')", "the header is not"},
		"a header cut":       {"UPDATE sessions SET header = substr(header, 9)", "the header is not"},
		"an old version":     {"UPDATE sessions SET version = version - 1", "version in its row"},
		"a tail not counted": {"UPDATE sessions SET tail_live = 0", "tail_live in its row"},
		"a log of nobody":    {"INSERT INTO changes (log, seq, version, kind, data) VALUES (999, 1, 1, 'x', x'00')", "belongs to no session and no fork"},
		"a stray change":     {"INSERT INTO changes (log, seq, version, kind, data) SELECT log, 9999, 1, 'x', x'00' FROM sessions", "outside its log"},
		"an ancestor's loss": {"DELETE FROM changes WHERE log NOT IN (SELECT log FROM sessions)", "no log of its ancestor"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			st := family(t)
			rewrite(t, st, c.statement)
			problems, err := st.Check(t.Context(), nil)
			if err != nil || !strings.Contains(strings.Join(problems, "\n"), c.want) {
				t.Errorf("found %q (%v), want one that says %q", problems, err, c.want)
			}
		})
	}
}
