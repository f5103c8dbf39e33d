package storetest

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// TestMain has properties that are meant to fail not look for the smallest
// history that shows it.
func TestMain(m *testing.M) {
	if err := os.Setenv("HOLDFAST_TEST_REDUCE", "0s"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// recorder is a test that notes failures in place of reporting them.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failures []string // guarded by mu
}

func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, text)
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) > 0
}

func (r *recorder) Fail()                             { r.note("failed") }
func (r *recorder) FailNow()                          { r.note("failed"); runtime.Goexit() }
func (r *recorder) Error(args ...any)                 { r.note(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.note(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatal(args ...any)                 { r.note(fmt.Sprint(args...)); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) {
	r.note(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// failuresOf runs one check and returns what it complained about.
func failuresOf(t *testing.T, b behaviour, d Data) []string {
	t.Helper()
	r := &recorder{TB: t}
	var done sync.WaitGroup
	done.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				r.note(fmt.Sprint("panic: ", v))
			}
		}()
		b.check(r, d)
	})
	done.Wait()
	return r.failures
}

func dataOf(wrap func(Full) store.Store) Data {
	clock := NewClock()
	first := inmem.New(inmem.Config{Now: clock.Now})
	return Data{Clock: clock, Open: func(testing.TB) store.Store { return wrap(first.Handle()) }}
}

// TestSuite_catchesBrokenStores breaks a good store in one way after another
// and expects each of the named checks to fail.
func TestSuite_catchesBrokenStores(t *testing.T) {
	checks := map[string]behaviour{}
	for _, b := range behaviours() {
		checks[b.name] = b
	}
	proven := map[string]bool{} // checks that the good store passed
	for name, m := range allMutants() {
		t.Run(name, func(t *testing.T) {
			for _, by := range m.caughtBy {
				b, ok := checks[by]
				if !ok {
					t.Fatalf("the suite has no check %s", by)
				}
				if !proven[by] {
					if failures := failuresOf(t, b, dataOf(func(s Full) store.Store { return s })); len(failures) != 0 {
						t.Fatalf("%s fails on a good store: %s", by, failures[0])
					}
					proven[by] = true
				}
				failures := failuresOf(t, b, dataOf(m.wrap))
				for try := 1; len(failures) == 0 && try < 5; try++ { // calls at once show a mistake only in some orders
					failures = failuresOf(t, b, dataOf(m.wrap))
				}
				if len(failures) == 0 {
					t.Errorf("%s passes", by)
					continue
				}
				t.Logf("%s: %.160s", by, failures[0])
			}
		})
	}
}

type mutant struct {
	wrap     func(Full) store.Store
	caughtBy []string
}

func allMutants() map[string]mutant {
	all := mutants()
	for _, more := range []map[string]mutant{memoryMutants(), searchMutants(), vectorMutants(), startMutants(), workMutants(), spendingMutants()} {
		maps.Copy(all, more)
	}
	return all
}

func mutants() map[string]mutant {
	return map[string]mutant{
		"version check loosened": {func(s Full) store.Store { return looseVersion{s} }, []string{
			"matrix/staleVersionLosesUntilReloaded", "matrix/checksRunInOrder", "concurrency/ofManyWritersOneWins", "linearizable/versions"}},
		"fence check dropped": {func(s Full) store.Store { return noFence{s} }, []string{
			"lease/lateWritesAreFencedForEver", "lease/releasedTokenIsFenced", "matrix/checksRunInOrder", "linearizable/leasesAndFences"}},
		"live lease ignored": {func(s Full) store.Store { return noBusy{s} }, []string{
			"lease/writersWithoutItAreBusy", "matrix/checksRunInOrder", "linearizable/leasesAndFences"}},
		"agent not compared":          {func(s Full) store.Store { return noAgent{s} }, []string{"matrix/checksRunInOrder", "linearizable/versions"}},
		"tail checked before version": {func(s Full) store.Store { return tailFirst{s} }, []string{"matrix/checksRunInOrder"}},
		"save makes two versions":     {func(s Full) store.Store { return twoVersions{s} }, []string{"matrix/saveAddsExactlyOneVersion"}},
		"discard ignored": {func(s Full) store.Store { return noDiscard{s} }, []string{
			"tail/discardedLeavesTheStateAlone", "tail/partOfItCanBeDiscarded", "keys/discardedTailForgetsThem", "inbox/discardGivesBack",
			"history/discardedChangesStayInTheLog"}},
		"tail not loaded": {func(s Full) store.Store { return noTail{s} }, []string{
			"tail/isDurableAndNotAVersion", "tail/survivesReopening", "tail/mustBeSeenToBeSealed"}},
		"inbox taken twice": {func(s Full) store.Store { return takesTwice{s} }, []string{
			"inbox/itemsAreTakenOnce", "inbox/ofManyTakersOneWins", "inbox/saveTakesToo"}},
		"inbox unordered":  {func(s Full) store.Store { return unordered{s} }, []string{"inbox/keepsItemsInOrder"}},
		"memory shared":    {func(s Full) store.Store { return &shared{Full: s, infos: map[store.Ref]session.Info{}} }, []string{"isolation/headersAreCopies"}},
		"stale reads":      {func(s Full) store.Store { return &staleReads{Full: s, last: map[store.Ref]session.Session{}} }, []string{"linearizable/versions"}},
		"release ignored":  {func(s Full) store.Store { return noRelease{s} }, []string{"lease/saveCanRelease"}},
		"lease for ever":   {func(s Full) store.Store { return forEver{s} }, []string{"lease/expiresAndIsTakenOver", "lease/renewingProlongsIt"}},
		"lease reentrant":  {func(s Full) store.Store { return reentrant{s} }, []string{"lease/oneHolderAtATime", "linearizable/leasesAndFences"}},
		"keys forgotten":   {func(s Full) store.Store { return noKeys{s} }, []string{"keys/areWrittenWithTheSave", "keys/ofManyUsersOneIsRemembered"}},
		"last use counts":  {func(s Full) store.Store { return lastUse{s, map[string]string{}} }, []string{"keys/firstUseCounts"}},
		"log with a gap":   {func(s Full) store.Store { return gap{s} }, []string{"history/logHasNoGapAndNoRepeat", "history/logFollowsALiveWriter", "roundtrip/everyFieldAndEveryChange", "watch/seesEveryChangeOnceAndInOrder"}},
		"version off by 1": {func(s Full) store.Store { return offByOne{s} }, []string{"history/everyVersionLoads"}},
		"told after stop":  {func(s Full) store.Store { return silent{s} }, []string{"wake/stoppedSubscriberIsSilent"}},
		"fork with tail":   {func(s Full) store.Store { return joined{s} }, []string{"fork/andParentNeverAffectEachOther"}},
		"cursor unchecked": {func(s Full) store.Store { return anyCursor{s} }, []string{"list/foreignAndAlteredCursorsAreRefused"}},
		"deleted listed":   {func(s Full) store.Store { return showsDeleted{s} }, []string{"list/filtersByEveryField"}},
		"metadata of the first version": {func(s Full) store.Store { return firstMetadata{s, map[store.Ref]session.Session{}} }, []string{
			"list/findsMetadataAsItIs", "list/findsMetadataOfTheTailOnceSealed", "list/findsMetadataOfForks", "list/findsAnyOfManyKeys"}},
		"page too short":   {func(s Full) store.Store { return shortPage{s} }, []string{"list/pagesAreStableUnderInserts", "list/hasLimits"}},
		"tenants mixed":    {func(s Full) store.Store { return oneTenant{s} }, []string{"tenants/neverMeet"}},
		"times cut":        {func(s Full) store.Store { return coarse{s} }, []string{"roundtrip/timesKeepMicroseconds"}},
		"tools confused":   {func(s Full) store.Store { return noNil{s} }, []string{"roundtrip/nilAndEmptyToolsDiffer"}},
		"context ignored":  {func(s Full) store.Store { return deaf{s} }, []string{"basics/endedContextRefusesEverything"}},
		"held are swept":   {func(s Full) store.Store { return sweepsAll{s} }, []string{"retention/sparesWhatIsInUse"}},
		"rewrites history": {func(s Full) store.Store { return rewrites{s} }, []string{"flat/costDoesNotGrowWithHistory"}},
	}
}
