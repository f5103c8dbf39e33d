package postgres_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// fault is what a proxy does to a request.
type fault int

const (
	dropRequest fault = iota // hang up and never pass it on
	dropAnswer               // pass it on, wait for the answer, hang up
	halfClose                // pass it on, and send nothing more back
	holdRequest              // hang up, and pass it on when told
	hangUp                   // pass it on, and hang up at once
	fatalAnswer              // pass it on, and answer as a server that shuts down
)

// proxy stands between a store and the database and breaks the connection of
// the one request that has a mark in it.
type proxy struct {
	t        testing.TB
	listener net.Listener
	network  string // where the database is
	address  string
	mark     []byte
	fault    fault

	requests  atomic.Int64  // how often a client sent something
	refuse    atomic.Bool   // new connections are hung up at once, and all others with the marked request
	mayRepeat atomic.Bool   // the request may come again, and is then passed on
	struck    chan struct{} // closed when the fault has happened
	pass      chan struct{} // closed by the test: a held request goes on
	passed    chan struct{} // closed when it has been answered
	strike    sync.Once
	answered  sync.Once

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	done  sync.WaitGroup
}

func newProxy(t testing.TB, direct, mark string, f fault) *proxy {
	t.Helper()
	database, err := pgx.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		t: t, listener: listener, mark: []byte(mark), fault: f,
		struck: make(chan struct{}), pass: make(chan struct{}), passed: make(chan struct{}),
	}
	p.network, p.address = pgconn.NetworkAddress(database.Host, database.Port)
	p.done.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		p.done.Wait()
	})
	return p
}

// cut hangs up every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
}

// url is the schema as seen through the proxy.
func (p *proxy) url(direct string) string {
	host, port, err := net.SplitHostPort(p.listener.Addr().String())
	if err != nil {
		p.t.Fatal(err)
	}
	return pgtest.With(p.t, pgtest.With(p.t, pgtest.With(p.t, direct, "host", host), "port", port), "sslmode", "disable")
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(p.t.Context(), p.network, p.address)
		if err != nil || p.refuse.Load() {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		muted := new(atomic.Bool)
		p.done.Go(func() { p.requestsOf(client, server, muted) })
		p.done.Go(func() { p.answersTo(client, server, muted) })
	}
}

// cancelRequest begins a connection that asks to cancel what another one does.
var cancelRequest = []byte{0, 0, 0, 16, 0x04, 0xd2, 0x16, 0x2e}

// requestsOf passes on what a client sends.
func (p *proxy) requestsOf(client, server net.Conn, muted *atomic.Bool) {
	defer func() { _ = server.Close() }()
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		p.requests.Add(1)
		if bytes.HasPrefix(buffer[:n], cancelRequest) {
			return // what is broken carries no wish of the driver to cancel either
		}
		marked, first := bytes.Contains(buffer[:n], p.mark), false
		if marked {
			p.strike.Do(func() { first = true })
		}
		if marked && !first && !p.mayRepeat.Load() {
			p.t.Errorf("the marked request came twice")
			return
		}
		if !first {
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
			continue
		}
		muted.Store(true) // whatever comes back does not reach the client
		p.breakOff(client, server, buffer[:n])
		return
	}
}

// breakOff does to a request what the proxy is there for.
func (p *proxy) breakOff(client, server net.Conn, request []byte) {
	switch p.fault {
	case dropAnswer:
		_, _ = server.Write(request)
		<-p.passed
		if p.refuse.Load() {
			p.cut()
		}
		_ = client.Close()
	case halfClose:
		_, _ = server.Write(request)
		<-p.passed
		if tcp, ok := client.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	case fatalAnswer:
		_, _ = server.Write(request)
		<-p.passed
		fields := "SFATAL\x00VFATAL\x00C57P01\x00Mterminating connection\x00\x00"
		_, _ = client.Write(append([]byte{'E', 0, 0, 0, byte(4 + len(fields))}, fields...))
		_ = client.Close()
	case hangUp:
		_, _ = server.Write(request)
		_ = client.Close()
		close(p.struck)
		<-p.passed
		return
	case holdRequest:
		_ = client.Close()
		close(p.struck)
		<-p.pass
		_, _ = server.Write(request)
		<-p.passed
		return
	default:
		_ = client.Close()
	}
	close(p.struck)
}

// answersTo passes on what the server sends.
func (p *proxy) answersTo(client, server net.Conn, muted *atomic.Bool) {
	defer func() { _ = client.Close() }()
	ready := []byte{'Z', 0, 0, 0, 5, 'I'} // the end of every answer
	buffer := make([]byte, 1<<20)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			if !muted.Load() {
				return
			}
			p.answered.Do(func() { close(p.passed) }) // it never will be
			_, _ = io.Copy(io.Discard, client)        // until it is closed by whoever muted it
			return
		}
		if !muted.Load() {
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
			continue
		}
		if bytes.HasSuffix(buffer[:n], ready) {
			p.answered.Do(func() { close(p.passed) })
		}
	}
}
