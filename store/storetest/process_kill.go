//go:build unix

package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// A lease in the suite lasts for ever where a dead holder is replaced at once,
// and else so short that waiting for its end is bearable.
const (
	foreverLease = 24 * time.Hour
	shortLease   = 300 * time.Millisecond
)

func (p Processes) lease() time.Duration {
	if p.ReplacesDead {
		return foreverLease
	}
	return shortLease
}

// killedAtEveryWritePoint lets one worker live through all of a session's
// writes and records the points; then, for each point, or for some of them, lets
// another one do the same on fresh data and die there. What it leaves must be the session as last
// acknowledged, or as the write it died in would have made it.
func killedAtEveryWritePoint(t *testing.T, p Processes) {
	url := p.NewURL(t)
	snapshots := []string{absent}
	var points []string
	acknowledged, _ := startWorker(t, job{Do: "live", URL: url, Record: true, Lease: p.lease()}, 0).all(t)
	for _, r := range acknowledged {
		snapshots, points = append(snapshots, r.Snapshot), append(points, r.Points...)
	}
	if want := len(steps(openQuiet(t, p, url))); len(snapshots) != want+1 {
		t.Fatalf("dry run: %d steps acknowledged, want %d", len(snapshots)-1, want)
	}
	if len(points) < len(snapshots)-1 {
		t.Fatalf("%d write points in %d writes: %q", len(points), len(snapshots)-1, points)
	}
	for i := range points {
		if child.Flag[int](killsFlag) <= defaultKills && !chosen(i, len(points)) {
			continue
		}
		t.Run(fmt.Sprintf("%03d %s", i+1, points[i]), func(t *testing.T) {
			t.Parallel()
			checkKilledAt(t, p, i+1, snapshots)
		})
	}
}

// pointsSeed decides which write points are chosen.
var pointsSeed = sync.OnceValue(func() uint64 {
	if seed := child.Flag[uint64](seedFlag); seed != 0 {
		return seed
	}
	return rand.Uint64()
})

// chosen reports whether a worker is killed at the i-th of n write points when
// it is not killed at all of them. The chosen ones are spread evenly.
func chosen(i, n int) bool {
	every := max(n/somePoints, 1)
	return i%every == int(pointsSeed()%uint64(every)) //nolint:gosec // every is small and positive
}

// checkKilledAt kills a worker at the n-th write point and checks what it left.
func checkKilledAt(t *testing.T, p Processes, n int, snapshots []string) {
	url := p.NewURL(t)
	acknowledged, killed := startWorker(t, job{Do: "live", URL: url, Lease: p.lease()}, n).all(t)
	if killed == "" {
		t.Fatalf("the worker ended before write point %d", n)
	}
	st := openQuiet(t, p, url)
	have, err := snapshot(t.Context(), st)
	if err != nil {
		t.Fatalf("after %d acknowledged writes: %v", len(acknowledged), err)
	}
	before, after := snapshots[len(acknowledged)], snapshots[len(acknowledged)+1]
	if have != before && have != after {
		t.Fatalf("after %d acknowledged writes the store holds\n%s\nneither what was acknowledged\n%s\nnor what came next\n%s",
			len(acknowledged), have, before, after)
	}
	newest := int64(0)
	for _, r := range acknowledged {
		newest = max(newest, r.Token)
	}
	checkContinues(t, p, st, newest)
	if p.Leftovers == nil {
		return
	}
	left, err := p.Leftovers(url)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind after the next write: %q, %v", left, err)
	}
}

// checkContinues checks that the store works after a crash, and that the dead
// worker's lease is replaced and its token fenced.
func checkContinues(t *testing.T, p Processes, st store.Store, used int64) {
	t.Helper()
	ctx := t.Context()
	s, err := lifeBegin(lifeID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Create(ctx, s, store.Commit{ID: "carry on", At: lifeTime()}); err != nil && !errors.Is(err, session.ErrConflict) {
		t.Fatalf("create: %v", err)
	}
	_, tails := st.(store.Tails)
	if s, err = st.Load(ctx, lifeRef(), tails); err != nil {
		t.Fatalf("load: %v", err)
	}
	var lease store.Lease
	if leases, ok := st.(store.Leases); ok {
		lease = takeOver(t, p, leases)
		if lease.Token <= used {
			t.Errorf("token %d after %d", lease.Token, used)
		}
		if used > 0 {
			if _, err := st.Save(ctx, s, store.Commit{ID: "late", Fence: used}); !errors.Is(err, session.ErrFenced) {
				t.Errorf("save under the dead worker's lease: %v, want FencedError", err)
			}
		}
	}
	next, err := addText(s, "carry on")
	if err != nil {
		t.Fatal(err)
	}
	if tails, ok := st.(store.Tails); ok {
		if next, err = tails.Append(ctx, next, store.Append{Fence: lease.Token}); err != nil {
			t.Fatalf("append: %v", err)
		}
	}
	if _, err = st.Save(ctx, next, store.Commit{ID: "carried on", At: lifeTime(), Fence: lease.Token, Release: lease.Token != 0}); err != nil {
		t.Fatalf("save: %v", err)
	}
	got, err := st.Load(ctx, lifeRef(), tails)
	if err != nil || got.Version() != s.Version()+1 || got.Len() != s.Len()+1 {
		t.Errorf("version %d with %d messages (%v), want version %d with %d", got.Version(), got.Len(), err, s.Version()+1, s.Len()+1)
	}
}

// takeOver takes the lease of a dead worker: at once, or when it has run out.
func takeOver(t *testing.T, p Processes, leases store.Leases) store.Lease {
	t.Helper()
	if !p.ReplacesDead {
		return waitForLease(t, leases)
	}
	l, err := leases.Acquire(t.Context(), lifeRef(), "the test", time.Minute)
	if err != nil {
		t.Fatalf("take the dead worker's lease: %v", err)
	}
	return l
}
