//go:build unix

package postgres_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// The same promises hold through a real pooler in transaction mode, without
// prepared statements, in a database that sorts as people do, and where it
// refuses what it cannot put in one order, which is then tried again.
func TestConformance_pooledSerializableAndLocalized(t *testing.T) {
	localized := pgtest.NewTemplate("TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'", initialize)
	database := localized.Copy(t)
	var sorted bool
	if err := pgtest.Connect(t, database).QueryRow(t.Context(), `SELECT 'a' < 'B' AND 'B' < 'c'`).Scan(&sorted); err != nil || !sorted {
		t.Fatalf("the database does not sort as people do (%v)", err)
	}
	p := startPgBouncer(t, database)
	storetest.Run(t, func(t testing.TB) storetest.Data {
		direct := localized.Copy(t)
		d := data(t, direct, postgres.Config{})
		pooled := data(t, p.url(t, direct), postgres.Config{Pooled: true, Poll: 20 * time.Millisecond})
		d.Open, d.Clock = pooled.Open, pooled.Clock
		// A pooler changes neither what is stored nor what is made of it.
		d.Cases = 5
		maps.DeleteFunc(d.Damages, func(name string, _ func(testing.TB, store.Ref)) bool { return name != "a body" })
		return d
	})
}

// pooler is a PgBouncer of our own before a database.
type pooler struct {
	server *pgx.ConnConfig
	dir    string
	host   string
	port   int
	cmd    *exec.Cmd
}

func startPgBouncer(t *testing.T, database string) *pooler {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program = "/usr/sbin/pgbouncer"; !executable(program) {
			if os.Getenv("CI") == "true" {
				t.Fatal("pgbouncer is not installed")
			}
			t.Skip("pgbouncer is not installed")
		}
	}
	p := &pooler{}
	p.host, p.port = freePort(t)
	if p.server, err = pgx.ParseConfig(database); err != nil {
		t.Fatal(err)
	}
	if p.dir, err = os.MkdirTemp("", "pooler"); err != nil { //nolint:usetesting // another user runs it, who may not read the test's
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(p.dir) })
	p.configure(t)
	args := []string{"-q", filepath.Join(p.dir, "pgbouncer.ini")}
	if os.Getuid() == 0 { // which it refuses to be run by
		args = append([]string{"-u", "postgres"}, args...)
	}
	p.cmd = exec.Command(program, args...) //nolint:noctx // it is stopped when the test is over
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // killed
	})
	p.await(t)
	return p
}

// await waits until the pooler listens.
func (p *pooler) await(t testing.TB) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("%s:%d", p.host, p.port))
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the pooler does not come: %v", err)
		}
	}
}

func (p *pooler) configure(t testing.TB) {
	t.Helper()
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s connect_query='SET default_transaction_isolation TO serializable'
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_user_connections = 100
server_idle_timeout = 1
max_client_conn = 1000
`, p.server.Host, p.server.Port, p.server.User, p.host, p.port)
	if err := os.WriteFile(filepath.Join(p.dir, "pgbouncer.ini"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("chmod", "-R", "a+rX", p.dir).Run(); err != nil { //nolint:noctx // it does not wait
		t.Fatal(err)
	}
}

// url is how a database is reached through the pooler.
func (p *pooler) url(t testing.TB, direct string) string {
	t.Helper()
	c, err := pgx.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("postgres://%s@%s:%d/%s?sslmode=disable", c.User, p.host, p.port, c.Database)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o111 != 0
}

// freePort returns where a program that is started later can listen. Where the
// machine has more loopback addresses than one, it has one of its own: the port
// of the common one may be given to somebody else meanwhile.
func freePort(t *testing.T) (host string, port int) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.84.20.2:0")
	if err != nil {
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	at := listener.Addr().(*net.TCPAddr)
	return at.IP.String(), at.Port
}
