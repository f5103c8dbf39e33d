//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// crashVariable tells a test's own binary, started again, to write to a store
// and to die at a point: the path, a space, and the point counted from 1.
const crashVariable = "HOLDFAST_SQLITE_CRASH"

// TestIndex_killedAtAnyPointAgreesWithTheLog starts itself again and again as
// a process that remembers, indexes, embeds, purges and rebuilds, and that is
// killed at one point after the other.
func TestIndex_killedAtAnyPointAgreesWithTheLog(t *testing.T) {
	t.Parallel()
	if job, ok := os.LookupEnv(crashVariable); ok {
		crash(t, job)
		return
	}
	points := runToPoint(t, filepath.Join(t.TempDir(), "sessions.db"), 0)
	for _, want := range []string{"before index", "after index", "after entry", "after removal", "after vectors", "after marks"} {
		if !slices.Contains(points, want) {
			t.Fatalf("no point %q among %q", want, points)
		}
	}
	for i, point := range points {
		if strings.HasSuffix(point, " begin") || point == "after request" {
			continue // nothing is written between these and what comes next
		}
		t.Run(fmt.Sprintf("%03d %s", i+1, point), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "sessions.db")
			runToPoint(t, path, i+1)
			st := open(t, path, sqlite.Config{})
			healthy(t, st)
			indexAll(t, st)
			embedAll(t, st, east)
			healthy(t, st)
			for _, id := range []string{"kept", "fork"} {
				s, err := st.LoadWhole(t.Context(), ref(id), 0)
				if errors.Is(err, session.ErrNotFound) {
					continue
				}
				if got := found(t, st, id, "tea"); err != nil || len(got) != s.Len() {
					t.Errorf("%s has %d messages (%v), found %q", id, s.Len(), err, got)
				}
				if got := nearIn(t, st, id); len(got) != s.Len() {
					t.Errorf("%s has %d messages, near are %q", id, s.Len(), got)
				}
			}
		})
	}
}

// runToPoint runs the crashing process and gives the points it has passed.
// Point 0 is none: it must come to its end.
func runToPoint(t *testing.T, path string, point int) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestIndex_killedAtAnyPointAgreesWithTheLog$")
	cmd.Env = append(os.Environ(), crashVariable+"="+path+" "+strconv.Itoa(point))
	var told strings.Builder
	cmd.Stderr = &told
	err = cmd.Run()
	var exit *exec.ExitError
	killed := false
	if errors.As(err, &exit) {
		status, ok := exit.Sys().(syscall.WaitStatus)
		killed = ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	}
	if killed != (point > 0) || (!killed && err != nil) {
		t.Fatalf("the process ended with %v at point %d: %s", err, point, told.String())
	}
	return strings.Split(strings.TrimSpace(told.String()), "\n")
}

// crash is the life of the process that dies.
func crash(t *testing.T, job string) {
	path, number, _ := strings.Cut(job, " ")
	last, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	var armed atomic.Bool // what comes before, others test
	passed := 0
	st := open(t, path, sqlite.Config{OnWrite: func(point string) {
		if !armed.Load() {
			return
		}
		fmt.Fprintln(os.Stderr, point)
		if passed++; passed == last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	st.RestIndex() // the points come in one order, however long this takes
	kept := save(t, st, said(t, create(t, st, "kept"), "tea for one"))
	purged := save(t, st, said(t, create(t, st, "purged"), "tea for two"))
	fork(t, st, purged, "fork")
	save(t, st, said(t, purged, "tea for nobody"))
	armed.Store(true)
	owner := store.Owner{Tenant: session.DefaultTenant, Scope: store.ScopeUser, Name: "ann"}
	for _, value := range []string{`"green tea"`, `"black tea"`} {
		if _, err := st.Remember(t.Context(), owner, store.Memo{Key: "likes", Value: []byte(value), CallID: value}); err != nil {
			t.Fatal(err)
		}
	}
	embed := func(ctx context.Context) error { _, err := embedPage(ctx, st, 3, east); return err }
	for _, step := range []func(context.Context) error{
		embed,
		func(ctx context.Context) error { return st.Index(ctx, 3) },
		func(ctx context.Context) error { return st.Index(ctx, 100) },
		func(ctx context.Context) error { return st.Delete(ctx, ref("purged"), 0) },
		func(ctx context.Context) error {
			_, err := st.Save(ctx, said(t, kept, "tea again"), store.Commit{ID: "c"})
			return err
		},
		embed,
		func(ctx context.Context) error { _, err := st.Forget(ctx, owner, "likes", nil); return err },
		func(ctx context.Context) error { return st.Index(ctx, 100) },
		func(ctx context.Context) error { _, err := st.Reindex(ctx, nil); return err },
	} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
