package postgres_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// silence stands between a store and the database. While it is silent it
// accepts everything and passes nothing on, as a broken network does: no
// connection is ever closed.
type silence struct {
	listener net.Listener
	silent   atomic.Bool

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	done  sync.WaitGroup
}

func newSilence(t *testing.T, direct string) (p *silence, url string) {
	t.Helper()
	database, err := pgx.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	p = &silence{}
	if p.listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(database.Host, database.Port)
	p.done.Go(func() {
		for {
			client, err := p.listener.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(t.Context(), network, address)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, client, server)
			p.mu.Unlock()
			lost := p.silent.Load() // a connection made in silence stays lost
			p.done.Go(func() { p.pass(client, server, lost) })
			p.done.Go(func() { p.pass(server, client, lost) })
		}
	})
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.done.Wait()
	})
	host, port, err := net.SplitHostPort(p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return p, pgtest.With(t, pgtest.With(t, pgtest.With(t, direct, "host", host), "port", port), "sslmode", "disable")
}

func (p *silence) pass(from io.Reader, to io.Writer, lost bool) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if lost = lost || p.silent.Load(); lost {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// Every call ends in good time while the database is silent, also calls that
// nobody can cancel, and the store goes on by itself when it answers again.
func TestStore_aSilentDatabaseHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	direct := migrated.Copy(t)
	p, url := newSilence(t, direct)
	st := open(t, url, postgres.Config{CallTimeout: 3 * time.Second})
	st.SetRetryFor(200 * time.Millisecond)
	s, other := create(t, st, "a"), create(t, st, "b")
	save := func(s session.Session, text string) error {
		_, err := st.Save(context.WithoutCancel(t.Context()), said(t, s, text), store.Commit{ID: text, At: noon()})
		return err
	}
	p.silent.Store(true)
	var wg sync.WaitGroup
	errs := make([]error, 12)
	for i := range errs { // more than there are requests at once
		wg.Go(func() {
			if i%2 == 0 {
				errs[i] = save(s, "lost")
			} else {
				_, errs[i] = st.Load(context.WithoutCancel(t.Context()), ref("a"), false)
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("calls hang")
	}
	for _, err := range errs {
		if err == nil || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrConflict) {
			t.Errorf("a call on a silent database: %v", err)
		}
	}
	p.silent.Store(false)
	var err error
	for range 20 { // connections that were being made in silence are given up first
		if err = save(other, "after"); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("a save after the silence: %v", err)
	}
	if got := loadAgain(t, st, "b"); got.Version() != 2 {
		t.Errorf("version %d", got.Version())
	}
}

func TestClose_returnsWhileTheDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	p, url := newSilence(t, migrated.Copy(t))
	st, err := postgres.Open(t.Context(), url, postgres.Config{CallTimeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	create(t, st, "a")
	p.silent.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = st.Load(context.WithoutCancel(t.Context()), ref("a"), false) }) // it fails, in good time
	closed := make(chan error, 1)
	go func() { closed <- st.Close() }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close hangs")
	}
	wg.Wait()
}
