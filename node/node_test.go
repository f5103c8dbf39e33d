package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/pgserver"
	"github.com/holdfast-dev/holdfast/node"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/worker"
)

func newRuntime(t *testing.T, st store.Store) *holdfast.Runtime {
	t.Helper()
	rt, err := holdfast.New(holdfast.Config{Store: st, Lease: time.Minute, Poll: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return rt
}

// stores are those that every process of a test shares.
func stores(t *testing.T) map[string]store.Store {
	t.Helper()
	file, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "test.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	all := map[string]store.Store{"inmem": inmem.New(inmem.Config{}), "sqlite": file}
	server, err := pgserver.StartVolatile(os.Getenv("TMPDIR"))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no PostgreSQL to test with: %v", err)
		}
		t.Logf("no PostgreSQL to test with: %v", err)
		return all
	}
	t.Cleanup(server.Stop)
	remote, err := postgres.Open(t.Context(), server.URL(), postgres.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = remote.Close() })
	all["postgres"] = remote
	return all
}

// await polls until the nodes are as wanted.
func await(t *testing.T, n *node.Nodes, what string, ready func([]node.Node) bool) []node.Node {
	t.Helper()
	for over := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		list, err := n.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ready(list) {
			return list
		}
		if time.Now().After(over) {
			t.Fatalf("%s: %+v", what, list)
		}
	}
}

func TestNodes_showThemselvesDrainAndGo(t *testing.T) {
	t.Parallel()
	for name, st := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, others := node.New(newRuntime(t, st), nil), node.New(newRuntime(t, st), nil)
			var running atomic.Int64
			one := &node.Self{ID: "node-1", Address: "http://one:8420", Version: "v1", Loads: func() []worker.Load {
				return []worker.Load{{Kind: session.KindChat, Slots: 32, Running: int(running.Load())}}
			}}
			two := &node.Self{ID: "node-2"}
			ctx, end := context.WithCancel(t.Context())
			ctx2, end2 := context.WithCancel(t.Context())
			var living, first sync.WaitGroup
			t.Cleanup(func() { end(); end2(); first.Wait(); living.Wait() })
			first.Go(func() { nodes.Run(ctx, one) })
			await(t, nodes, "one node", func(l []node.Node) bool { return len(l) == 1 })
			living.Go(func() { others.Run(ctx2, two) })
			list := await(t, nodes, "two nodes", func(l []node.Node) bool { return len(l) == 2 })
			if l := list[0]; l.ID != "node-1" || l.Address != "http://one:8420" || l.Version != "v1" || l.Draining || len(l.Loads) != 1 || l.Loads[0].Slots != 32 ||
				time.Since(l.HeartbeatAt).Abs() > time.Minute || time.Since(l.StartedAt).Abs() > time.Minute {
				t.Errorf("%+v", l)
			}
			if err := nodes.Drain(t.Context(), "node-1", true, "test"); err != nil {
				t.Fatal(err)
			}
			await(t, nodes, "a node that drains", func(l []node.Node) bool { return len(l) == 2 && l[0].Draining && !l[1].Draining })
			if !one.Draining() || two.Draining() {
				t.Error("the wrong node drains")
			}
			running.Store(3)
			if err := nodes.Drain(t.Context(), "node-1", false, "test"); err != nil {
				t.Fatal(err)
			}
			await(t, nodes, "a node that works again", func(l []node.Node) bool { return len(l) == 2 && !l[0].Draining && l[0].Loads[0].Running == 3 })
			end()
			first.Wait()
			await(t, nodes, "a node that has gone", func(l []node.Node) bool { return len(l) == 1 && l[0].ID == "node-2" })
			for _, id := range []string{"node-1", "nobody", ""} {
				if err := nodes.Drain(t.Context(), id, true, "test"); !errors.Is(err, session.ErrNotFound) {
					t.Errorf("%q: %v", id, err)
				}
			}
		})
	}
}

// A node that died is not listed once its lease is over, and its session is
// removed later.
func TestNodes_theDeadDisappear(t *testing.T) {
	t.Parallel()
	st := inmem.New(inmem.Config{})
	rt := newRuntime(t, st)
	ref := store.Ref{Tenant: node.Tenant, ID: "node-1"}
	dead := rt.For(holdfast.Identity{Tenant: node.Tenant})
	if _, err := dead.Create(t.Context(), session.Definition{Name: "node"}, holdfast.WithID(ref.ID), holdfast.WithKind(session.KindPolicy)); err != nil {
		t.Fatal(err)
	}
	var ahead atomic.Int64
	nodes := node.New(rt, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	if list, err := nodes.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := st.Info(t.Context(), ref); err != nil {
		t.Errorf("it was removed at once: %v", err)
	}
	ahead.Store(int64(2 * time.Minute))
	if list, err := nodes.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := st.Info(t.Context(), ref); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the session of a dead node stays: %v", err)
	}
}
