package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgserver"
	"github.com/holdfast-dev/holdfast/store/postgres"
)

// postgresEngine keeps its stores in schemas of the database at base, or of a
// server of its own where that is empty. The function returned ends it.
func postgresEngine(ctx context.Context, base, dir string) (engine, func(), error) {
	stop := func() {}
	if base == "" {
		server, err := pgserver.Start(dir)
		if err != nil {
			return engine{}, nil, err
		}
		base, stop = server.URL(), server.Stop
	}
	admin, err := pgx.Connect(ctx, base)
	if err != nil {
		stop()
		return engine{}, nil, err
	}
	db := database{base: base, admin: admin}
	return engine{
			name:     "PostgreSQL",
			open:     db.open,
			floor:    db.floor,
			commits:  func(point string) bool { return strings.HasPrefix(point, "after ") },
			chapters: allMeasurements(measurement{"64 clients against the floor", concurrentFloor}),
		}, func() {
			_ = admin.Close(context.WithoutCancel(ctx)) // nothing is under way on it
			stop()
		}, nil
}

// database is where schemas are made.
type database struct {
	base  string
	admin *pgx.Conn
}

// schema makes one, says how to connect to it, and how to be rid of it.
func (d database) schema(ctx context.Context) (name, at string, drop func() error, err error) {
	name = "bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if _, err := d.admin.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
		return "", "", nil, err
	}
	drop = func() error {
		_, err := d.admin.Exec(context.WithoutCancel(ctx), "DROP SCHEMA "+name+" CASCADE")
		return err
	}
	u, err := url.Parse(d.base)
	if err != nil {
		return "", "", nil, errors.Join(err, drop())
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return name, u.String(), drop, nil
}

func (d database) open(ctx context.Context, s setting) (*openedStore, error) {
	name, at, drop, err := d.schema(ctx)
	if err != nil {
		return nil, err
	}
	st, err := postgres.Open(ctx, at, postgres.Config{OnWrite: s.onWrite, MaxConns: s.clients})
	if err != nil {
		return nil, errors.Join(err, drop())
	}
	return &openedStore{
		durable: st,
		bytes: func(ctx context.Context) (size int64, err error) { // tables with their indexes and what lies beside them
			err = d.admin.QueryRow(ctx, `SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = $1 AND c.relkind = 'r'`, name).Scan(&size)
			return size, err
		},
		settle: func(ctx context.Context) error {
			_, err := d.admin.Exec(ctx, "ANALYZE "+name+".sessions, "+name+".listing")
			return err
		},
		remove: func() error { return errors.Join(st.Close(), drop()) },
	}, nil
}

// postgresFloor moves a row on where its version matches and adds a row to a
// log, in one prepared statement. Every client has a connection and a row.
type postgresFloor struct {
	conns    []*pgx.Conn
	versions []int64
	drop     func() error
}

func (d database) floor(ctx context.Context, clients int) (floor, error) {
	_, at, drop, err := d.schema(ctx)
	if err != nil {
		return nil, err
	}
	f := &postgresFloor{versions: make([]int64, clients), drop: drop}
	for range clients {
		conn, err := pgx.Connect(ctx, at)
		if err != nil {
			return nil, errors.Join(err, f.close(ctx))
		}
		f.conns = append(f.conns, conn)
	}
	for _, text := range []string{
		`CREATE TABLE head (id integer PRIMARY KEY, version bigint NOT NULL) WITH (fillfactor = 70)`,
		`CREATE TABLE log (id integer, version bigint, body bytea NOT NULL, PRIMARY KEY (id, version))`,
		fmt.Sprintf(`INSERT INTO head SELECT i, 0 FROM generate_series(0, %d) AS i`, clients-1),
	} {
		if _, err := f.conns[0].Exec(ctx, text); err != nil {
			return nil, errors.Join(err, f.close(ctx))
		}
	}
	return f, nil
}

func (f *postgresFloor) append(ctx context.Context, client int, body []byte) error {
	tag, err := f.conns[client].Exec(ctx, `WITH moved AS (UPDATE head SET version = version + 1 WHERE id = $1 AND version = $2 RETURNING id, version)
		INSERT INTO log SELECT id, version, $3 FROM moved`, client, f.versions[client], body)
	if err != nil {
		return err
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("client %d is not at version %d", client, f.versions[client])
	}
	f.versions[client]++
	return nil
}

func (f *postgresFloor) close(ctx context.Context) error {
	var errs []error
	for _, conn := range f.conns {
		errs = append(errs, conn.Close(context.WithoutCancel(ctx)))
	}
	return errors.Join(append(errs, f.drop())...)
}
