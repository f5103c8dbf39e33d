// Package storetest is the one suite every store passes. A store's own test
// is a call of Run:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t testing.TB) storetest.Data {
//			dir, clock := t.TempDir(), storetest.NewClock()
//			return storetest.Data{
//				Clock: clock,
//				Open: func(t testing.TB) store.Store { return open(t, dir, clock.Now) },
//			}
//		})
//	}
//
// Each promise of package store is one subtest, named after the promise. What
// a store cannot do is reported as a skipped subtest that names the missing
// ability, never left out silently.
package storetest

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/store"
)

// Data is an empty place for sessions.
type Data struct {
	// Open gives a further handle on the same data; the first call opens it.
	// The one who opens closes: Open registers a Cleanup that closes the
	// handle, which the suite may have closed before.
	Open func(t testing.TB) store.Store

	// Clock is the clock the store reads, nil where it has one of its own.
	Clock *Clock

	// Corrupt damages the data of one session so that a handle that is opened
	// afterwards cannot read it. Nil: the suite cannot reach the data.
	Corrupt func(t testing.TB, r store.Ref)

	// Newer makes one session look as if a newer program had written it. Nil:
	// the suite cannot reach the data.
	Newer func(t testing.TB, r store.Ref)

	// Damages alter what is stored of one session, each in a way of its own, and
	// each so that something of the session is not what was written. Nil: the
	// suite cannot reach the data.
	Damages map[string]func(t testing.TB, r store.Ref)

	// Cases is how many random histories are compared with a model. 0: 100. The
	// environment variable HOLDFAST_TEST_CASES overrides it.
	Cases int

	// Written counts the bytes the store has written so far. Nil: nobody counts.
	Written func() int64
}

func (d Data) cases() int {
	if d.Cases == 0 {
		return 100
	}
	return d.Cases
}

// Names of the abilities, as Abilities and skipped subtests give them.
const (
	Tails    = "Tails"
	Leases   = "Leases"
	Starts   = "Starts"
	Logs     = "Logs"
	Forks    = "Forks"
	Inboxes  = "Inboxes"
	Wakes    = "Wakes"
	Work     = "Work"
	Spends   = "Spends"
	Keys     = "Keys"
	Sweeps   = "Sweeps"
	Memories = "Memories"
	Vectors  = "Vectors"
	Doctors  = "Doctors"
)

// What a behaviour needs of the Data rather than of the store.
const (
	settableClock = "settable clock"
	corruptHook   = "way to corrupt a session"
	newerHook     = "way to make a session newer"
	damageHook    = "way to damage a session"
)

// Abilities names the optional interfaces of package store that s implements.
func Abilities(s store.Store) []string {
	var names []string
	add := func(name string, ok bool) {
		if ok {
			names = append(names, name)
		}
	}
	_, ok := s.(store.Tails)
	add(Tails, ok)
	_, ok = s.(store.Leases)
	add(Leases, ok)
	_, ok = s.(store.Starts)
	add(Starts, ok)
	_, ok = s.(store.Logs)
	add(Logs, ok)
	_, ok = s.(store.Forks)
	add(Forks, ok)
	_, ok = s.(store.Inboxes)
	add(Inboxes, ok)
	_, ok = s.(store.Wakes)
	add(Wakes, ok)
	_, ok = s.(store.Work)
	add(Work, ok)
	_, ok = s.(store.Spends)
	add(Spends, ok)
	_, ok = s.(store.Keys)
	add(Keys, ok)
	_, ok = s.(store.Sweeps)
	add(Sweeps, ok)
	_, ok = s.(store.Memories)
	add(Memories, ok)
	_, ok = s.(store.Vectors)
	add(Vectors, ok)
	_, ok = s.(store.Doctors)
	add(Doctors, ok)
	return names
}

// behaviour is one promise and the check that a store keeps it. The check
// gets a testing.TB so that the suite can be tested itself, with stores that
// are known to be broken.
type behaviour struct {
	name  string   // area/promise
	needs []string // abilities and hooks without which there is nothing to check
	alone bool     // measures something that a neighbour would disturb
	check func(t testing.TB, d Data)
}

func behaviours() []behaviour {
	return slices.Concat(
		basicsBehaviours(),
		matrixBehaviours(),
		roundtripBehaviours(),
		isolationBehaviours(),
		concurrencyBehaviours(),
		linearizableBehaviours(),
		leaseBehaviours(),
		startBehaviours(),
		tailBehaviours(),
		inboxBehaviours(),
		keysBehaviours(),
		listBehaviours(),
		corruptBehaviours(),
		damageBehaviours(),
		forkBehaviours(),
		historyBehaviours(),
		wakeBehaviours(),
		watchBehaviours(),
		workBehaviours(),
		spendingBehaviours(),
		retentionBehaviours(),
		tenantsBehaviours(),
		flatBehaviours(),
		memoryBehaviours(),
		searchBehaviours(),
		vectorBehaviours(),
		doctorBehaviours(),
	)
}

// Run checks everything package store promises. Fresh makes an empty place;
// it is called once for each promise. The subtests run in parallel.
func Run(t *testing.T, fresh func(t testing.TB) Data) {
	for _, b := range behaviours() {
		t.Run(b.name, func(t *testing.T) {
			if !b.alone {
				t.Parallel()
			}
			d := fresh(t)
			if missing := firstMissing(t, d, b.needs); missing != "" {
				t.Skipf("store has no ability %s", missing)
			}
			b.check(t, d)
		})
	}
}

// firstMissing returns the first need that a store and its data do not meet.
func firstMissing(t testing.TB, d Data, needs []string) string {
	have := Abilities(d.Open(t))
	if d.Clock != nil {
		have = append(have, settableClock)
	}
	if d.Corrupt != nil {
		have = append(have, corruptHook)
	}
	if d.Newer != nil {
		have = append(have, newerHook)
	}
	if d.Damages != nil {
		have = append(have, damageHook)
	}
	for _, need := range needs {
		if !slices.Contains(have, need) {
			return need
		}
	}
	return ""
}
