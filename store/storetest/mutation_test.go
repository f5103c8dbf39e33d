package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

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
	for name, m := range mutants() {
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
		"log with a gap":   {func(s Full) store.Store { return gap{s} }, []string{"history/logHasNoGapAndNoRepeat", "history/logFollowsALiveWriter", "roundtrip/everyFieldAndEveryChange"}},
		"version off by 1": {func(s Full) store.Store { return offByOne{s} }, []string{"history/everyVersionLoads"}},
		"silent bell":      {func(s Full) store.Store { return silent{s} }, []string{"wake/stoppedBellIsSilent"}},
		"fork with tail":   {func(s Full) store.Store { return joined{s} }, []string{"fork/andParentNeverAffectEachOther"}},
		"cursor unchecked": {func(s Full) store.Store { return anyCursor{s} }, []string{"list/foreignAndAlteredCursorsAreRefused"}},
		"deleted listed":   {func(s Full) store.Store { return showsDeleted{s} }, []string{"list/filtersByEveryField"}},
		"page too short":   {func(s Full) store.Store { return shortPage{s} }, []string{"list/pagesAreStableUnderInserts", "list/hasLimits"}},
		"tenants mixed":    {func(s Full) store.Store { return oneTenant{s} }, []string{"tenants/neverMeet"}},
		"times cut":        {func(s Full) store.Store { return coarse{s} }, []string{"roundtrip/timesKeepMicroseconds"}},
		"tools confused":   {func(s Full) store.Store { return noNil{s} }, []string{"roundtrip/nilAndEmptyToolsDiffer"}},
		"context ignored":  {func(s Full) store.Store { return deaf{s} }, []string{"basics/endedContextRefusesEverything"}},
		"held are swept":   {func(s Full) store.Store { return sweepsAll{s} }, []string{"retention/sparesWhatIsInUse"}},
		"rewrites history": {func(s Full) store.Store { return rewrites{s} }, []string{"flat/costDoesNotGrowWithHistory"}},
	}
}

type looseVersion struct{ Full }

func (m looseVersion) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	saved, err := m.Full.Save(ctx, s, c)
	var conflict *session.ConflictError
	if !errors.As(err, &conflict) || conflict.Reason != session.ReasonStale {
		return saved, err
	}
	now, err := m.Load(ctx, store.RefOf(s), true)
	if err != nil {
		return now, err
	}
	for _, r := range s.Pending() {
		if now, err = now.With(r.At, r.Change); err != nil {
			return now, err
		}
	}
	return m.Full.Save(ctx, now, c)
}

type noFence struct{ Full }

func (m noFence) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	saved, err := m.Full.Save(ctx, s, c)
	if errors.Is(err, session.ErrFenced) {
		l, _, _ := m.Holding(ctx, store.RefOf(s))
		c.Fence = l.Token
		return m.Full.Save(ctx, s, c)
	}
	return saved, err
}

type noBusy struct{ Full }

func (m noBusy) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	if l, live, _ := m.Holding(ctx, store.RefOf(s)); live && c.Fence == 0 {
		c.Fence = l.Token
	}
	return m.Full.Save(ctx, s, c)
}

type noAgent struct{ Full }

func (m noAgent) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	saved, err := m.Full.Save(ctx, s, c)
	var conflict *session.ConflictError
	if errors.As(err, &conflict) && conflict.Reason == session.ReasonReplaced {
		conflict.Reason = session.ReasonStale
	}
	return saved, err
}

type tailFirst struct{ Full }

func (m tailFirst) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	saved, err := m.Full.Save(ctx, s, c)
	var conflict *session.ConflictError
	if errors.As(err, &conflict) && conflict.Reason == session.ReasonStale {
		if now, err := m.Load(ctx, store.RefOf(s), true); err == nil && now.HasTail() {
			conflict.Reason = session.ReasonOpenTail
		}
	}
	return saved, err
}

type twoVersions struct{ Full }

func (m twoVersions) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	saved, err := m.Full.Save(ctx, s, c)
	if err != nil {
		return saved, err
	}
	return m.Full.Save(ctx, saved, c)
}

// noDiscard writes a note in the place of the refusal.
type noDiscard struct{ Full }

func (m noDiscard) Append(ctx context.Context, s session.Session, a store.Append) (session.Session, error) {
	s, err := replaced(s, session.TailDiscarded{}.Kind())
	if err != nil {
		return s, err
	}
	return m.Full.Append(ctx, s, a)
}

// replaced is the session with changes of a kind made harmless.
func replaced(s session.Session, kind string) (session.Session, error) {
	return s.Amend(func(c session.Change) (session.Change, error) {
		if c.Kind() == kind {
			return session.MetadataWritten{Key: "replaced", Value: json.RawMessage(`1`)}, nil
		}
		return c, nil
	})
}

type noTail struct{ Full }

func (m noTail) Load(ctx context.Context, r store.Ref, _ bool) (session.Session, error) {
	return m.Full.Load(ctx, r, false)
}

type takesTwice struct{ Full }

func (m takesTwice) Append(ctx context.Context, s session.Session, a store.Append) (session.Session, error) {
	s, err := replaced(s, session.InboxTaken{}.Kind())
	if err != nil {
		return s, err
	}
	return m.Full.Append(ctx, s, a)
}

func (m takesTwice) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	s, err := replaced(s, session.InboxTaken{}.Kind())
	if err != nil {
		return s, err
	}
	return m.Full.Save(ctx, s, c)
}

type unordered struct{ Full }

func (m unordered) Inbox(ctx context.Context, r store.Ref) ([]store.Item, error) {
	items, err := m.Full.Inbox(ctx, r)
	slices.SortFunc(items, func(a, b store.Item) int { return strings.Compare(a.ID, b.ID) })
	return items, err
}

// shared returns one header to everybody.
type shared struct {
	Full
	mu    sync.Mutex
	infos map[store.Ref]session.Info
}

func (m *shared) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i, ok := m.infos[r]; ok {
		return i, nil
	}
	i, err := m.Full.Info(ctx, r)
	m.infos[r] = i
	return i, err
}

// staleReads remembers what it read last and returns it once more.
type staleReads struct {
	Full
	mu   sync.Mutex
	last map[store.Ref]session.Session
}

func (m *staleReads) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.last[r]
	if ok {
		delete(m.last, r)
		return old, nil
	}
	s, err := m.Full.Load(ctx, r, tail)
	if err == nil {
		m.last[r] = s
	}
	return s, err
}

type noRelease struct{ Full }

func (m noRelease) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	c.Release = false
	return m.Full.Save(ctx, s, c)
}

type forEver struct{ Full }

func (m forEver) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	return m.Full.Acquire(ctx, r, holder, 1000*length)
}

func (m forEver) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	return m.Full.Renew(ctx, r, l, 1000*length)
}

type reentrant struct{ Full }

func (m reentrant) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	if l, live, err := m.Holding(ctx, r); live && err == nil && l.Holder == holder {
		return l, nil
	}
	return m.Full.Acquire(ctx, r, holder, length)
}

type noKeys struct{ Full }

func (m noKeys) Key(context.Context, store.Ref, string) (store.KeyUse, bool, error) {
	return store.KeyUse{}, false, nil
}

type lastUse struct {
	Full
	used map[string]string
}

func (m lastUse) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	for _, k := range c.Keys {
		m.used[k.Name] = k.Fingerprint
	}
	return m.Full.Save(ctx, s, c)
}

func (m lastUse) Key(ctx context.Context, r store.Ref, name string) (store.KeyUse, bool, error) {
	use, known, err := m.Full.Key(ctx, r, name)
	use.Fingerprint = m.used[name]
	return use, known, err
}

// gap leaves out the third change.
type gap struct{ Full }

func (m gap) Log(ctx context.Context, r store.Ref, after int64, limit int) ([]session.LogEntry, error) {
	entries, err := m.Full.Log(ctx, r, after, limit)
	if len(entries) > 1 {
		entries = slices.DeleteFunc(entries, func(e session.LogEntry) bool { return e.Seq == 3 })
	}
	return entries, err
}

type offByOne struct{ Full }

func (m offByOne) LoadAt(ctx context.Context, r store.Ref, version int64) (session.Session, error) {
	return m.Full.LoadAt(ctx, r, max(1, version-1))
}

// silent rings for ever after stop instead of being silent.
type silent struct{ Full }

func (m silent) Bell(r store.Ref) (<-chan struct{}, func()) {
	bell, _ := m.Full.Bell(r)
	return bell, func() {}
}

// joined lets a parent's later saves show in its forks.
type joined struct{ Full }

func (m joined) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	s, err := m.Full.Load(ctx, r, tail)
	if err != nil || s.Info().ParentID == "" {
		return s, err
	}
	return m.Full.Load(ctx, store.Ref{Tenant: r.Tenant, ID: s.Info().ParentID}, tail)
}

type anyCursor struct{ Full }

func (m anyCursor) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	page, err := m.Full.List(ctx, tenant, q)
	if err != nil && q.Cursor != "" {
		q.Cursor = ""
		return m.Full.List(ctx, tenant, q)
	}
	return page, err
}

type showsDeleted struct{ Full }

func (m showsDeleted) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	q.IncludeDeleted = true
	return m.Full.List(ctx, tenant, q)
}

type shortPage struct{ Full }

func (m shortPage) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	page, err := m.Full.List(ctx, tenant, q)
	if page.Next != "" {
		page.Items = page.Items[:len(page.Items)-1]
	}
	return page, err
}

type oneTenant struct{ Full }

func (m oneTenant) List(ctx context.Context, tenant string, q store.Query) (store.Page, error) {
	page, err := m.Full.List(ctx, tenant, q)
	more, _ := m.Full.List(ctx, tenant+"-b", q)
	page.Items = append(page.Items, more.Items...)
	return page, err
}

type coarse struct{ Full }

func (m coarse) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	i, err := m.Full.Info(ctx, r)
	i.UpdatedAt = i.UpdatedAt.Truncate(time.Millisecond)
	return i, err
}

// noNil reads an empty list where there was none.
type noNil struct{ Full }

func (m noNil) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	s, err := m.Full.Load(ctx, r, tail)
	if err != nil {
		return s, err
	}
	raw, err := s.MarshalJSON()
	if err != nil {
		return s, err
	}
	return session.Decode(bytes.ReplaceAll(raw, []byte(`"tools":null`), []byte(`"tools":[]`)))
}

type deaf struct{ Full }

func (m deaf) Info(ctx context.Context, r store.Ref) (session.Info, error) {
	return m.Full.Info(context.WithoutCancel(ctx), r)
}

type sweepsAll struct{ Full }

func (m sweepsAll) Sweepable(ctx context.Context, tenant string, r store.Retention, _ time.Time) ([]session.Info, error) {
	page, err := m.List(ctx, tenant, store.Query{Statuses: r.Statuses})
	return page.Items, err
}

// rewrites uses memory for every message the session ever had.
type rewrites struct{ Full }

func (m rewrites) Save(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	document := make([]byte, 0, 100*s.Info().MessageCount)
	for range s.Info().MessageCount {
		document = append(document, "a message that was written already"...)
	}
	if !bytes.Contains(document, []byte("never")) {
		c.Actor = "rewriter"
	}
	return m.Full.Save(ctx, s, c)
}
