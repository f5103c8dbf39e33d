package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

const mark = "the-marked-request"

// behindProxy is a store that has made its connection and prepared its
// statements through a proxy, with a session in it.
func behindProxy(t *testing.T, f fault) (*proxy, *postgres.Store, session.Session, string) {
	t.Helper()
	direct := migrated.Copy(t)
	p := newProxy(t, direct, mark, f)
	st := open(t, p.url(direct), postgres.Config{MaxConns: 2})
	s := create(t, st, "a")
	s, err := st.Save(t.Context(), said(t, s, "first"), store.Commit{ID: "first", At: noon()})
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	if s, err = st.Append(t.Context(), said(t, s, "second"), store.Append{}); err != nil {
		t.Fatalf("append: %v", err)
	}
	return p, st, s, direct
}

func TestSave_lostConnectionNeverGivesAWrongAnswer(t *testing.T) {
	t.Parallel()
	t.Run("answer lost, outcome learnt", func(t *testing.T) {
		t.Parallel()
		p, st, s, direct := behindProxy(t, dropAnswer)
		saved, err := st.Save(t.Context(), said(t, s, "third"), store.Commit{ID: mark, At: noon()})
		if err != nil {
			t.Fatalf("a save that was made: %v", err)
		}
		wantStruck(t, p)
		if got := load(t, open(t, direct, postgres.Config{}), "a"); got.Version() != saved.Version() || got.Seq() != saved.Seq() {
			t.Errorf("stored version %d at %d, answered %d at %d", got.Version(), got.Seq(), saved.Version(), saved.Seq())
		}
	})
	t.Run("answer is a shutdown, outcome learnt", func(t *testing.T) {
		t.Parallel()
		p, st, s, _ := behindProxy(t, fatalAnswer)
		saved, err := st.Save(t.Context(), said(t, s, "third"), store.Commit{ID: mark, At: noon()})
		if err != nil {
			t.Fatalf("a save that was made: %v", err)
		}
		wantStruck(t, p)
		if got := load(t, st, "a"); got.Version() != saved.Version() {
			t.Errorf("stored version %d, answered %d", got.Version(), saved.Version())
		}
	})
	t.Run("append's answer lost, outcome learnt", func(t *testing.T) {
		t.Parallel()
		p, st, s, _ := behindProxy(t, halfClose)
		flushed, err := st.Append(t.Context(), said(t, s, mark), store.Append{})
		if err != nil {
			t.Fatalf("an append that was made: %v", err)
		}
		wantStruck(t, p)
		if got := load(t, st, "a"); session.Base(got) != session.Base(flushed) {
			t.Errorf("stored up to %d, answered %d", session.Base(got), session.Base(flushed))
		}
	})
	t.Run("request lost, outcome unknown", func(t *testing.T) {
		t.Parallel()
		p, st, s, _ := behindProxy(t, dropRequest)
		_, err := st.Save(t.Context(), said(t, s, "third"), store.Commit{ID: mark, At: noon()})
		wantUnknown(t, err, mark)
		wantStruck(t, p)
		if got := load(t, st, "a"); session.Base(got) != session.Base(s) {
			t.Errorf("stored up to %d, want %d", session.Base(got), session.Base(s))
		}
	})
	t.Run("request late, outcome unknown", func(t *testing.T) {
		t.Parallel()
		p, st, s, _ := behindProxy(t, holdRequest)
		next := said(t, s, "third")
		_, err := st.Save(t.Context(), next, store.Commit{ID: mark, At: noon()})
		wantUnknown(t, err, mark)
		wantStruck(t, p)
		close(p.pass)
		<-p.passed
		if got := load(t, st, "a"); got.Version() != s.Version()+1 || got.Seq() != next.Seq() {
			t.Errorf("version %d at %d after the late request, want %d at %d", got.Version(), got.Seq(), s.Version()+1, next.Seq())
		}
	})
	t.Run("create's answer lost, outcome learnt", func(t *testing.T) {
		t.Parallel()
		p, st, _, _ := behindProxy(t, dropAnswer)
		if _, err := st.Create(t.Context(), fresh(t, "b"), store.Commit{ID: mark, At: noon()}); err != nil {
			t.Errorf("a creation that was made: %v", err)
		}
		wantStruck(t, p)
		if got := load(t, st, "b"); got.Version() != 1 {
			t.Errorf("version %d", got.Version())
		}
	})
	t.Run("database gone, outcome unknown", func(t *testing.T) {
		t.Parallel()
		p, st, s, direct := behindProxy(t, dropAnswer)
		st.SetRetryFor(300 * time.Millisecond)
		p.refuse.Store(true)
		_, err := st.Save(t.Context(), said(t, s, "third"), store.Commit{ID: mark, At: noon()})
		wantUnknown(t, err, mark)
		if got := load(t, open(t, direct, postgres.Config{}), "a"); got.Version() != s.Version()+1 {
			t.Errorf("version %d, want %d", got.Version(), s.Version()+1)
		}
		_, err = st.Load(t.Context(), ref("a"), false)
		if err == nil || errors.Is(err, session.ErrNotFound) {
			t.Errorf("load from a database that is gone: %v", err)
		}
		p.refuse.Store(false)
		if got := loadAgain(t, st, "a"); got.Version() != s.Version()+1 { // without a restart
			t.Errorf("version %d when the database is back", got.Version())
		}
	})
}

// Somebody else saves while the request is on its way: it can never be made.
func TestSave_lostToAnotherWriterIsAConflict(t *testing.T) {
	t.Parallel()
	direct := migrated.Copy(t)
	other := open(t, direct, postgres.Config{})
	s := create(t, other, "a")
	p := newProxy(t, direct, mark, dropRequest)
	st := open(t, p.url(direct), postgres.Config{OnWrite: func(point string) {
		if point == "after save" {
			save(t, other, s, "faster")
		}
	}})
	_, err := st.Save(t.Context(), said(t, s, "slower"), store.Commit{ID: mark, At: noon()})
	var c *session.ConflictError
	if !errors.As(err, &c) || c.Reason != session.ReasonStale || c.Have != 2 {
		t.Errorf("error %v, want a stale conflict at version 2", err)
	}
	wantStruck(t, p)
}

// The connection breaks while the database still works on the save: asking
// waits for its end.
func TestSave_outcomeOfARunningSaveIsWaitedFor(t *testing.T) {
	t.Parallel()
	const name = "asks for a running save"
	direct := migrated.Copy(t)
	p := newProxy(t, direct, mark, hangUp)
	st := open(t, pgtest.With(t, p.url(direct), "application_name", name), postgres.Config{})
	s := create(t, st, "a")
	other := pgtest.Connect(t, direct)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var before int64
	if err := tx.QueryRow(t.Context(), `SELECT version FROM sessions WHERE id = 'a' FOR UPDATE`).Scan(&before); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := st.Save(t.Context(), said(t, s, "third"), store.Commit{ID: mark, At: noon()})
		result <- err
	}()
	waiters(t, pgtest.Connect(t, direct), name, 2, result) // the save, and who asks for it
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Errorf("a save that was made: %v", err)
	}
	wantStruck(t, p)
	if got := load(t, st, "a"); got.Version() != before+1 {
		t.Errorf("version %d, want %d", got.Version(), before+1)
	}
}

// loadAgain loads a session from a database that is back. A store that tries
// only for a moment may meet the connections that broke.
func loadAgain(t *testing.T, st *postgres.Store, id string) session.Session {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		s, err := st.Load(t.Context(), ref(id), true)
		if err == nil {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("load %s: %v", id, err)
		}
	}
}

func wantStruck(t *testing.T, p *proxy) {
	t.Helper()
	select {
	case <-p.struck:
	case <-time.After(time.Minute):
		t.Error("the proxy has not seen the request")
	}
}

func wantUnknown(t *testing.T, err error, commit string) {
	t.Helper()
	var u *session.UnknownOutcomeError
	if !errors.As(err, &u) || u.ID != "a" || u.CommitID != commit {
		t.Errorf("error %v, want UnknownOutcomeError of commit %q", err, commit)
	}
}

func TestSave_isOneRoundTrip(t *testing.T) {
	t.Parallel()
	p, st, s, _ := behindProxy(t, dropRequest)
	if err := st.Post(t.Context(), ref("a"), store.Item{ID: "i", Kind: store.ItemFollowUp, At: noon()}); err != nil {
		t.Fatal(err)
	}
	count := func(what string, call func() error) {
		t.Helper()
		least := int64(99)
		for range 10 { // the first ones may prepare, and notices go by too
			before := p.requests.Load()
			if err := call(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			least = min(least, p.requests.Load()-before)
		}
		if least != 1 {
			t.Errorf("%s takes %d round trips", what, least)
		}
	}
	n := 0
	count("save", func() (err error) {
		n++
		s, err = st.Save(t.Context(), said(t, s, fmt.Sprint("save ", n)), store.Commit{ID: fmt.Sprint(n), At: noon(), Keys: []store.Key{{Name: fmt.Sprint(n)}}})
		return err
	})
	count("append", func() (err error) {
		n++
		s, err = st.Append(t.Context(), said(t, s, fmt.Sprint("append ", n)), store.Append{})
		return err
	})
	count("load", func() error { _, err := st.Load(t.Context(), ref("a"), true); return err })
	count("create", func() error {
		n++
		_, err := st.Create(t.Context(), fresh(t, fmt.Sprint("new", n)), store.Commit{ID: fmt.Sprint("create ", n), At: noon()})
		return err
	})
}

// waiters waits until so many connections of a name wait for a lock. The call
// that is tested must not end meanwhile.
func waiters(t *testing.T, watcher *pgx.Conn, name string, want int, done <-chan error) {
	t.Helper()
	for n := 0; n < want; {
		err := watcher.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, name).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			t.Fatalf("the call did not wait: %v", err)
		default:
		}
	}
}

// A caller gives up while the database still works on its request, and the
// wish to cancel it is lost: nobody holds a lease that nobody was given.
func TestAcquire_givenUpLeavesNoLease(t *testing.T) {
	t.Parallel()
	const name = "gives up a lease"
	direct := migrated.Copy(t)
	p := newProxy(t, direct, mark, hangUp)
	st := open(t, pgtest.With(t, p.url(direct), "application_name", name), postgres.Config{})
	s := create(t, st, "a")
	other := pgtest.Connect(t, direct)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM sessions WHERE id = 'a' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	result := make(chan error, 1)
	go func() {
		_, err := st.Acquire(ctx, ref("a"), "me", time.Minute)
		result <- err
	}()
	watcher := pgtest.Connect(t, direct)
	waiters(t, watcher, name, 1, result)
	giveUp()
	waiters(t, watcher, name, 2, result)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("acquire that was given up: %v, want the context's error", err)
	}
	if _, err := st.Save(t.Context(), said(t, s, "x"), store.Commit{ID: "x", At: noon()}); err != nil {
		t.Errorf("save after it: %v", err)
	}
}

func TestAcquire_lostAnswerIsLearnt(t *testing.T) {
	t.Parallel()
	p, st, s, _ := behindProxy(t, dropAnswer)
	l, err := st.Acquire(t.Context(), ref("a"), mark, time.Minute)
	if err != nil {
		t.Fatalf("a lease that was taken: %v", err)
	}
	wantStruck(t, p)
	if _, err := st.Save(t.Context(), said(t, s, "x"), store.Commit{ID: "x", At: noon(), Fence: l.Token}); err != nil {
		t.Errorf("save under it: %v", err)
	}
}
