package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
)

func begin(length time.Duration) store.Beginning {
	return store.Beginning{Holder: mark, Length: length, Keys: []store.Key{{Name: "k", Fingerprint: "f"}}}
}

func TestStart_takesTheLeaseWithTheFirstWrite(t *testing.T) {
	t.Parallel()
	st := open(t, migrated.Copy(t), postgres.Config{})
	s := create(t, st, "a")
	begun, l, err := st.Start(t.Context(), said(t, s, "question"), begin(time.Minute))
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	if held, live, err := st.Holding(t.Context(), ref("a")); err != nil || !live || held != l || l.Holder != mark {
		t.Errorf("held %+v, %t, %v; want %+v", held, live, err, l)
	}
	if got := load(t, st, "a"); !got.HasTail() || session.Base(got) != session.Base(begun) {
		t.Errorf("tail %t up to %d, want one up to %d", got.HasTail(), session.Base(got), session.Base(begun))
	}
	if use, known, err := st.Key(t.Context(), ref("a"), "k"); err != nil || !known || use.Version != 0 || use.Fingerprint != "f" {
		t.Errorf("key %+v, %t, %v", use, known, err)
	}
	if refs, err := st.Interrupted(t.Context(), session.DefaultTenant); err != nil || len(refs) != 0 {
		t.Errorf("interrupted: %v, %v, want nothing under a lease", refs, err)
	}
	if _, err := st.Save(t.Context(), said(t, begun, "answer"), store.Commit{ID: "x", At: noon(), Fence: l.Token, Release: true}); err != nil {
		t.Errorf("save under the lease: %v", err)
	}
}

func TestStart_refusedTakesNothing(t *testing.T) {
	t.Parallel()
	st := open(t, migrated.Copy(t), postgres.Config{})
	s := create(t, st, "a")
	save(t, st, s, "somebody else")
	if _, _, err := st.Start(t.Context(), said(t, s, "stale"), begin(time.Minute)); !errors.Is(err, session.ErrConflict) {
		t.Errorf("start from an old version: %v, want a conflict", err)
	}
	if _, live, err := st.Holding(t.Context(), ref("a")); err != nil || live {
		t.Errorf("a refused start took the lease (%v)", err)
	}
	now := load(t, st, "a")
	l, err := st.Acquire(t.Context(), ref("a"), "other", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := st.Start(t.Context(), said(t, now, "busy"), begin(time.Minute)); !errors.Is(err, session.ErrBusy) {
		t.Errorf("start under another's lease: %v, want BusyError", err)
	}
	if held, _, err := st.Holding(t.Context(), ref("a")); err != nil || held.Token != l.Token {
		t.Errorf("held %+v, %v, want %+v", held, err, l)
	}
	if _, _, err := st.Start(t.Context(), said(t, now, "x"), begin(0)); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("start for no time: %v, want InvalidError", err)
	}
	if _, _, err := st.Start(t.Context(), fresh(t, "missing"), begin(time.Minute)); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("start of nothing: %v, want ErrNotFound", err)
	}
	if got := load(t, st, "a"); got.HasTail() {
		t.Error("a refused start left a tail")
	}
}

// The lease and the tail of a start whose answer was lost are found again.
func TestStart_lostAnswerIsLearnt(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{"dropped": dropAnswer, "half closed": halfClose, "a shutdown": fatalAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, st, s, _ := behindProxy(t, f)
			if s, err := st.Save(t.Context(), s, store.Commit{ID: "seal", At: noon()}); err != nil {
				t.Fatal(s, err)
			}
			s = load(t, st, "a")
			begun, l, err := st.Start(t.Context(), said(t, s, "x"), begin(time.Minute))
			if err != nil {
				t.Fatalf("a start that was made: %v", err)
			}
			wantStruck(t, p)
			if held, live, err := st.Holding(t.Context(), ref("a")); err != nil || !live || held != l {
				t.Errorf("held %+v, %v, want %+v", held, err, l)
			}
			if _, err := st.Save(t.Context(), begun, store.Commit{ID: "x", At: noon(), Fence: l.Token}); err != nil {
				t.Errorf("save under it: %v", err)
			}
		})
	}
}

func TestStart_ofManyOneWins(t *testing.T) {
	t.Parallel()
	st := open(t, migrated.Copy(t), postgres.Config{})
	s := create(t, st, "a")
	const many = 16
	errs := make(chan error, many)
	for range many {
		go func() {
			_, _, err := st.Start(t.Context(), said(t, s, "me"), begin(time.Minute))
			errs <- err
		}()
	}
	won := 0
	for range many {
		switch err := <-errs; {
		case err == nil:
			won++
		case !errors.Is(err, session.ErrBusy):
			t.Errorf("lost with %v, want BusyError", err)
		}
	}
	if won != 1 {
		t.Errorf("%d started, want 1", won)
	}
}
