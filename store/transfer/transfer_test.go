package transfer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/transfer"
)

// copyAll copies a tenant and counts what became of its sessions.
func copyAll(tb testing.TB, from, to store.Store) (map[transfer.Outcome]int, error) {
	plan, err := transfer.PlanAll(tb.Context(), from, tenant)
	if err != nil || len(plan.Corrupt) > 0 {
		return nil, fmt.Errorf("plan: %w, corrupt %v", err, plan.Corrupt)
	}
	outcomes := map[transfer.Outcome]int{}
	c := transfer.New(from, to)
	for _, r := range plan.Refs() {
		report, err := c.Copy(tb.Context(), r)
		if err != nil {
			return outcomes, fmt.Errorf("copy %s: %w", r.ID, err)
		}
		outcomes[report.Outcome]++
	}
	return outcomes, nil
}

func mustCopyAll(t failer, tb testing.TB, from, to store.Store) map[transfer.Outcome]int {
	t.Helper()
	outcomes, err := copyAll(tb, from, to)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return outcomes
}

func openSQLite(tb testing.TB) *sqlite.Store {
	tb.Helper()
	st, err := sqlite.Open(tb.Context(), filepath.Join(tb.TempDir(), "s.db"), sqlite.Config{Synchronous: sqlite.Normal})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := st.Close(); err != nil {
			tb.Error(err)
		}
	})
	return st
}

func TestCopy_everythingArrives(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 40, func(rt *property.T) {
		w := newWorld(rt)
		to := inmem.New(inmem.Config{})
		mustCopyAll(rt, t, w.st, to)
		for _, id := range w.there() {
			same(rt, t, to, w.st, id)
		}
		n := len(w.there())
		if again := mustCopyAll(rt, t, w.st, to); again[transfer.Same] != n {
			rt.Fatalf("copying again: %v, want all %d the same", again, n)
		}
	})
}

// A copy of a moment is continued when the source has gone on: tails sealed,
// grown or discarded, items taken, parents purged.
func TestCopy_continuesWhatIsThere(t *testing.T) {
	t.Parallel()
	property.CheckCases(t, 40, func(rt *property.T) {
		w := newWorld(rt)
		to := inmem.New(inmem.Config{})
		mustCopyAll(rt, t, w.st, to)
		w.live()
		mustCopyAll(rt, t, w.st, to)
		for _, id := range w.there() {
			same(rt, t, to, w.st, id)
		}
	})
}

func TestCopy_throughSQLiteAndBack(t *testing.T) {
	t.Parallel()
	between := openSQLite(t)
	property.CheckCases(t, 8, func(rt *property.T) { // each costs a hundred times what one in memory does
		w := newWorld(rt)
		back := inmem.New(inmem.Config{})
		empty(t, between)
		mustCopyAll(rt, t, w.st, between)
		mustCopyAll(rt, t, between, back)
		for _, id := range w.there() {
			same(rt, t, between, w.st, id)
			same(rt, t, back, w.st, id)
		}
	})
}

// empty removes what another round has left.
func empty(t testing.TB, st store.Store) {
	t.Helper()
	for _, id := range allIDs(t, st) {
		if err := st.Delete(t.Context(), ref(id), 0); err != nil {
			t.Fatal(err)
		}
	}
}

func allIDs(t testing.TB, st store.Store) []string {
	t.Helper()
	plan, err := transfer.PlanAll(t.Context(), st, tenant)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range plan.Refs() {
		ids = append(ids, r.ID)
	}
	return ids
}

// A store without a log gets the last version and the open tail, first as a
// whole and then what came since.
func TestCopy_toFilesLastVersionAndTail(t *testing.T) {
	t.Parallel()
	dir, round := t.TempDir(), 0
	property.CheckCases(t, 8, func(rt *property.T) { // flushing files takes its time
		round++
		to, err := file.Open(filepath.Join(dir, fmt.Sprint(round)), file.Config{})
		if err != nil {
			rt.Fatal(err)
		}
		defer func() {
			if err := to.Close(); err != nil {
				rt.Error(err)
			}
		}()
		w := newWorld(rt)
		mustCopyAll(rt, t, w.st, to)
		for _, id := range w.there() {
			sameDocument(rt, t, to, w.st, id)
		}
		n := len(w.there())
		if again := mustCopyAll(rt, t, w.st, to); again[transfer.Same] != n {
			rt.Fatalf("copying again: %v, want all %d the same", again, n)
		}
		w.live()
		switch _, err := copyAll(t, w.st, to); {
		case errors.Is(err, session.ErrUnsupported):
			rt.Skip("what came since takes from the inbox, which a file store has not")
		case errors.Is(err, session.ErrConflict):
			rt.Skip("an unfinished turn that became part of the version there was refused since")
		case err != nil:
			rt.Fatal(err)
		}
		for _, id := range w.there() {
			sameDocument(rt, t, to, w.st, id)
		}
	})
}

// sameDocument compares the states of a store without a log with what the log
// of the other makes.
func sameDocument(t failer, tb testing.TB, have store.Store, want full, id string) {
	t.Helper()
	entries, err := want.Log(tb.Context(), ref(id), 0, 1<<20)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var records []session.Record
	for _, e := range entries {
		records = append(records, e.Record)
	}
	info, err := want.Info(tb.Context(), ref(id))
	if err != nil {
		t.Fatalf("%v", err)
	}
	takes := slices.ContainsFunc(records[info.Seq:], func(r session.Record) bool { return r.Change.Kind() == "inbox_taken" })
	for _, tail := range []bool{false, true} {
		seq := info.Seq
		if tail || takes { // such a tail becomes part of the version
			seq = int64(len(records))
		}
		made, err := session.Fold(records[:seq])
		if err != nil {
			t.Fatalf("%v", err)
		}
		stored, err := have.Load(tb.Context(), ref(id), tail)
		if err != nil {
			t.Fatalf("%v", err)
		}
		if session.Base(stored) != seq {
			t.Fatalf("%s: durable up to %d, want %d", id, session.Base(stored), seq)
		}
		if a, b := state(t, stored), state(t, made); a != b {
			t.Fatalf("%s with tail %t differs\nhave %s\nwant %s", id, tail, a, b)
		}
	}
}

func state(t failer, s session.Session) string {
	t.Helper()
	info := s.Info()
	raw, err := json.Marshal([]any{s.State(), s.Definition(), info.Fork, info.ParentID, info.Status, info.Task, info.Name, info.CreatedAt})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(raw)
}

// Whatever call fails, before or after it took effect: copying again completes
// the copy.
func TestCopy_goesOnAfterAnyFailure(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	property.CheckCases(t, 40, func(rt *property.T) {
		w := newWorld(rt)
		kept := inmem.New(inmem.Config{})
		call := property.SampledFrom([]string{"Create", "Fork", "Save", "Append", "Post", "Log", "Commits"}).Draw(rt, "call")
		nth := property.IntRange(1, 8).Draw(rt, "nth")
		failure := boom
		if property.Bool().Draw(rt, "after") {
			failure = storetest.After(boom)
		}
		broken := storetest.Faulty(kept, func(name string, n int) error {
			if name == call && n >= nth {
				return failure
			}
			return nil
		})
		if _, err := copyAll(t, w.st, broken); err != nil && !errors.Is(err, boom) {
			rt.Fatal(err)
		}
		mustCopyAll(rt, t, w.st, kept)
		for _, id := range w.there() {
			same(rt, t, kept, w.st, id)
		}
	})
}

func TestCopy_sessionThatDiffersIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, st full, s session.Session)
		seq    int64
	}{
		"it went on by itself":  {func(t *testing.T, st full, s session.Session) { save(t, st, named(t, s, "other")) }, 4},
		"its tail went on":      {func(t *testing.T, st full, s session.Session) { appendTo(t, st, named(t, s, "other")) }, 4},
		"an empty version more": {func(t *testing.T, st full, s session.Session) { save(t, st, s) }, 3},
		"another of that id": {func(t *testing.T, st full, s session.Session) {
			if err := st.Delete(t.Context(), ref(s.ID()), 0); err != nil {
				t.Fatal(err)
			}
			create(t, st, s.ID(), "agent-other")
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := inmem.New(inmem.Config{}), inmem.New(inmem.Config{})
			save(t, from, named(t, save(t, from, named(t, create(t, from, "a", "agent-a"), "one")), "two"))
			mustCopyAll(t, t, from, to)
			there, err := to.Load(t.Context(), ref("a"), true)
			if err != nil {
				t.Fatal(err)
			}
			c.change(t, to, there)
			before := everything(t, to, "a")
			_, err = transfer.New(from, to).Copy(t.Context(), ref("a"))
			var conflict *session.ConflictError
			if !errors.As(err, &conflict) || conflict.Reason != session.ReasonDiffers || conflict.ID != "a" || conflict.Have != c.seq {
				t.Errorf("got %v, want that a differs from change %d on", err, c.seq)
			}
			if after := everything(t, to, "a"); after != before {
				t.Errorf("the session in the target was changed\nbefore %s\nafter  %s", before, after)
			}
		})
	}
}

func everything(t *testing.T, st full, id string) string {
	t.Helper()
	entries, err := st.Log(t.Context(), ref(id), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	commits, err := st.Commits(t.Context(), ref(id), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal([]any{entries, commits})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func create(t *testing.T, st store.Store, id, agent string) session.Session {
	t.Helper()
	s, err := session.New(session.Identity{ID: id, AgentID: agent, Tenant: tenant}, session.Definition{Name: "tester"}, session.Seed{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if s, err = st.Create(t.Context(), s, store.Commit{ID: "create-" + agent, Action: "create", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return s
}

func named(t *testing.T, s session.Session, name string) session.Session {
	t.Helper()
	s, err := s.WithName(name, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func save(t *testing.T, st store.Store, s session.Session) session.Session {
	t.Helper()
	s, err := st.Save(t.Context(), s, store.Commit{ID: fmt.Sprintf("save-%d", s.Version()), Action: "test", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func appendTo(t *testing.T, st full, s session.Session) session.Session {
	t.Helper()
	s, err := st.Append(t.Context(), s, store.Append{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
