package postgres_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// flaky stands between stores and the database and does to a few of all
// requests, by a seed, what networks do.
type flaky struct {
	t        testing.TB
	listener net.Listener
	network  string
	address  string
	done     sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	conns  []net.Conn // guarded by mu
	struck int        // guarded by mu
}

func newFlaky(t testing.TB, direct string, seed uint64) *flaky {
	t.Helper()
	database, err := pgx.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &flaky{t: t, listener: listener, random: rand.New(rand.NewPCG(seed, 99))}
	f.network, f.address = pgconn.NetworkAddress(database.Host, database.Port)
	f.done.Go(f.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		f.mu.Lock()
		for _, c := range f.conns {
			_ = c.Close()
		}
		f.mu.Unlock()
		f.done.Wait()
	})
	return f
}

func (f *flaky) url(direct string) string {
	host, port, err := net.SplitHostPort(f.listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	return pgtest.With(f.t, pgtest.With(f.t, pgtest.With(f.t, direct, "host", host), "port", port), "sslmode", "disable")
}

func (f *flaky) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(f.t.Context(), f.network, f.address)
		if err != nil {
			_ = client.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, client, server)
		f.mu.Unlock()
		f.done.Go(func() { f.requests(client, server) })
		f.done.Go(func() {
			_, _ = io.Copy(client, server) // until one of them is closed
			_ = client.Close()
		})
	}
}

// What happens to a request; most often nothing.
const (
	dropped   = iota // it is never passed on
	cutOff           // it is passed on, and nobody hears the answer
	delayed          // it comes late
	oneWay           // it is passed on, and no other will be
	accidents        // how many there are
	outOf     = 100
)

func (f *flaky) requests(client, server net.Conn) {
	defer func() { _ = server.Close() }()
	buffer := make([]byte, 1<<20)
	for first := true; ; first = false {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		accident := accidents
		if !first { // let it connect
			accident = f.draw()
		}
		switch accident {
		case dropped:
			_ = client.Close()
			return
		case delayed:
			<-time.After(20 * time.Millisecond)
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
		switch accident {
		case cutOff:
			_ = client.Close()
			return
		case oneWay:
			if tcp, ok := client.(*net.TCPConn); ok {
				_ = tcp.CloseRead()
			}
		}
	}
}

// draw is what happens next.
func (f *flaky) draw() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	drawn := f.random.IntN(outOf)
	if drawn >= accidents {
		return accidents
	}
	f.struck++
	return drawn
}
