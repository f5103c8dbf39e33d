package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Data { return data(t, migrated.Copy(t), postgres.Config{}) })
}

// migrated is a database with an empty store.
var migrated = pgtest.NewTemplate("", initialize)

// initialize makes an empty store.
func initialize(t testing.TB, url string) {
	st, err := postgres.Open(t.Context(), url, postgres.Config{})
	if err == nil {
		err = st.Close()
	}
	if err != nil {
		t.Fatalf("open: %v", err)
	}
}

// celled is a store in which one of three searches by meaning makes the index of
// vectors before.
type celled struct {
	*postgres.Store
	searches *atomic.Int64
}

func (c celled) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	if c.searches.Add(1)%3 == 0 {
		_ = c.BuildCells(ctx) // if it fails, so does the search, or it is right without
	}
	return c.Store.Nearest(ctx, tenant, q)
}

// data is an empty store for the suite.
func data(t testing.TB, url string, c postgres.Config) storetest.Data {
	clock := storetest.NewClock()
	var meter *pgx.Conn
	var searches atomic.Int64
	return storetest.Data{
		Clock: clock,
		Open: func(t testing.TB) store.Store {
			t.Helper()
			open := postgres.OpenAt
			if strings.Contains(t.Name(), "/flat/") {
				open = postgres.OpenMeasured
			}
			st, err := open(t.Context(), url, c, clock.Now)
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			st.TinyCells()
			return celled{closing(t, st), &searches}
		},
		Corrupt: func(t testing.TB, r store.Ref) {
			t.Helper()
			pgtest.Exec(t, url, `UPDATE snapshots n SET head = substr(n.head, 1, 60) FROM sessions s WHERE n.sid = s.sid AND s.tenant = $1 AND s.id = $2`, r.Tenant, r.ID)
			pgtest.Exec(t, url, `UPDATE sessions SET header = substr(header, 1, 60) WHERE tenant = $1 AND id = $2`, r.Tenant, r.ID)
		},
		Newer: func(t testing.TB, r store.Ref) {
			t.Helper()
			const newer = `replace(convert_from(%s, 'UTF8'), '"formatVersion":1', '"formatVersion":99')::bytea`
			pgtest.Exec(t, url, `UPDATE snapshots n SET head = `+fmt.Sprintf(newer, "n.head")+`
				FROM sessions s WHERE n.sid = s.sid AND s.tenant = $1 AND s.id = $2`, r.Tenant, r.ID)
			pgtest.Exec(t, url, `UPDATE sessions s SET format = 99, header = h.header, header_sum = sha256(h.header)
				FROM (SELECT sid, `+fmt.Sprintf(newer, "header")+` AS header FROM sessions) h
				WHERE h.sid = s.sid AND s.tenant = $1 AND s.id = $2`, r.Tenant, r.ID)
		},
		Damages: damages(url),
		Cases:   20,
		Written: func() int64 {
			if meter == nil {
				meter = pgtest.Connect(t, url)
			}
			var bytes int64
			if err := meter.QueryRow(t.Context(), `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`).Scan(&bytes); err != nil {
				t.Fatalf("measure: %v", err)
			}
			return bytes
		},
	}
}

// closing is a store that is closed when the test is over.
func closing(t testing.TB, st *postgres.Store) *postgres.Store {
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return st
}

func open(t testing.TB, url string, c postgres.Config) *postgres.Store {
	t.Helper()
	st, err := postgres.Open(t.Context(), url, c)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return closing(t, st)
}

var (
	ref    = storetest.Ref
	noon   = storetest.Noon
	create = storetest.Create
	said   = storetest.AddMessage
	load   = storetest.Load
)

// fresh is a version-0 session.
func fresh(t testing.TB, id string) session.Session {
	t.Helper()
	return storetest.NewSession(t, session.Identity{ID: id})
}
