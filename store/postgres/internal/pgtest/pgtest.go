// Package pgtest gives tests a PostgreSQL: the one that HOLDFAST_TEST_POSTGRES
// names, or one of their own, started from the installed binaries on a private
// socket. Where there is neither, the test is skipped, and fails in CI.
package pgtest

import (
	"context"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgserver"
)

// Variable names a server to use in the place of one of our own.
const Variable = "HOLDFAST_TEST_POSTGRES"

// shared is the one server of a test binary. It ends with the process.
var shared = sync.OnceValues(func() (*pgserver.Server, error) { return pgserver.Start(os.Getenv("TMPDIR")) })

// Schema is the URL of a fresh schema on the shared server. Our own server
// goes with everything in it; on another one the schema is dropped when the
// test is over.
func Schema(t testing.TB) string {
	t.Helper()
	base, name := fresh(t, "SCHEMA", "", "CASCADE")
	return With(t, base, "search_path", name)
}

// SchemaIn is the URL of a fresh schema in a database, with which it goes.
func SchemaIn(t testing.TB, database string) string {
	t.Helper()
	name := unused()
	Exec(t, database, "CREATE SCHEMA "+name)
	return With(t, database, "search_path", name)
}

// Database is the URL of a fresh database on the shared server, as Schema. The
// options are those of CREATE DATABASE.
func Database(t testing.TB, options string) string {
	t.Helper()
	base, name := fresh(t, "DATABASE", options, "WITH (FORCE)")
	u, err := url.Parse(base)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	u.Path = "/" + name
	return u.String()
}

// unused is a name nobody has.
func unused() string { return "test_" + strings.ReplaceAll(uuid.NewString(), "-", "") }

// fresh makes a thing with a name nobody has on the shared server.
func fresh(t testing.TB, thing, options, drop string) (base, name string) {
	t.Helper()
	name, base = unused(), os.Getenv(Variable)
	if base == "" {
		server, err := shared()
		if err != nil {
			missing(t, err)
		}
		base = server.URL()
	} else {
		t.Cleanup(func() { Exec(t, base, "DROP "+thing+" "+name+" "+drop) })
	}
	Exec(t, base, "CREATE "+thing+" "+name+" "+options)
	return base, name
}

// missing skips a test that has no server, where that is allowed.
func missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no PostgreSQL to test with, and %s is not set: %v", Variable, err)
	}
	t.Skipf("no PostgreSQL to test with, and %s is not set: %v", Variable, err)
}

// Server is a server for one test, which may restart it.
type Server struct{ *pgserver.Server }

// Start starts a server, which is stopped when the test is over.
func Start(t testing.TB) Server {
	t.Helper()
	s, err := pgserver.Start("")
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(s.Stop)
	return Server{s}
}

// Schema is the URL of a fresh schema, which goes with the server.
func (s Server) Schema(t testing.TB) string {
	t.Helper()
	Exec(t, s.URL(), "CREATE SCHEMA test")
	return With(t, s.URL(), "search_path", "test")
}

// Restart ends the server as a crash would and starts it again.
func (s Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.Server.Restart(); err != nil {
		t.Fatalf("restart: %v", err)
	}
}

// With is a URL with one more setting.
func With(t testing.TB, base, key, value string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// Connect is a connection of the test's own. Tests also use it when they are
// over, so it does not end with their context.
func Connect(t testing.TB, at string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.WithoutCancel(t.Context()), at)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // the server may be gone
	return conn
}

// Exec runs one statement.
func Exec(t testing.TB, at, sql string, args ...any) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, at)
	if err == nil {
		_, err = conn.Exec(ctx, sql, args...)
		_ = conn.Close(ctx) // the statement is done
	}
	if err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}
