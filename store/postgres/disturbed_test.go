package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

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
	url := pgtest.With(t, migrated.Copy(t), "application_name", "victims")
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
