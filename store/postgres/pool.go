package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
)

// pool keeps a bounded number of connections. A connection that broke, or is
// in a state it should not be in, is not used again.
type pool struct {
	config *pgx.ConnConfig
	slots  chan struct{}   // one for each connection in somebody's hand
	life   context.Context // ends when the pool closes
	end    context.CancelFunc

	mu     sync.Mutex
	idle   []resting // guarded by mu; the last is the one used last
	closed bool      // guarded by mu
}

// resting is a connection nobody uses.
type resting struct {
	conn  *pgx.Conn
	since time.Time
}

const (
	// freshFor is how long an idle connection is believed to be alive. An
	// older one is asked first, so that a save after a pause does not find out
	// about a restart of the server by losing its answer.
	freshFor = time.Second

	// restFor is how long a connection may be idle before it is given up.
	restFor = 30 * time.Minute

	closeFor = 5 * time.Second
)

func newPool(config *pgx.ConnConfig, size int) *pool {
	life, end := context.WithCancel(context.Background())
	return &pool{config: config, slots: make(chan struct{}, size), life: life, end: end}
}

// acquire is a connection for the caller alone, who must release it. Whatever
// its error, nothing was sent: it is an unsentError.
func (p *pool) acquire(ctx context.Context) (*pgx.Conn, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, &unsentError{ctx.Err()}
	case <-p.life.Done():
		return nil, &unsentError{session.ErrClosed}
	}
	conn, err := p.connection(ctx)
	if err != nil {
		<-p.slots
		return nil, &unsentError{err}
	}
	return conn, nil
}

func (p *pool) connection(ctx context.Context) (*pgx.Conn, error) {
	for {
		r, err := p.rested()
		switch {
		case err != nil:
			return nil, err
		case r.conn == nil:
			return pgx.ConnectConfig(ctx, p.config)
		}
		age := time.Since(r.since)
		if age < freshFor || age < restFor && r.conn.Ping(ctx) == nil {
			return r.conn, nil
		}
		discard(ctx, r.conn)
	}
}

func (p *pool) rested() (resting, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return resting{}, session.ErrClosed
	}
	n := len(p.idle)
	if n == 0 {
		return resting{}, nil
	}
	r := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return r, nil
}

// release takes a connection back. When it broke, the others are probably
// broken too and are not trusted any more.
func (p *pool) release(conn *pgx.Conn) {
	defer func() { <-p.slots }()
	const idle = 'I'
	p.mu.Lock()
	if !conn.IsClosed() && conn.PgConn().TxStatus() == idle && !p.closed {
		p.idle = append(p.idle, resting{conn: conn, since: time.Now()})
		p.mu.Unlock()
		return
	}
	suspects := p.idle
	p.idle = nil
	p.mu.Unlock()
	discard(p.life, conn)
	for _, r := range suspects {
		discard(p.life, r.conn)
	}
}

// close waits for connections in use and ends all.
func (p *pool) close() {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	p.mu.Unlock()
	if already {
		return
	}
	p.end()
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	for _, r := range p.idle { // nobody else is here any more
		discard(p.life, r.conn)
	}
}

// discard ends a connection, politely if that is possible.
func discard(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeFor)
	defer cancel()
	_ = conn.Close(ctx) // it is gone either way
}
