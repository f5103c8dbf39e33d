package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

func TestOpen_newerSchemaIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	url := pgtest.Schema(t)
	create(t, open(t, url, postgres.Config{}), "a")
	pgtest.Exec(t, url, `INSERT INTO holdfast_schema (version) VALUES (999)`)
	pgtest.Exec(t, url, `ALTER TABLE sessions RENAME TO moved`)
	st, err := postgres.Open(t.Context(), url, postgres.Config{})
	var newer *session.NewerFormatError
	if !errors.As(err, &newer) || newer.Have != "999" || st != nil {
		t.Fatalf("open: %v, want NewerFormatError", err)
	}
	var tables int
	conn := pgtest.Connect(t, url)
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'sessions'`).Scan(&tables); err != nil || tables != 0 {
		t.Errorf("the newer schema was written to: %d, %v", tables, err)
	}
}

func TestOpen_manyAtOnceMigrateOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Schema(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			st, err := postgres.Open(t.Context(), url, postgres.Config{})
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			create(t, st, fmt.Sprint("s", i))
			if err := st.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	group.Wait()
	var applied, sessions int
	err := pgtest.Connect(t, url).QueryRow(t.Context(), `SELECT (SELECT count(*) FROM holdfast_schema WHERE version = 1), (SELECT count(*) FROM sessions)`).Scan(&applied, &sessions)
	if err != nil || applied != 1 || sessions != 8 {
		t.Errorf("migrated %d times, %d sessions, %v; want 1 and 8", applied, sessions, err)
	}
}

func TestOpen_failedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.Schema(t)
	pgtest.Exec(t, url, `CREATE TABLE keys (in_the_way int)`)
	if _, err := postgres.Open(t.Context(), url, postgres.Config{}); err == nil {
		t.Fatal("open over a table that is in the way succeeded")
	}
	var tables int
	err := pgtest.Connect(t, url).QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()`).Scan(&tables)
	if err != nil || tables != 1 {
		t.Errorf("%d tables are left, want the one that was there (%v)", tables, err)
	}
	pgtest.Exec(t, url, `DROP TABLE keys`)
	create(t, open(t, url, postgres.Config{}), "a")
}

func TestOpen_badInput(t *testing.T) {
	t.Parallel()
	for what, url := range map[string]string{"a typo": "postgres//x", "a bad port": "postgres://localhost:99999999/x"} {
		if _, err := postgres.Open(t.Context(), url, postgres.Config{}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v, want InvalidError", what, err)
		}
	}
	if _, err := postgres.Open(t.Context(), "postgres://localhost/x", postgres.Config{MaxConns: -1}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("a negative MaxConns: %v, want InvalidError", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := postgres.Open(ctx, "postgres:///x?user=nobody&host="+t.TempDir(), postgres.Config{})
	if err == nil || ctx.Err() != nil {
		t.Errorf("a database that is down: %v, want an error in good time", err)
	}
}

func TestClose_leavesNothingRunning(t *testing.T) {
	url := pgtest.Schema(t)
	before := goleak.IgnoreCurrent()
	st, err := postgres.Open(t.Context(), url, postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := create(t, st, "a")
	_, stop := st.Subscribe(ref("a"))
	defer stop()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			_, err := st.Save(t.Context(), said(t, s, fmt.Sprint(i)), store.Commit{ID: fmt.Sprint(i), At: noon()})
			if err != nil && !errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrConflict) {
				t.Errorf("save beside Close: %v", err)
			}
		})
	}
	if err := st.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	group.Wait()
	st.Subscribe(ref("b")) // does not wake it up again
	err = goleak.Find(before)
	for end := time.Now().Add(30 * time.Second); err != nil && time.Now().Before(end); { // one that ends may need a while on a busy machine
		err = goleak.Find(before)
	}
	if err != nil {
		t.Error(err)
	}
}
