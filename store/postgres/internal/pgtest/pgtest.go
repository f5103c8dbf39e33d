// Package pgtest gives tests a PostgreSQL server: the one that
// HOLDFAST_TEST_POSTGRES names, or a private one, started from the installed
// binaries. Without either the test is skipped, and fails in CI.
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

// Variable holds the URL of a server to use instead of a private one.
const Variable = "HOLDFAST_TEST_POSTGRES"

// shared is the one server of a test binary. It ends with the process.
var shared = sync.OnceValues(func() (*pgserver.Server, error) { return pgserver.StartVolatile(os.Getenv("TMPDIR")) })

// Schema returns the URL of a new schema on the shared server. A private server
// is removed as a whole; on another one the schema is dropped after the test.
func Schema(t testing.TB) string {
	t.Helper()
	base, name := create(t, "SCHEMA", "", "CASCADE")
	return With(t, base, "search_path", name)
}

// SchemaIn returns the URL of a new schema in a database.
func SchemaIn(t testing.TB, database string) string {
	t.Helper()
	name := uniqueName()
	Exec(t, database, "CREATE SCHEMA "+name)
	return With(t, database, "search_path", name)
}

// Database returns the URL of a new database on the shared server, removed like a
// Schema. The options are those of CREATE DATABASE.
func Database(t testing.TB, options string) string {
	t.Helper()
	base, name := create(t, "DATABASE", options, "WITH (FORCE)")
	u, err := url.Parse(base)
	if err != nil {
		t.Fatalf("%s: %v", Variable, err)
	}
	u.Path = "/" + name
	return u.String()
}

// Template is a database whose copies tests work in. To copy one is several times
// cheaper than to fill it.
type Template struct {
	options string
	fill    func(t testing.TB, url string)

	once sync.Once
	name string
}

// NewTemplate returns a template that is made when it is first copied, with
// these options of CREATE DATABASE, and filled by fill, which leaves no
// connection open.
func NewTemplate(options string, fill func(t testing.TB, url string)) *Template {
	return &Template{options: options, fill: fill}
}

// Copy returns the URL of a new copy, dropped after the test.
func (p *Template) Copy(t testing.TB) string {
	t.Helper()
	if os.Getenv(Variable) != "" { // nobody would drop the template there
		return Database(t, p.options)
	}
	p.once.Do(func() {
		made := Database(t, p.options)
		p.fill(t, made)
		p.name = databaseOf(t, made)
	})
	at := Database(t, "TEMPLATE "+p.name+" STRATEGY FILE_COPY")
	t.Cleanup(func() { Exec(t, serverURL(t), "DROP DATABASE "+databaseOf(t, at)+" WITH (FORCE)") })
	return at
}

func databaseOf(t testing.TB, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

func uniqueName() string { return "test_" + strings.ReplaceAll(uuid.NewString(), "-", "") }

// create makes a schema or database with a unique name on the shared server.
func create(t testing.TB, thing, options, drop string) (base, name string) {
	t.Helper()
	name, base = uniqueName(), serverURL(t)
	if os.Getenv(Variable) != "" {
		t.Cleanup(func() { Exec(t, base, "DROP "+thing+" "+name+" "+drop) })
	}
	Exec(t, base, "CREATE "+thing+" "+name+" "+options)
	return base, name
}

// serverURL returns the address of the shared server.
func serverURL(t testing.TB) string {
	t.Helper()
	if base := os.Getenv(Variable); base != "" {
		return base
	}
	server, err := shared()
	if err != nil {
		skip(t, err)
	}
	return server.URL()
}

// skip skips a test without a server, or fails it in CI.
func skip(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no PostgreSQL to test with, and %s is not set: %v", Variable, err)
	}
	t.Skipf("no PostgreSQL to test with, and %s is not set: %v", Variable, err)
}

// Server is a server for one test, which may restart it.
type Server struct{ *pgserver.Server }

// Start starts a server and stops it at the end of the test.
func Start(t testing.TB) Server {
	t.Helper()
	s, err := pgserver.Start("")
	if err != nil {
		skip(t, err)
	}
	t.Cleanup(s.Stop)
	return Server{s}
}

// StartPair starts a server and its synchronous standby, and stops both at the
// end of the test.
func StartPair(t testing.TB) (primary, standby Server) {
	t.Helper()
	first, second, err := pgserver.StartPair("")
	if err != nil {
		skip(t, err)
	}
	t.Cleanup(first.Stop)
	t.Cleanup(second.Stop)
	return Server{first}, Server{second}
}

// Schema returns the URL of a new schema, removed with the server.
func (s Server) Schema(t testing.TB) string {
	t.Helper()
	Exec(t, s.URL(), "CREATE SCHEMA test")
	return With(t, s.URL(), "search_path", "test")
}

// Restart stops the server like a crash and starts it again.
func (s Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.Server.Restart(); err != nil {
		t.Fatalf("restart: %v", err)
	}
}

// With adds a setting to a URL.
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

// Connect opens a connection for the test. Cleanups use it too, so it does not
// end with the test's context.
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
