package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

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
	direct := pgtest.Schema(t)
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
		if got := load(t, st, "a"); got.Base() != flushed.Base() {
			t.Errorf("stored up to %d, answered %d", got.Base(), flushed.Base())
		}
	})
	t.Run("request lost, outcome unknown", func(t *testing.T) {
		t.Parallel()
		p, st, s, _ := behindProxy(t, dropRequest)
		_, err := st.Save(t.Context(), said(t, s, "third"), store.Commit{ID: mark, At: noon()})
		wantUnknown(t, err, mark)
		wantStruck(t, p)
		if got := load(t, st, "a"); got.Base() != s.Base() {
			t.Errorf("stored up to %d, want %d", got.Base(), s.Base())
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
		st.SetPatience(300 * time.Millisecond)
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
		if got := load(t, st, "a"); got.Version() != s.Version()+1 { // without a restart
			t.Errorf("version %d when the database is back", got.Version())
		}
	})
}

// Somebody else saves while the request is on its way: it can never be made.
func TestSave_lostToAnotherWriterIsAConflict(t *testing.T) {
	t.Parallel()
	direct := pgtest.Schema(t)
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
	direct := pgtest.Schema(t)
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
	watcher := pgtest.Connect(t, direct)
	for waiting := 0; waiting < 2; { // the save, and who asks for it
		err := watcher.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, name).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-result:
			t.Fatalf("the save was not waited for: %v", err)
		default:
		}
	}
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

func wantStruck(t *testing.T, p *proxy) {
	t.Helper()
	select {
	case <-p.struck:
	case <-time.After(10 * time.Second):
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
}

// clerk saves to a session of its own, notes what it was told, and goes on
// whatever happens.
type clerk struct {
	id           string
	told, denied []string // texts whose save was acknowledged, or refused for certain
	unsure       int
}

func (c *clerk) work(t *testing.T, st store.Store, stop <-chan struct{}) error {
	ctx := context.WithoutCancel(t.Context())
	s, err := st.Load(ctx, ref(c.id), true)
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		if err != nil { // the last save was not acknowledged, or the load after it failed
			if s, err = st.Load(ctx, ref(c.id), true); err != nil {
				continue
			}
		}
		text := fmt.Sprintf("%s-%d", c.id, n)
		var next session.Session
		if next, err = s.WithMessage(session.Message{ID: text, Role: session.RoleUser, Content: session.Text(text)}, noon()); err != nil {
			return err
		}
		if n%3 == 0 {
			next, err = st.(store.Tails).Append(ctx, next, store.Append{})
		} else {
			next, err = st.Save(ctx, next, store.Commit{ID: text, At: noon()})
		}
		switch {
		case err == nil:
			s, c.told = next, append(c.told, text)
		case errors.Is(err, session.ErrUnknownOutcome):
			c.unsure++
		default:
			c.denied = append(c.denied, text)
		}
	}
}

// check compares what the clerk was told with what is stored.
func (c *clerk) check(t *testing.T, st store.Store) {
	t.Helper()
	s, err := st.(store.Logs).LoadWhole(t.Context(), ref(c.id), 0)
	if err != nil {
		t.Fatalf("load %s: %v", c.id, err)
	}
	entries, err := st.(store.Logs).Log(t.Context(), ref(c.id), 0, 1_000_000)
	if err != nil {
		t.Fatalf("log of %s: %v", c.id, err)
	}
	var have []string
	for i, e := range entries {
		if e.Seq != int64(i+1) {
			t.Fatalf("%s: change %d where %d belongs", c.id, e.Seq, i+1)
		}
		if m, ok := e.Change.(session.MessageAdded); ok {
			have = append(have, m.Message.Content.Text())
		}
	}
	place := 0
	for _, text := range c.told {
		at := slices.Index(have[place:], text)
		if at < 0 {
			t.Errorf("%s was acknowledged and is not there, or not in order", text)
			continue
		}
		place += at + 1
	}
	for _, text := range c.denied {
		if slices.Contains(have, text) {
			t.Errorf("%s is there although its writer was told it is not", text)
		}
	}
	if len(have) > len(c.told)+c.unsure {
		t.Errorf("%s has %d messages, %d were acknowledged and %d unsure", c.id, len(have), len(c.told), c.unsure)
	}
	if len(c.told) == 0 {
		t.Errorf("%s was never acknowledged anything", c.id)
	}
	t.Logf("%s: version %d, %d acknowledged, %d denied, %d unsure", c.id, s.Version(), len(c.told), len(c.denied), c.unsure)
}

// disturbed has clerks work while something happens to the database.
func disturbed(t *testing.T, url string, disturb func()) {
	t.Helper()
	st := open(t, url, postgres.Config{})
	var clerks []*clerk
	for i := range 4 {
		c := &clerk{id: fmt.Sprintf("clerk-%d", i)}
		create(t, st, c.id)
		clerks = append(clerks, c)
	}
	stop := make(chan struct{})
	var working sync.WaitGroup
	for _, c := range clerks {
		working.Go(func() {
			if err := c.work(t, st, stop); err != nil {
				t.Errorf("%s: %v", c.id, err)
			}
		})
	}
	disturb()
	close(stop)
	working.Wait()
	for _, c := range clerks {
		c.check(t, st)
	}
}

func TestSave_terminatedBackendsLoseNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.With(t, pgtest.Schema(t), "application_name", "victims")
	killer := pgtest.Connect(t, url)
	if _, err := killer.Exec(t.Context(), `SET application_name = 'killer'`); err != nil {
		t.Fatal(err)
	}
	commits := func() (n int) {
		if err := killer.QueryRow(t.Context(), `SELECT count(*) FROM commits`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	disturbed(t, url, func() {
		for killed, last := 0, 0; killed < 40; {
			now := commits()
			if now < last+3 {
				continue // let them work
			}
			last = now
			tag, err := killer.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name = 'victims' AND state = 'active' LIMIT 1`)
			if err != nil {
				t.Fatal(err)
			}
			killed += int(tag.RowsAffected())
		}
	})
}

func TestSave_restartedServerLosesNothing(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := server.Schema(t)
	watcher := pgtest.Connect(t, url)
	saves := func() (n int) {
		if err := watcher.QueryRow(t.Context(), `SELECT count(*) FROM commits`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	disturbed(t, url, func() {
		for range 3 {
			for from := saves(); saves() < from+50; { // under load
			}
			server.Restart(t)
			watcher = pgtest.Connect(t, url)
		}
	})
}

func TestCalls_endWithTheirContext(t *testing.T) {
	t.Parallel()
	url := pgtest.Schema(t)
	st := open(t, url, postgres.Config{})
	s := create(t, st, "a")
	blocker := pgtest.Connect(t, url)
	tx, err := blocker.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM sessions WHERE id = 'a' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := st.Acquire(ctx, ref("a"), "me", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("acquire of a locked row: %v, want the context's error", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Nobody holds a lease that nobody was given.
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
