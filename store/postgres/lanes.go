package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
)

const (
	// laneCount is how many requests that write are under way at most. Writes
	// that come meanwhile wait and go together.
	laneCount = 4
	// laneRoom is how many writes go in one request at most.
	laneRoom = 32
)

// lanes carry writes to the database. As long as few are under way, each is a
// request and a transaction of its own. When all lanes are taken, the writes
// that have come by the time one is free go together: one round trip, one
// transaction, one flush of the server's log. Each is acknowledged after that,
// and each is admitted or refused by itself, as if it had gone alone.
type lanes struct {
	mu      sync.Mutex
	taken   int      // guarded by mu
	waiting []*rider // guarded by mu, in the order they came
}

// rider is a write that waits for a lane.
type rider struct {
	*write
	ctx      context.Context
	admitted bool
	err      error
	alone    bool // it went with others and nothing came of it: it goes alone

	carries []*rider      // set before told: those to carry, itself among them
	told    chan struct{} // closed when carries is set, or all else is final
}

// ride sends a write, with others where many want to.
func (s *Store) ride(ctx context.Context, w *write, admitted *bool) error {
	r := &rider{write: w, ctx: ctx, told: make(chan struct{})}
	if !s.lanes.enter(r) {
		select {
		case <-r.told:
		case <-ctx.Done():
			if s.lanes.leave(r) {
				return &unsentError{ctx.Err()}
			}
			<-r.told // it is on its way
		}
	}
	if r.carries != nil {
		s.carry(r.carries) //nolint:contextcheck // each of them has its own
	}
	if r.alone {
		return s.sendAlone(ctx, w, admitted)
	}
	*admitted = r.admitted
	return r.err
}

// enter takes a lane, or else lines up.
func (l *lanes) enter(r *rider) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken < laneCount {
		l.taken++
		r.carries = []*rider{r}
		return true
	}
	l.waiting = append(l.waiting, r)
	return false
}

// leave takes a rider out of the line, unless it is not there any more.
func (l *lanes) leave(r *rider) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.waiting, r)
	if at < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	return true
}

// exit gives a lane to those who wait: the first carries the others.
func (l *lanes) exit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.taken--
		return
	}
	n := min(len(l.waiting), laneRoom)
	group := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	group[0].carries = group
	close(group[0].told)
}

// errCarrier is what those who were carried learn when their carrier panicked:
// nobody knows how far it came.
var errCarrier = errors.New("the request was broken off")

// carry sends writes together, tells those that are carried what became of
// them, and gives the lane on. Nobody waits for ever, whatever happens.
func (s *Store) carry(group []*rider) {
	defer s.lanes.exit()
	first := group[0]
	if len(group) == 1 {
		first.err = s.sendAlone(first.ctx, first.write, &first.admitted)
		return
	}
	err := errCarrier
	defer func() {
		for _, r := range group {
			// One of them has spoiled it for all, and it is not told which.
			r.err, r.alone = err, err != nil && !broken(err)
			if r != first {
				close(r.told)
			}
		}
	}()
	err = s.sendTogether(group)
}

func (s *Store) sendAlone(ctx context.Context, w *write, admitted *bool) error {
	return s.once(ctx, func(conn *pgx.Conn) error {
		s.config.OnWrite("before " + w.name)
		err := w.sendOn(ctx, conn, admitted)
		s.config.OnWrite("after " + w.name)
		return err
	})
}

// sendTogether sends writes as one transaction, in an order that no two nodes
// can get in each other's way with.
func (s *Store) sendTogether(group []*rider) error {
	inOrder := slices.SortedStableFunc(slices.Values(group), func(a, b *rider) int {
		return cmp.Or(cmp.Compare(a.ref.Tenant, b.ref.Tenant), cmp.Compare(a.ref.ID, b.ref.ID))
	})
	ctx, cancel := whileAnyone(group)
	defer cancel()
	return s.once(ctx, func(conn *pgx.Conn) error {
		var batch pgx.Batch
		for _, r := range inOrder {
			s.config.OnWrite("before " + r.name)
			r.queue(&batch)
		}
		results := conn.SendBatch(ctx, &batch)
		var err error
		for _, r := range inOrder {
			if err = r.receive(results, &r.admitted); err != nil {
				break
			}
		}
		err = ended(results, err)
		for _, r := range inOrder {
			s.config.OnWrite("after " + r.name)
		}
		return err
	})
}

// whileAnyone is a context that ends when those of all riders have: nobody's
// impatience costs another its answer.
func whileAnyone(group []*rider) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(group[0].ctx))
	var (
		mu    sync.Mutex
		left  = len(group)
		stops = make([]func() bool, len(group))
	)
	for i, r := range group {
		stops[i] = context.AfterFunc(r.ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
