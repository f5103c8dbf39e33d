package chaostest

import (
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/internal/pgserver"
)

// wireMode is what happens on the way to the database.
type wireMode int32

const (
	open    wireMode = iota
	refused          // new connections are hung up
	silent           // nothing passes, in either direction
	oneWay           // requests pass, answers do not
	delayed          // everything comes late
)

// late is the delay of everything on a slow wire.
const late = 40 * time.Millisecond

// wire is a proxy between the nodes and the database. A connection that was once
// silent stays so for ever, also when the fault is over: nobody tells the node
// that it is dead.
type wire struct {
	listener         net.Listener
	network, address string

	mode atomic.Int32
	done sync.WaitGroup

	mu    sync.Mutex
	conns map[*passage]bool // guarded by mu
	over  chan struct{}     // guarded by mu; closed when the present fault is over
}

// passage is one connection through the wire.
type passage struct {
	client, server net.Conn
	deaf           atomic.Bool // what the client sends is dropped
	mute           atomic.Bool // what the server sends is dropped
}

func newWire(t *testing.T, direct string) *wire {
	t.Helper()
	database, err := pgx.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, conns: map[*passage]bool{}, over: make(chan struct{})}
	w.network, w.address = pgconn.NetworkAddress(database.Host, database.Port)
	w.done.Go(func() { w.accept(context.WithoutCancel(t.Context())) })
	t.Cleanup(func() {
		_ = listener.Close()
		w.set(open)
		w.cut()
		w.done.Wait()
	})
	return w
}

// set changes what happens from now on.
func (w *wire) set(m wireMode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.over)
	w.over = make(chan struct{})
	w.mode.Store(int32(m))
	for p := range w.conns {
		p.suffer(m)
	}
}

// suffer makes a connection lose what it never gets back.
func (p *passage) suffer(m wireMode) {
	if m == silent {
		p.deaf.Store(true)
	}
	if m == silent || m == oneWay {
		p.mute.Store(true)
	}
}

// cut hangs up every connection.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.conns {
		_ = p.client.Close()
		_ = p.server.Close()
	}
}

// faultOver is closed when the present fault is over.
func (w *wire) faultOver() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

func (w *wire) accept(ctx context.Context) {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.done.Go(func() { w.pass(ctx, client) })
	}
}

func (w *wire) pass(ctx context.Context, client net.Conn) {
	if wireMode(w.mode.Load()) == refused {
		_ = client.Close()
		return
	}
	server, err := new(net.Dialer).DialContext(ctx, w.network, w.address)
	if err != nil { // the server is being restarted
		_ = client.Close()
		return
	}
	p := &passage{client: client, server: server}
	w.mu.Lock()
	w.conns[p] = true
	p.suffer(wireMode(w.mode.Load()))
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { w.pump(client, server, &p.deaf) })
	both.Go(func() { w.pump(server, client, &p.mute) })
	both.Wait()
	w.mu.Lock()
	delete(w.conns, p)
	w.mu.Unlock()
}

// pump passes on what comes, unless it is dropped. The end of a connection is
// not passed on while the wire is silent.
func (w *wire) pump(from, to net.Conn, dropped *atomic.Bool) {
	defer func() {
		if wireMode(w.mode.Load()) == silent {
			<-w.faultOver()
		}
		_ = to.Close()
		_ = from.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if dropped.Load() {
			continue
		}
		if wireMode(w.mode.Load()) == delayed {
			<-time.After(late)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// database is a server of the test and the wire to it.
type database struct {
	server *pgserver.Server
	wire   *wire
	url    string // through the wire
	direct string
}

// newDatabase starts a server. Without one the test is skipped, and fails in CI.
func newDatabase(t *testing.T) *database {
	t.Helper()
	server := startServer(t)
	w := newWire(t, server.URL())
	host, port, err := net.SplitHostPort(w.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	through, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	q := through.Query()
	q.Set("host", host)
	q.Set("port", port)
	q.Set("sslmode", "disable")
	through.RawQuery = q.Encode()
	return &database{server: server, wire: w, url: through.String(), direct: server.URL()}
}
