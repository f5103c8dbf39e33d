//go:build unix

package transfer_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/transfer"
)

// crashVariable tells a process of this binary to copy: from one file to
// another, with a line on standard output for each session.
const crashVariable = "HOLDFAST_TRANSFER_CHILD"

func TestMain(m *testing.M) {
	paths, child := os.LookupEnv(crashVariable)
	if !child {
		os.Exit(m.Run())
	}
	from, to, _ := strings.Cut(paths, "|")
	if err := copyFiles(from, to); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func copyFiles(fromPath, toPath string) error {
	ctx := context.Background()
	from, err := sqlite.Open(ctx, fromPath, sqlite.Config{})
	if err != nil {
		return err
	}
	to, err := sqlite.Open(ctx, toPath, sqlite.Config{})
	if err != nil {
		return err
	}
	plan, err := transfer.PlanAll(ctx, from, tenant)
	if err != nil {
		return err
	}
	c := transfer.New(from, to)
	for _, r := range plan.Refs() {
		if _, err := c.Copy(ctx, r); err != nil {
			return err
		}
		fmt.Println(r.ID)
	}
	return nil
}

// A process that copies is killed again and again, at moments that nobody
// chose; the one that is left alone in the end completes the copy.
func TestCopy_killedAndStartedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fromPath, toPath := filepath.Join(dir, "from.db"), filepath.Join(dir, "to.db")
	from, err := sqlite.Open(t.Context(), fromPath, sqlite.Config{Synchronous: sqlite.Normal})
	if err != nil {
		t.Fatal(err)
	}
	ids := populate(t, from)
	kills := 0
	for range 12 {
		child := startCopy(t, fromPath, toPath)
		pause := time.Duration(rand.IntN(60)) * time.Millisecond
		select {
		case err := <-child.ended:
			if err != nil {
				t.Fatalf("after %d kills: %v: %s", kills, err, child.errors)
			}
		case <-time.After(pause): // the moment of the kill, not a wait for something
			if err := child.process.Signal(syscall.SIGKILL); err != nil && !strings.Contains(err.Error(), "finished") {
				t.Fatal(err)
			}
			<-child.ended
			kills++
		}
	}
	if kills == 0 {
		t.Error("no run was killed: the copy is over too soon")
	}
	last := startCopy(t, fromPath, toPath)
	if err := <-last.ended; err != nil {
		t.Fatalf("the last run: %v: %s", err, last.errors)
	}
	to, err := sqlite.Open(t.Context(), toPath, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		same(t, t, to, from, id)
	}
	if problems, err := to.Check(t.Context(), nil); err != nil || len(problems) > 0 {
		t.Errorf("the copy has problems: %q, %v", problems, err)
	}
	for _, st := range []*sqlite.Store{from, to} {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

type copier struct {
	process *os.Process
	ended   chan error
	errors  *strings.Builder
}

func startCopy(t *testing.T, from, to string) copier {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), crashVariable+"="+from+"|"+to, "GORACE=atexit_sleep_ms=0")
	c := copier{ended: make(chan error, 1), errors: &strings.Builder{}}
	cmd.Stdout, cmd.Stderr = io.Discard, c.errors
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.process = cmd.Process
	go func() { c.ended <- cmd.Wait() }()
	return c
}

// populate makes sessions with versions, refused turns, forks and open tails.
func populate(t *testing.T, st full) []string {
	t.Helper()
	var ids []string
	for i := range 15 {
		id := fmt.Sprintf("p%02d", i)
		ids = append(ids, id, id+"-fork")
		s := create(t, st, id, "agent-"+id)
		for v := range 8 {
			s = save(t, st, named(t, s, fmt.Sprint("name ", v)))
		}
		fork, err := s.Fork(id+"-fork", "agent-of-fork-"+id, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if fork, err = st.Fork(t.Context(), fork, store.Commit{ID: "fork-" + id, Action: "fork", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		save(t, st, named(t, fork, "on its own"))
		acting := appendTo(t, st, named(t, s, "refused"))
		back, err := s.Discarded(s.Base()+1, acting.Seq(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		appendTo(t, st, named(t, appendTo(t, st, back), "unfinished"))
	}
	return ids
}
