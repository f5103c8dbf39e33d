//go:build unix

package transfer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/store/transfer"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Program{"copy": copyFiles})
	os.Exit(m.Run())
}

// copyFiles copies all sessions from one file to another.
func copyFiles(ctx context.Context, p *child.Process) error {
	var paths [2]string
	if err := p.Job(&paths); err != nil {
		return err
	}
	from, err := sqlite.Open(ctx, paths[0], sqlite.Config{})
	if err != nil {
		return err
	}
	to, err := sqlite.Open(ctx, paths[1], sqlite.Config{})
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
		copier := startCopy(t, fromPath, toPath)
		select {
		case <-copier.Gone:
		case <-time.After(time.Duration(rand.IntN(60)) * time.Millisecond): // the moment of the kill, not a wait for something
			copier.Kill("chance")
		}
		end, err := copier.Wait()
		if err != nil {
			t.Fatalf("after %d kills: %v", kills, err)
		}
		if end.Killed != "" {
			kills++
		}
	}
	if kills == 0 {
		t.Error("no run was killed: the copy is over too soon")
	}
	if _, err := startCopy(t, fromPath, toPath).Wait(); err != nil {
		t.Fatalf("the last run: %v", err)
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

func startCopy(t *testing.T, from, to string) *child.Child {
	t.Helper()
	c, err := child.Start(t.Context(), child.Config{Program: "copy", Job: [2]string{from, to}})
	if err != nil {
		t.Fatal(err)
	}
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
		back, err := session.DiscardTail(s, session.Base(s)+1, acting.Seq(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		appendTo(t, st, named(t, appendTo(t, st, back), "unfinished"))
	}
	return ids
}
