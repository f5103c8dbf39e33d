package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// gate stops the writer at a point, once it is shut, until it is opened.
type gate struct {
	point   string
	shut    atomic.Bool
	reached chan struct{}
	open    chan struct{}
	commits atomic.Int64
}

func newGate(point string) *gate {
	return &gate{point: point, reached: make(chan struct{}), open: make(chan struct{})}
}

func (g *gate) onWrite(point string) {
	if point == "after commit" {
		g.commits.Add(1)
	}
	if point == g.point && g.shut.CompareAndSwap(true, false) {
		close(g.reached)
		<-g.open
	}
}

// waitUntil looks again and again.
func waitUntil(t *testing.T, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it never came")
		}
	}
}

// together saves each session while the writer is held at the first, so that
// all but the first wait for it, and gives the errors.
func together(t *testing.T, st *sqlite.Store, g *gate, saves []session.Session) []error {
	t.Helper()
	errs := make([]error, len(saves))
	var wg sync.WaitGroup
	g.shut.Store(true)
	for i, s := range saves {
		wg.Go(func() {
			_, errs[i] = st.Save(t.Context(), s, store.Commit{ID: fmt.Sprint(i), At: noon()})
		})
		if i == 0 {
			<-g.reached
		}
	}
	waitUntil(t, func() bool { return st.Queued() == len(saves)-1 })
	close(g.open)
	wg.Wait()
	return errs
}

func TestSave_concurrentSaversShareACommit(t *testing.T) {
	t.Parallel()
	g := newGate("before commit")
	path := filepath.Join(t.TempDir(), "sessions.db")
	st := open(t, path, sqlite.Config{OnWrite: g.onWrite})
	var saves []session.Session
	for i := range 21 {
		saves = append(saves, said(t, create(t, st, fmt.Sprintf("s%d", i)), "hello"))
	}
	before := g.commits.Load()
	for i, err := range together(t, st, g, saves) {
		if err != nil {
			t.Errorf("save %d: %v", i, err)
		}
	}
	if n := g.commits.Load() - before; n != 2 {
		t.Errorf("%d commits for one saver and twenty that came while it was written, want 2", n)
	}
	other := open(t, path, sqlite.Config{})
	for i := range saves {
		if s := load(t, other, fmt.Sprintf("s%d", i)); s.Version() != 2 || len(texts(s)) != 1 {
			t.Errorf("s%d is at version %d", i, s.Version())
		}
	}
}

func TestSave_refusedInABatchLeavesTheOthersSaved(t *testing.T) {
	t.Parallel()
	g := newGate("before commit")
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{OnWrite: g.onWrite})
	first := create(t, st, "first")
	a, b, c := create(t, st, "a"), create(t, st, "b"), create(t, st, "c")
	taking, err := c.With(noon(), session.MetadataWritten{Key: "half", Value: []byte("1")}, session.InboxTaken{ItemID: "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	commits := g.commits.Load()
	errs := together(t, st, g, []session.Session{
		said(t, first, "first"), said(t, a, "wins"), said(t, a, "loses"), taking, said(t, b, "saved"), fresh(t, "missing"),
	})
	for i, want := range []error{nil, nil, session.ErrConflict, session.ErrInvalid, nil, session.ErrNotFound} {
		// Which of the two savers of a comes first is not said.
		if i == 1 && errors.Is(errs[1], session.ErrConflict) {
			errs[1], errs[2] = errs[2], errs[1]
		}
		if !errors.Is(errs[i], want) {
			t.Errorf("save %d: %v, want %v", i, errs[i], want)
		}
	}
	// The one that was refused after it had written took the others' common
	// transaction with it, so that each got its own.
	if n := g.commits.Load() - commits; n != 3 {
		t.Errorf("%d commits, want 3", n)
	}
	if s := load(t, st, "c"); len(s.Metadata()) != 0 || s.Seq() != c.Seq() || s.Version() != c.Version() {
		t.Errorf("the refused save left something behind: %v, change %d, version %d", s.Metadata(), s.Seq(), s.Version())
	}
	if s := load(t, st, "b"); len(texts(s)) != 1 || s.Seq() != b.Seq()+1 {
		t.Errorf("its neighbour was not saved: %q, change %d", texts(s), s.Seq())
	}
	healthy(t, st)
}

func TestSave_refusedBeforeItWritesCostsTheOthersNothing(t *testing.T) {
	t.Parallel()
	g := newGate("before commit")
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{OnWrite: g.onWrite})
	first, a, b := create(t, st, "first"), create(t, st, "a"), create(t, st, "b")
	commits := g.commits.Load()
	errs := together(t, st, g, []session.Session{said(t, first, "first"), said(t, a, "one"), said(t, a, "two"), said(t, b, "saved"), fresh(t, "missing")})
	refused := 0
	for _, err := range errs {
		if err != nil {
			refused++
		}
	}
	if n := g.commits.Load() - commits; n != 2 || refused != 2 {
		t.Errorf("%d commits, want 2; %d refused: %v", n, refused, errs)
	}
	healthy(t, st)
}

func TestLoad_isNotBlockedByAnOpenWrite(t *testing.T) {
	t.Parallel()
	g := newGate("after request")
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{OnWrite: g.onWrite})
	s := create(t, st, "s")
	g.shut.Store(true)
	saved := make(chan error, 1)
	go func() {
		_, err := st.Save(t.Context(), said(t, s, "not yet"), store.Commit{})
		saved <- err
	}()
	<-g.reached
	if got := load(t, st, "s"); got.Version() != 1 || got.Len() != 0 {
		t.Errorf("version %d with %d messages in the middle of a save", got.Version(), got.Len())
	}
	if page, err := st.List(t.Context(), session.DefaultTenant, store.Query{}); err != nil || len(page.Items) != 1 {
		t.Errorf("list: %d, %v", len(page.Items), err)
	}
	close(g.open)
	if err := <-saved; err != nil {
		t.Fatal(err)
	}
	if got := load(t, st, "s"); got.Version() != 2 {
		t.Errorf("version %d after the save", got.Version())
	}
}

func TestSave_lockedByAnotherProcessIsBusyWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	g := newGate("after begin")
	holder, st := open(t, path, sqlite.Config{OnWrite: g.onWrite}), open(t, path, sqlite.Config{})
	s := create(t, st, "s")
	g.shut.Store(true)
	held := make(chan error, 1)
	go func() { held <- holder.Post(t.Context(), ref("s"), store.Item{ID: "i", Kind: store.ItemCancel}) }()
	<-g.reached
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	late := make(chan error, 1)
	go func() {
		_, err := st.Save(ctx, said(t, s, "late"), store.Commit{})
		late <- err
	}()
	waitUntil(t, st.Blocked)
	giveUp()
	var busy *session.BusyError
	if err := <-late; !errors.As(err, &busy) || busy.ID != "s" || !errors.Is(err, context.Canceled) {
		t.Errorf("save while another writes: %v, want BusyError and the context's", err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := st.Save(t.Context(), said(t, s, "patient"), store.Commit{})
		waits <- err
	}()
	close(g.open)
	if err := errors.Join(<-held, <-waits); err != nil {
		t.Errorf("after the lock was free: %v", err)
	}
	if got := texts(load(t, holder, "s")); len(got) != 1 || got[0] != "patient" {
		t.Errorf("it says %q: what was given up was written", got)
	}
}

func TestClose_refusesWhoWaitsForALock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	g := newGate("after begin")
	holder := open(t, path, sqlite.Config{OnWrite: g.onWrite})
	st, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := create(t, st, "s")
	g.shut.Store(true)
	held := make(chan error, 1)
	go func() { held <- holder.Delete(t.Context(), ref("other"), 0) }()
	<-g.reached
	waits := make(chan error, 1)
	go func() {
		_, err := st.Save(t.Context(), s, store.Commit{})
		waits <- err
	}()
	waitUntil(t, st.Blocked)
	if err := st.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-waits; !errors.Is(err, session.ErrClosed) {
		t.Errorf("save that waited: %v, want ErrClosed", err)
	}
	close(g.open)
	if err := <-held; err != nil {
		t.Error(err)
	}
}

func TestSave_fullDiskRefusesOneAndSavesTheOthers(t *testing.T) {
	t.Parallel()
	g := newGate("before commit")
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{OnWrite: g.onWrite})
	a, b, c := create(t, st, "a"), create(t, st, "b"), create(t, st, "c")
	pages, err := st.Count(t.Context(), "PRAGMA page_count")
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, st, fmt.Sprintf("PRAGMA max_page_count = %d", pages+4))
	big := b
	for range 500 {
		big = said(t, big, fmt.Sprintf("%d %s", big.Len(), strings.Repeat("x", 200)))
	}
	errs := together(t, st, g, []session.Session{said(t, a, "first"), big, said(t, c, "saved")})
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("small saves beside one that does not fit: %v, %v", errs[0], errs[2])
	}
	if !strings.Contains(fmt.Sprint(errs[1]), "full") || errors.Is(errs[1], session.ErrUnknownOutcome) {
		t.Errorf("the save that does not fit: %v, want a full disk", errs[1])
	}
	if s := load(t, st, "b"); s.Version() != 1 || s.Len() != 0 {
		t.Errorf("the refused save left version %d with %d messages", s.Version(), s.Len())
	}
	healthy(t, st)
	rewrite(t, st, "PRAGMA max_page_count = 1000000")
	save(t, st, big)
	healthy(t, st)
}

func TestSubscribe_tellsOfWritesOfOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	st, other := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{})
	news, stop := st.Subscribe(ref("s"))
	defer stop()
	s := create(t, other, "s")
	for range 3 {
		waitFor(t, news)
		s = save(t, other, s)
	}
	waitFor(t, news)
}

func waitFor(t *testing.T, news <-chan struct{}) {
	t.Helper()
	select {
	case <-news:
	case <-time.After(time.Minute):
		t.Fatal("no news")
	}
}
