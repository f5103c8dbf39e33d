package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

func TestStore_everyWriteIsOneTransaction(t *testing.T) {
	t.Parallel()
	commits := map[string]int{}
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{OnWrite: func(point string) { commits[point]++ }})
	once := func(what string, do func() error) {
		t.Helper()
		clear(commits)
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if commits["after begin"] != 1 || commits["after commit"] != 1 {
			t.Errorf("%s: %d transactions begun and %d committed, want one", what, commits["after begin"], commits["after commit"])
		}
	}
	var s, f session.Session
	var l store.Lease
	once("create", func() (err error) {
		s, err = st.Create(t.Context(), fresh(t, "s"), store.Commit{ID: "1"})
		return err
	})
	once("start", func() (err error) {
		s, l, err = st.Start(t.Context(), said(t, s, "begin"), store.Beginning{Holder: "me", Length: time.Minute, Keys: []store.Key{{Name: "k"}}})
		return err
	})
	once("append", func() (err error) {
		s, err = st.Append(t.Context(), said(t, said(t, s, "two"), "three"), store.Append{Fence: l.Token, Keys: []store.Key{{Name: "l"}}})
		return err
	})
	once("save and release", func() (err error) {
		s, err = st.Save(t.Context(), said(t, s, "four"), store.Commit{ID: "2", Fence: l.Token, Release: true, Keys: []store.Key{{Name: "m"}}})
		return err
	})
	for range 50 { // one of them with a head, and too few for the index of words
		once("save", func() (err error) {
			s, err = st.Save(t.Context(), said(t, s, fmt.Sprint(s.Version())), store.Commit{ID: "3"})
			return err
		})
	}
	once("save of nothing", func() (err error) {
		s, err = st.Save(t.Context(), s, store.Commit{ID: "4"})
		return err
	})
	if f, _ = s.Fork("f", "agent-f", noon()); f.IsZero() {
		t.Fatal("no fork")
	}
	once("fork", func() error {
		_, err := st.Fork(t.Context(), f, store.Commit{ID: "5"})
		return err
	})
	once("delete", func() error { return st.Delete(t.Context(), ref("s"), 0) })
	healthy(t, st)
}

func TestRenew_outlivesASlowDisk(t *testing.T) {
	t.Parallel()
	slow := func(point string) {
		if point == "before commit" {
			time.Sleep(10 * time.Millisecond) // it is the disk that sleeps
		}
	}
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{OnWrite: slow})
	create(t, st, "held")
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 8 { // who keep the disk busy
		s := create(t, st, fmt.Sprintf("s%d", i))
		wg.Go(func() {
			for ctx.Err() == nil {
				next, err := st.Save(ctx, s, store.Commit{})
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("save: %v", err)
					}
					return
				}
				s = next
			}
		})
	}
	l, err := st.Acquire(t.Context(), ref("held"), "me", 30*time.Second)
	for range 20 {
		if err != nil {
			break
		}
		l, err = st.Renew(t.Context(), ref("held"), l, 30*time.Second)
	}
	if err != nil {
		t.Errorf("renew: %v", err)
	}
	if held, live, err := st.Holding(t.Context(), ref("held")); err != nil || !live || held.Token != l.Token {
		t.Errorf("held: %t by %d, %v", live, held.Token, err)
	}
	stop()
	wg.Wait()
}

// Rows that the store knows from its own last write must not hide what others
// have written since.
func TestSave_seesWhatOthersWroteSinceItsOwnLastWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	st, other := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{})
	s := save(t, st, create(t, st, "s"))
	save(t, other, said(t, s, "theirs"))
	if _, err := st.Save(t.Context(), said(t, s, "mine"), store.Commit{}); !errors.Is(err, session.ErrConflict) {
		t.Errorf("save of what another has saved: %v, want a conflict", err)
	}
	s = save(t, st, said(t, load(t, st, "s"), "mine"))
	if _, err := other.Acquire(t.Context(), ref("s"), "them", time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Save(t.Context(), said(t, s, "more"), store.Commit{}); !errors.Is(err, session.ErrBusy) {
		t.Errorf("save under another's lease: %v, want busy", err)
	}
	if _, err := st.Append(t.Context(), said(t, s, "more"), store.Append{Fence: 99}); !errors.Is(err, session.ErrFenced) {
		t.Errorf("append with a token of nobody: %v, want fenced", err)
	}
	if err := other.Delete(t.Context(), ref("s"), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Save(t.Context(), said(t, s, "more"), store.Commit{}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("save of what another has deleted: %v, want not found", err)
	}
	create(t, other, "s")
	if _, err := st.Save(t.Context(), said(t, s, "more"), store.Commit{}); !errors.Is(err, session.ErrConflict) {
		t.Errorf("save of what was made anew: %v, want a conflict", err)
	}
}

func TestSave_afterARefusedOneInABatchKnowsTheTruth(t *testing.T) {
	t.Parallel()
	g := newGate("before commit")
	st := open(t, filepath.Join(t.TempDir(), "sessions.db"), sqlite.Config{OnWrite: g.onWrite})
	s, a := create(t, st, "s"), save(t, st, create(t, st, "a"))
	taking := with(t, a, session.MetadataWritten{Key: "half", Value: []byte("1")}, session.InboxTaken{ItemID: "nobody"})
	errs := together(t, st, g, []session.Session{s, taking, fresh(t, "missing")})
	if !errors.Is(errs[1], session.ErrInvalid) {
		t.Fatalf("taking what is not there: %v", errs[1])
	}
	save(t, st, said(t, a, "again")) // from the version before the refused save
	healthy(t, st)
}
