package postgres_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// param returns a parameter of a URL.
func param(t *testing.T, at, name string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get(name)
}

// The primary dies, or falls silent, and its standby is promoted. A store that
// knows both goes on without being opened again: what was acknowledged is there,
// the holder of a lease still holds it, and it can write.
func TestStore_goesOnAfterAFailover(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, primary pgtest.Server) (host, port string, fail func()){
		"primary killed": func(t *testing.T, primary pgtest.Server) (host, port string, fail func()) {
			return param(t, primary.URL(), "host"), "5432", func() {
				if err := primary.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		},
		"primary silent": func(t *testing.T, primary pgtest.Server) (host, port string, fail func()) {
			p, through := newSilence(t, primary.URL())
			return param(t, through, "host"), param(t, through, "port"), func() { p.silent.Store(true) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, standby := pgtest.StartPair(t)
			host, port, fail := fail(t, primary)
			both := pgtest.With(t, standby.URL(), "host", host+","+param(t, standby.URL(), "host"))
			both = pgtest.With(t, pgtest.With(t, both, "port", port+",5432"), "target_session_attrs", "read-write")
			st := open(t, pgtest.With(t, both, "sslmode", "disable"), postgres.Config{CallTimeout: 3 * time.Second})
			s := save(t, st, create(t, st, "a"), "before")
			lease, err := st.Acquire(t.Context(), ref("a"), "me", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			fail()
			if err := standby.Promote(); err != nil {
				t.Fatal(err)
			}
			for range 30 { // a call gives up after a few seconds
				if _, err = st.Renew(t.Context(), ref("a"), lease, time.Hour); err == nil {
					break
				}
			}
			if err != nil {
				t.Fatalf("renew the lease on the new primary: %v", err)
			}
			if s, err = st.Save(t.Context(), said(t, s, "after"), store.Commit{ID: "after", At: noon(), Fence: lease.Token}); err != nil {
				t.Fatalf("save on the new primary: %v", err)
			}
			if got := load(t, st, "a"); got.Version() != s.Version() || got.Len() != 2 {
				t.Errorf("version %d with %d messages, want %d with 2", got.Version(), got.Len(), s.Version())
			}
		})
	}
}

// A connection to a server that does not write any more is replaced.
func TestStore_leavesAServerThatDoesNotWrite(t *testing.T) {
	t.Parallel()
	direct := pgtest.Database(t, "")
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	s := create(t, open(t, direct, postgres.Config{}), "a")
	alter := func(what string) {
		pgtest.Exec(t, pgtest.With(t, direct, "default_transaction_read_only", "off"), "ALTER DATABASE "+name+" "+what)
	}
	alter("SET default_transaction_read_only = on")
	st := open(t, direct, postgres.Config{})
	st.SetRetryFor(0)
	if _, err := st.Save(t.Context(), said(t, s, "x"), store.Commit{ID: "x", At: noon()}); err == nil {
		t.Fatal("it was saved on a server that does not write")
	}
	alter("RESET default_transaction_read_only")
	if _, err := st.Save(t.Context(), said(t, s, "x"), store.Commit{ID: "x", At: noon()}); err != nil {
		t.Errorf("save after the server writes again: %v", err)
	}
}

// Somebody holds the rows of as many sessions locked as requests may run at once,
// and of one that shares a request with another. No other session waits for them.
func TestSave_aLockedSessionHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	direct := migrated.Copy(t)
	st := open(t, direct, postgres.Config{CallTimeout: 5 * time.Minute})
	var locked []session.Session
	for i := range postgres.MaxInFlight + 1 {
		locked = append(locked, create(t, st, "locked-"+string(rune('a'+i))))
	}
	free := create(t, st, "free")
	tx, err := pgtest.Connect(t, direct).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM sessions WHERE id LIKE 'locked-%' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, len(locked))
	for _, s := range locked {
		next := said(t, s, "late")
		go func() {
			_, err := st.Save(t.Context(), next, store.Commit{ID: "late", At: noon()})
			waiting <- err
		}()
	}
	watch := pgtest.Connect(t, direct)
	for blocked := 0; blocked < postgres.MaxInFlight; {
		err := watch.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE $1::int = ANY (pg_blocking_pids(pid))`, int32(tx.Conn().PgConn().PID())).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := st.Save(t.Context(), said(t, free, "now"), store.Commit{ID: "now", At: noon()})
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("save of a session that nobody has locked: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("a session that nobody has locked waits for those that are")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range locked {
		if err := <-waiting; err != nil {
			t.Errorf("save of a session that was locked: %v", err)
		}
	}
}
