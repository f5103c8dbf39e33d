// Package chaostest holds no code, only the test that lets several processes
// work on chats, tasks and workflow runs while databases, connections and
// processes fail, and counts afterwards what was lost, recorded twice, run
// twice or left behind.
package chaostest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
)

var (
	chaosFor  = flag.Duration("chaos.for", 0, "how long faults are injected at random (0: a short fixed list of faults)")
	chaosSeed = flag.Uint64("chaos.seed", 0, "seed of the random faults (0: a new one)")
)

// TestMain is also where the worker processes begin.
func TestMain(m *testing.M) {
	child.Main(map[string]child.Program{"node": runNode})
	flag.Parse()
	os.Exit(m.Run())
}

// The short list has every fault, long enough to outlive the store's patience and
// short enough not to outlive the lease. Those that leave silent connections
// behind come last: nothing after them hangs these up.
var (
	shortPostgres = []planned{
		{fault: killNode, length: time.Second},
		{fault: refuse, length: 5 * time.Second},
		{fault: cut},
		{fault: restart},
		{fault: refuse, length: 4 * time.Second},
		{fault: slow, length: time.Second},
		{fault: drainNode},
		{fault: stopNode, length: 3 * time.Second},
		{fault: halfOpen, length: time.Second},
		{fault: silence, length: 2 * time.Second},
	}
	shortSQLite = []planned{
		{fault: killNode, length: time.Second},
		{fault: stopNode, length: 3 * time.Second},
		{fault: drainNode},
		{fault: stopNode, length: 11 * time.Second},
		{fault: killNode},
	}
)

func TestChaos_postgres(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills processes")
	}
	db := newDatabase(t)
	runChaos(t, setup{store: "postgres", url: db.url, wire: db.wire, server: db.server, nodes: 3, short: shortPostgres,
		faults: []fault{refuse, refuse, silence, halfOpen, slow, cut, restart, killNode, killNode, drainNode, stopNode}})
}

func TestChaos_sqlite(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("kills processes")
	}
	runChaos(t, setup{store: "sqlite", url: t.TempDir() + "/store.db", nodes: 3, short: shortSQLite, faults: []fault{killNode, killNode, drainNode, stopNode}})
}

// stuck is how long anything may take once all faults are over. It is no
// measurement: only what hangs takes as long.
const stuck = 4 * time.Minute

// runChaos starts nodes and clients, injects faults, waits until all is at rest
// and checks what is in the store.
func runChaos(t *testing.T, s setup) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := newCluster(t, ctx, s)
	t.Cleanup(func() { cancel(); c.wait() }) // ends also nodes that are stopped
	if err := c.startAll(); err != nil {
		t.Fatal(err)
	}
	clients := c.startClients()
	in := &injector{cluster: c, random: rand.New(rand.NewPCG(seedOf(t), 1)), count: map[string]int{}}
	if err := in.run(ctx, s); err != nil {
		t.Fatal(err)
	}
	clients.stop()
	if left := clients.wait(stuck); len(left) > 0 {
		t.Fatalf("stuck: %d requests got no answer after all faults were over: %v\n%s", len(left), left, c.complaints())
	}
	if err := c.restWithin(stuck); err != nil {
		t.Fatalf("stuck: %v\n%s", err, c.complaints())
	}
	if err := c.stopAll(stuck); err != nil {
		t.Fatalf("stuck: %v", err)
	}
	account, err := c.account(clients.sent())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("| store | faults | requests | retries | acknowledged | lost | recorded twice | `Once` run twice | stuck | told unknown |\n"+
		"| %s | %d | %d | %d | %d | %d | %d | %d | 0 | %d |\nfaults: %v", s.store, in.total(), account.sent, account.retries, account.acknowledged,
		len(account.lost), len(account.twice), len(account.again), account.unknown, in.count)
	for _, f := range []struct {
		what string
		keys []string
	}{{"lost", account.lost}, {"recorded twice", account.twice}, {"run twice", account.again}, {"damaged", account.damaged}} {
		if len(f.keys) > 0 {
			t.Errorf("%s: %v", f.what, f.keys)
		}
	}
	if least := len(s.short); account.acknowledged < least {
		t.Errorf("only %d requests were acknowledged", account.acknowledged)
	}
}

// seedOf returns the seed of the faults and prints it if the test fails.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintf(os.Stderr, "%s: again with -chaos.seed=%d\n", t.Name(), seed)
		}
	})
	return seed
}
