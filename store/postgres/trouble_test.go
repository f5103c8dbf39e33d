package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// The database gives up a save that waits too long: nothing of it is there,
// its writer is told so, and the next one works.
func TestSave_statementTimeoutLeavesNothing(t *testing.T) {
	t.Parallel()
	direct := migrated.Copy(t)
	s := create(t, open(t, direct, postgres.Config{}), "a")
	st := open(t, pgtest.With(t, direct, "statement_timeout", "5000"), postgres.Config{})
	tx, err := pgtest.Connect(t, direct).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM sessions FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	_, err = st.Save(t.Context(), said(t, s, "late"), store.Commit{ID: "late", At: noon(), Keys: []store.Key{{Name: "k"}}})
	if err == nil || errors.Is(err, session.ErrUnknownOutcome) || errors.Is(err, session.ErrConflict) {
		t.Errorf("a save that was given up: %v, want an error that is certain", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := load(t, st, "a"); got.Version() != 1 || got.Len() != 0 {
		t.Errorf("version %d with %d messages after it", got.Version(), got.Len())
	}
	if _, known, err := st.Key(t.Context(), ref("a"), "k"); err != nil || known {
		t.Errorf("its key is there (%v)", err)
	}
	save(t, st, s, "the next one")
}

// A timeout that the database has for requests does not end a migration.
func TestOpen_migratesWithoutTheStatementTimeout(t *testing.T) {
	t.Parallel()
	direct := migrated.Copy(t)
	holder, err := pgtest.Connect(t, direct).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, int64(postgres.MigrationLock)); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		st, err := postgres.Open(t.Context(), pgtest.With(t, direct, "statement_timeout", "5000"), postgres.Config{})
		if err == nil {
			err = st.Close()
		}
		opened <- err
	}()
	if _, err := holder.Exec(t.Context(), `SELECT pg_sleep(5.5)`); err != nil { // longer than the timeout
		t.Fatal(err)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// The database is away for longer than a call waits, and comes back.
func TestStore_recoversWithoutBeingOpenedAgain(t *testing.T) {
	t.Parallel()
	direct := migrated.Copy(t)
	p := newProxy(t, direct, "nothing has this mark", dropRequest)
	st := open(t, p.url(direct), postgres.Config{Poll: 10 * time.Millisecond})
	st.SetRetryFor(200 * time.Millisecond)
	s := create(t, st, "a")
	news, stop := st.Subscribe(ref("a"))
	defer stop()
	wantNews(t, "it was hung up", news)
	p.refuse.Store(true)
	p.cut()
	began := time.Now()
	for _, call := range []func() error{
		func() error { _, err := st.Load(t.Context(), ref("a"), false); return err },
		func() error {
			_, err := st.Save(t.Context(), said(t, s, "x"), store.Commit{ID: "x", At: noon()})
			return err
		},
		func() error { _, err := st.List(t.Context(), session.DefaultTenant, store.Query{}); return err },
	} {
		if err := call(); err == nil || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrConflict) {
			t.Errorf("a call while the database is away: %v", err)
		}
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the calls took %s to give up", took)
	}
	p.refuse.Store(false)
	settle(news)
	save(t, open(t, direct, postgres.Config{}), s, "meanwhile")
	wantNews(t, "a save of another node", news)
	if got := loadAgain(t, st, "a"); got.Version() != 2 {
		t.Errorf("version %d, want 2", got.Version())
	}
}

func TestOpen_databaseDownIsToldInGoodTime(t *testing.T) {
	t.Parallel()
	p := newProxy(t, migrated.Copy(t), "nothing has this mark", dropRequest)
	p.refuse.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st, err := postgres.Open(ctx, p.url("postgres:///x?user=someone&password=hidden"), postgres.Config{})
	if err == nil || ctx.Err() != nil || st != nil {
		t.Fatalf("open: %v, want an error in good time", err)
	}
	if text := err.Error(); len(text) > 1000 || !strings.Contains(text, "open postgres store") || strings.Contains(text, "hidden") {
		t.Errorf("it says %q", text)
	}
}

// A reader who follows the log by the news it gets sees every change once and in
// order, although its listening is cut off again and again.
func TestWatch_cutOffListenerMissesNothing(t *testing.T) {
	t.Parallel()
	url := migrated.Copy(t)
	reader := open(t, url, postgres.Config{Poll: time.Hour, ListenURL: pgtest.With(t, url, "application_name", "ear of the reader")})
	writer := open(t, url, postgres.Config{})
	s := create(t, writer, "a")
	news, stop := reader.Subscribe(ref("a"))
	defer stop()
	const saves = 60
	writing := make(chan error, 1)
	killer := pgtest.Connect(t, url)
	go func() {
		var err error
		for i := range saves {
			var next session.Session
			if next, err = s.WithMetadata("n", []byte(fmt.Sprint(i)), noon()); err != nil {
				break
			}
			if i%2 == 0 {
				s, err = writer.Save(t.Context(), next, store.Commit{ID: fmt.Sprint(i), At: noon()})
			} else {
				s, err = writer.Append(t.Context(), next, store.Append{})
			}
			if err == nil && i%10 == 5 {
				_, err = killer.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ear of the reader'`)
			}
			if err != nil {
				break
			}
		}
		writing <- err
	}()
	for after := int64(0); after < saves+1; {
		entries, err := reader.Log(t.Context(), ref("a"), after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Seq != after+1 {
				t.Fatalf("change %d after %d", e.Seq, after)
			}
			after = e.Seq
		}
		if len(entries) == 0 {
			wantNews(t, fmt.Sprintf("change %d", after), news)
		}
	}
	if err := <-writing; err != nil {
		t.Errorf("write: %v", err)
	}
}
