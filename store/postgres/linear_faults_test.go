package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// seeds are those of the disturbed histories. What a seed fixes is what the
// players do and the proxy; when it happens is up to the machine.
var seeds = []uint64{1, 2, 3}

func each(urls int, url string) []string {
	all := make([]string, urls)
	for i := range all {
		all[i] = url
	}
	return all
}

func TestHistory_linearizableWhenBackendsAreTerminated(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds {
		url := pgtest.With(t, migrated.Copy(t), "application_name", "players")
		killer := pgtest.Connect(t, url)
		if _, err := killer.Exec(t.Context(), `SET application_name = 'killer'`); err != nil {
			t.Fatal(err)
		}
		killed := int64(0)
		played(t, seed, each(4, url), 60, func(stop <-chan struct{}) {
			for {
				select {
				case <-stop:
					return
				default:
				}
				tag, err := killer.Exec(t.Context(), `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
					JOIN pg_class c ON c.oid = l.relation AND c.relname = 'sessions' WHERE a.application_name = 'players' LIMIT 1`)
				if err != nil {
					t.Errorf("terminate: %v", err)
					return
				}
				killed += tag.RowsAffected()
			}
		})
		if killed == 0 {
			t.Errorf("seed %d: no backend was terminated", seed)
		}
	}
}

func TestHistory_linearizableWhenTheServerIsRestarted(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	url := server.Schema(t)
	restarted := 0
	played(t, 4, each(4, url), 100, func(stop <-chan struct{}) {
		watcher := pgtest.Connect(t, url)
		before := count(t, watcher)
		for _, restart := range []func() error{server.Server.Restart, server.RestartFast, server.Server.Restart} {
			for now := before; now < before+5; now = count(t, watcher) { // under load
				select {
				case <-stop:
					return
				default:
				}
			}
			if err := restart(); err != nil {
				t.Errorf("restart: %v", err)
				return
			}
			restarted++
			watcher = pgtest.Connect(t, url)
			before = count(t, watcher)
		}
	})
	if restarted == 0 {
		t.Error("the server was not restarted")
	}
}

func count(t *testing.T, conn *pgx.Conn) (n int64) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), `SELECT coalesce(sum(last_seq), 0) FROM sessions`).Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

func TestHistory_linearizableThroughABadNetwork(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds {
		direct := migrated.Copy(t)
		f := newFlaky(t, direct, seed)
		played(t, seed, append(each(3, f.url(direct)), direct), 60, func(stop <-chan struct{}) { <-stop })
		f.mu.Lock()
		if f.struck == 0 {
			t.Errorf("seed %d: nothing happened on the network", seed)
		}
		f.mu.Unlock()
	}
}
