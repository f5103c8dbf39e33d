package chaostest

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/pgserver"
)

// fault is something that goes wrong for a while.
type fault struct {
	name          string
	shortest, max time.Duration
	do            func(ctx context.Context, in *injector, length time.Duration) error
}

// planned is a fault of a fixed list.
type planned struct {
	fault  fault
	length time.Duration
}

// The faults. Those of the database are longer and shorter than the store's
// patience, and shorter and longer than a lease.
var (
	refuse   = fault{"refused", time.Second, 15 * time.Second, onWire(refused, true)}
	silence  = fault{"silent", time.Second, 15 * time.Second, onWire(silent, false)}
	halfOpen = fault{"half open", time.Second, 8 * time.Second, onWire(oneWay, false)}
	slow     = fault{"slow", time.Second, 8 * time.Second, onWire(delayed, false)}
	cut      = fault{"cut", 0, 0, func(_ context.Context, in *injector, _ time.Duration) error { in.cluster.wire.cut(); return nil }}
	restart  = fault{"restarted", 0, 0, func(_ context.Context, in *injector, _ time.Duration) error { return in.cluster.server.Restart() }}

	killNode = fault{"process killed", 0, 4 * time.Second, func(ctx context.Context, in *injector, length time.Duration) error {
		n := in.anyNode()
		n.child.Kill("the test")
		<-n.child.Gone
		pause(ctx, length)
		return in.cluster.start(n)
	}}
	drainNode = fault{"process ended in order", 0, time.Second, func(ctx context.Context, in *injector, length time.Duration) error {
		n := in.anyNode()
		if err := n.child.GoOn(); err != nil {
			return err
		}
		<-n.child.Gone
		if _, err := n.child.Wait(); err != nil {
			return err
		}
		pause(ctx, length)
		return in.cluster.start(n)
	}}
	stopNode = fault{"process stopped", time.Second, 15 * time.Second, func(ctx context.Context, in *injector, length time.Duration) error {
		n := in.anyNode()
		switch err := n.child.Stop(); {
		case errors.Is(err, errors.ErrUnsupported):
			return nil // this system cannot
		case err != nil:
			return err
		}
		pause(ctx, length)
		return n.child.Continue()
	}}
)

// onWire lets the wire fail for a while.
func onWire(m wireMode, cutFirst bool) func(ctx context.Context, in *injector, length time.Duration) error {
	return func(ctx context.Context, in *injector, length time.Duration) error {
		in.cluster.wire.set(m)
		if cutFirst {
			in.cluster.wire.cut()
		}
		pause(ctx, length)
		in.cluster.wire.set(open)
		return nil
	}
}

// injector lets one thing after the other go wrong.
type injector struct {
	cluster *cluster
	random  *rand.Rand
	count   map[string]int
}

// run injects the short list, or random faults for as long as the flag says. In
// between the nodes have some time to work.
func (in *injector) run(ctx context.Context, s setup) error {
	const calm = 700 * time.Millisecond
	if *chaosFor == 0 {
		for _, p := range s.short {
			pause(ctx, calm)
			in.count[p.fault.name]++
			if err := p.fault.do(ctx, in, p.length); err != nil {
				return err
			}
		}
		return nil
	}
	for end := time.Now().Add(*chaosFor); time.Now().Before(end); {
		pause(ctx, calm+time.Duration(in.random.Int64N(int64(2*time.Second))))
		f := s.faults[in.random.IntN(len(s.faults))]
		in.count[f.name]++
		length := f.shortest + time.Duration(in.random.Int64N(int64(f.max-f.shortest)+1))
		if err := f.do(ctx, in, length); err != nil {
			return err
		}
	}
	return nil
}

func (in *injector) anyNode() *node { return in.cluster.nodes[in.random.IntN(len(in.cluster.nodes))] }

func (in *injector) total() (n int) {
	for _, c := range in.count {
		n += c
	}
	return n
}

// pause lets a fault, or the time between two, last.
func pause(ctx context.Context, length time.Duration) {
	select {
	case <-time.After(length):
	case <-ctx.Done():
	}
}

// startServer starts a database server for the test.
func startServer(t *testing.T) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(os.Getenv("TMPDIR"))
	switch {
	case err == nil:
		t.Cleanup(server.Stop)
	case os.Getenv("CI") == "true":
		t.Fatalf("no PostgreSQL to test with: %v", err)
	default:
		t.Skipf("no PostgreSQL to test with: %v", err)
	}
	return server
}
