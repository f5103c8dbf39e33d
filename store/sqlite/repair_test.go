package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// remembering is the file of a family that remembers, with a part of it in the
// index.
func remembering(t *testing.T) []byte {
	t.Helper()
	st := family(t)
	owner := store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeUser, Name: "ann"}
	for _, key := range []string{"likes", "likes", "has/cat"} {
		if _, err := st.Remember(t.Context(), owner, store.Memo{Key: key, Value: []byte(`"tea and cake"`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Index(t.Context(), 40); err != nil {
		t.Fatal(err)
	}
	if err := st.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(st.Path())
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// opened is a store of its own with the content of a file.
func opened(t *testing.T, file []byte) *sqlite.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sessions.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, path, sqlite.Config{})
}

// kept is every byte of the tables that nothing can make anew.
func kept(t testing.TB, st *sqlite.Store) string {
	t.Helper()
	var all strings.Builder
	for _, table := range []string{"changes", "commits", "lineage", "inbox", "keys", "memory_keys", "memory_entries", "memory_calls"} {
		fmt.Fprintf(&all, "%s\n%s\n", table, dumped(t, st, table))
	}
	return all.String()
}

// versions are the texts of some versions of the family, the first and the
// last among them.
func versions(t testing.TB, st *sqlite.Store) (all []string) {
	t.Helper()
	for _, id := range []string{"s", "child"} {
		info, err := st.Info(t.Context(), ref(id))
		if err != nil {
			t.Fatal(err)
		}
		for v := info.Version; v >= 1; v -= 7 { // 71 is the last of s
			s, err := st.LoadWhole(t.Context(), ref(id), v)
			if err != nil {
				t.Fatalf("version %d of %s: %v", v, id, err)
			}
			all = append(all, fmt.Sprint(id, v, texts(s), s.Info().UpdatedAt))
		}
		all = append(all, fmt.Sprint(texts(load(t, st, id))))
	}
	return all
}

func TestRepair_mendsWhatFollowsFromTheLog(t *testing.T) {
	t.Parallel()
	file := remembering(t)
	whole := opened(t, file)
	log, said := kept(t, whole), versions(t, whole)
	for what, c := range map[string]struct{ statement, want string }{
		"a head altered":           {`UPDATE heads SET data = CAST(replace(CAST(data AS TEXT), 'tester', 'taster') AS BLOB)`, "checksum"},
		"a head altered with care": {`UPDATE heads SET seq = seq + 1`, "checksum"},
		"a head cut":               {`UPDATE heads SET data = substr(data, 1, length(data) / 2)`, "corrupt (head)"},
		"no head":                  {"DELETE FROM heads", "no head"},
		"no first head":            {"DELETE FROM heads WHERE version = 1", "no head of its first version"},
		"a head of nothing":        {"UPDATE heads SET version = 9999 WHERE version > 40", "belongs to no version"},
		"a header altered":         {"UPDATE sessions SET header = replace(header, 'tester', 'taster')", "the header is not"},
		"a header cut":             {"UPDATE sessions SET header = substr(header, 9)", "the header is not"},
		"an old version":           {"UPDATE sessions SET version = version - 1", "version in its row"},
		"an old end":               {"UPDATE sessions SET seq = seq - 1", "seq in its row"},
		"a tail not counted":       {"UPDATE sessions SET tail_live = 0", "tail_live in its row"},
		"a tail not seen":          {"UPDATE sessions SET last_seq = seq", "last_seq in its row"},
		"a session not open":       {"UPDATE sessions SET open = 0", "open in its row"},
		"another status":           {"UPDATE sessions SET status = 'deleted'", "status in its row"},
		"another user":             {"UPDATE sessions SET user_id = 'mallory'", "user_id in its row"},
		"another name":             {"UPDATE sessions SET name = 'x', kind = 'task', origin = 'import', task_status = 'done'", "name in its row"},
		"another agent":            {"UPDATE sessions SET agent_id = 'x', agent_name = 'y'", "agent_id in its row"},
		"other times":              {"UPDATE sessions SET created_at = 1, updated_at = 2", "created_at in its row"},
		"no fork point":            {"UPDATE sessions SET forked_at = 0", "forked_at in its row"},
		"a tag of nothing":         {"INSERT INTO tags SELECT tenant, 7, log FROM sessions", "its metadata is not found"},
		"not tagged":               {"UPDATE sessions SET tagged = 0", "tagged in its row"},
		"words missing":            {"DELETE FROM message_words WHERE rowid IN (2, 3)", "lacks 2 messages"},
		"words of nothing":         {"INSERT INTO message_words (rowid, tokens) VALUES (9999, 'wtea l1')", "too many rows for 1 messages"},
		"other words":              {"UPDATE message_words SET tokens = 'wother l1' WHERE rowid = 3", "other words for 1 messages"},
		"a passage missing":        {"DELETE FROM passages WHERE n = 3", "lacks 1 messages"},
		"a passage of nothing":     {"INSERT INTO passages VALUES (9999, 1, 1, 1, 0)", "too many rows for 1 messages"},
		"a passage elsewhere":      {"UPDATE passages SET seq = 99 WHERE n = 3", "other words for 1 messages"},
		"another time":             {"UPDATE passages SET at = 99 WHERE n = 3", "other words for 1 messages"},
		"a mark too far":           {"UPDATE counters SET value = value + 5 WHERE name = 'indexed'", "lacks"},
		"a mark beyond the log":    {"UPDATE counters SET value = 99999 WHERE name = 'indexed'", "ends at change 99999"},
		"a mark too near":          {"UPDATE counters SET value = 3 WHERE name = 'indexed'", "too many rows"},
		"no mark":                  {"DELETE FROM counters WHERE name = 'indexed'", "too many rows for 39 messages"},
		"an index cut":             {"UPDATE message_words_data SET block = x'00' WHERE id > 100", "message_words"},
		"an index lost":            {"DELETE FROM message_words_data WHERE id > 100", "message_words"},
		"a memory not found":       {"DELETE FROM entry_words", "lacks 2 memories"},
		"another memory":           {"INSERT INTO entry_words (rowid, tokens) VALUES (9999, 'wtea')", "too many rows for 1 memories"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			st := opened(t, file)
			rewrite(t, st, c.statement)
			problems, err := st.Check(t.Context(), nil)
			if err != nil || !strings.Contains(strings.Join(problems, "\n"), c.want) {
				t.Errorf("found %q (%v), want one that says %q", problems, err, c.want)
			}
			mended, err := st.Repair(t.Context(), nil)
			if err != nil || len(mended) == 0 {
				t.Errorf("mended %q, %v", mended, err)
			}
			healthy(t, st)
			if kept(t, st) != log {
				t.Error("the log is not what it was")
			}
			if got := versions(t, st); !slices.Equal(got, said) {
				t.Errorf("loaded %q\nwant %q", got, said)
			}
			if got := found(t, st, "s", "tail"); !slices.Equal(got, []string{"in the tail"}) {
				t.Errorf("found %q", got)
			}
			if again, err := st.Repair(t.Context(), nil); err != nil || len(again) > 0 {
				t.Errorf("a second repair mended %q, %v", again, err)
			}
			save(t, st, with(t, load(t, st, "s"), session.NameChanged{Name: "mended"})) // life goes on
			healthy(t, st)
		})
	}
}

func TestRepair_leavesALogThatIsDamagedAsItIs(t *testing.T) {
	t.Parallel()
	file := remembering(t)
	for what, statement := range map[string]string{
		"a change altered":     `UPDATE changes SET data = CAST('{' || substr(CAST(data AS TEXT), 3) AS BLOB) WHERE log = 1 AND seq = 5`,
		"a change missing":     "DELETE FROM changes WHERE log = 1 AND seq = 5",
		"the last one missing": "DELETE FROM changes WHERE log = 1 AND seq = (SELECT max(seq) FROM changes WHERE log = 1)",
		"a commit missing":     "UPDATE changes SET first_seq = NULL WHERE log = 1 AND version = 3",
		"the last commit":      "UPDATE changes SET first_seq = NULL WHERE log = 1 AND version = 71",
		"a newer kind":         `UPDATE changes SET kind = 'dreamt' WHERE log = 1 AND seq = 5`,
		"a newer head":         `UPDATE heads SET data = CAST(replace(CAST(data AS TEXT), '"formatVersion":1', '"formatVersion":99') AS BLOB) WHERE log = 1`,
		"a newer header":       `UPDATE sessions SET header = replace(header, '"formatVersion":1', '"formatVersion":99') WHERE log = 1`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			st := opened(t, file)
			rewrite(t, st, statement)
			rewrite(t, st, "UPDATE sessions SET name = 'wrong' WHERE log = 1")
			all := func() string { return kept(t, st) + dumped(t, st, "heads") + dumped(t, st, "sessions") }
			before := all()
			problems, err := st.Check(t.Context(), nil)
			if err != nil || len(problems) == 0 {
				t.Fatalf("found %q, %v", problems, err)
			}
			if _, err := st.Repair(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if all() != before {
				t.Error("something was altered")
			}
			if again, err := st.Check(t.Context(), nil); err != nil || len(again) == 0 {
				t.Errorf("after a repair nothing is found any more, %v", err)
			}
		})
	}
}

func dumped(t testing.TB, st *sqlite.Store, table string) string {
	t.Helper()
	text, err := st.Dump(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
