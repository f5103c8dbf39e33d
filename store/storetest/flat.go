package storetest

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func flatBehaviours() []behaviour {
	return []behaviour{
		{name: "flat/costDoesNotGrowWithHistory", needs: []string{Logs, Forks}, alone: true, check: costDoesNotGrow},
	}
}

const (
	fewTurns     = 10
	manyTurns    = 2000
	turnsPerSave = 5

	// growth is how much dearer a call may be after many turns than after few,
	// page what else may be written on the way.
	// What grows with the history would be dearer by a factor of 200.
	growth = 2.0
	page   = 8192
)

// costDoesNotGrow compares what saving, loading the window and forking cost
// after few turns and after many. It counts bytes, allocated and where the
// Data can tell written, because bytes do not depend on the machine.
func costDoesNotGrow(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "long"))
	s = addTurns(t, st, s, fewTurns)
	s, few := costs(t, d, st, s)
	s = addTurns(t, st, s, manyTurns)
	_, many := costs(t, d, st, s)
	for call, before := range few {
		if after := many[call]; float64(after) > growth*float64(before)+page {
			t.Errorf("%s: %d bytes after %d turns, %d after %d", call, before, fewTurns, after, manyTurns)
		}
	}
}

// addTurns adds turns of a question and an answer up to a number of turns. The
// window follows at a distance, as with a pruning policy.
func addTurns(t testing.TB, st store.Store, s session.Session, turns int) session.Session {
	t.Helper()
	for s.Info().MessageCount < 2*turns {
		// A long-lived program works with what it loaded, not with the whole.
		if s.Len() > 100 {
			s = load(t, st, store.RefOf(s))
		}
		next := s
		for range turnsPerSave {
			next = withTurn(t, next)
		}
		s = save(t, st, next)
	}
	return s
}

func withTurn(t testing.TB, s session.Session) session.Session {
	t.Helper()
	s = withMessage(t, withMessage(t, s, "a question of ordinary length"), "an answer of ordinary length")
	if n := s.Len(); n > 10 {
		s = withChanges(t, s, session.WindowMoved{Strategy: session.PruneSliding, To: s.Message(n - 8).Seq, Keep: []int64{}})
	}
	return s
}

// costs measures each call several times and returns the session after it. The
// least counts: what goes on in the background may add to a call, never take
// from it.
func costs(t testing.TB, d Data, st store.Store, s session.Session) (session.Session, map[string]uint64) {
	t.Helper()
	r := store.RefOf(s)
	found := map[string]uint64{}
	measure := func(what string, prepare func(i int), call func()) {
		var allocated, written []uint64
		for i := range 9 {
			prepare(i)
			a, w := bytesOf(d, call)
			allocated, written = append(allocated, a), append(written, w)
		}
		found["memory for "+what] = slices.Min(allocated)
		if d.Written != nil {
			found["data for "+what] = slices.Min(written)
		}
	}
	var next session.Session
	commitNext := func() { s = save(t, st, next) }
	measure("saving a turn", func(int) { s = load(t, st, r); next = withTurn(t, s) }, commitNext)
	measure("saving one metadata key", func(int) { s = load(t, st, r); next = withNote(t, s, "x") }, commitNext)
	measure("loading the window", func(int) {}, func() { load(t, st, r) })
	measure("reading the header", func(int) {}, func() { info(t, st, r) })
	measure("forking", func(i int) {
		f := newFork(t, load(t, st, r), fmt.Sprintf("fork-%d-%d", s.Version(), i))
		next = f
	}, func() {
		if _, err := ability[store.Forks](t, st).Fork(t.Context(), next, commit(next, "fork")); err != nil {
			t.Fatalf("fork: %v", err)
		}
	})
	return load(t, st, r), found
}

// bytesOf counts what a call allocates and writes.
func bytesOf(d Data, call func()) (allocated, written uint64) {
	var before, after runtime.MemStats
	var wrote int64
	if d.Written != nil {
		wrote = d.Written()
	}
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	if d.Written != nil {
		written = uint64(d.Written() - wrote)
	}
	return after.TotalAlloc - before.TotalAlloc, written
}
