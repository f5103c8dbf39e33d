package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/transfer"
)

// stocked is a store with some sessions.
func stocked(t *testing.T, n int) *inmem.Store {
	t.Helper()
	st := inmem.New(inmem.Config{})
	for i := range n {
		s, err := session.New(session.Identity{ID: fmt.Sprintf("s%03d", i), AgentID: fmt.Sprint("agent-", i)}, session.Definition{Name: "tester"}, session.Seed{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Create(t.Context(), s, store.Commit{ID: fmt.Sprint("c", i), Action: "create", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

// watched is a store that tells before it creates a session.
type watched struct {
	*inmem.Store
	creates func(n int) error
	n       int
}

func (w *watched) Create(ctx context.Context, s session.Session, c store.Commit) (session.Session, error) {
	w.n++
	if err := w.creates(w.n); err != nil {
		return session.Session{}, err
	}
	return w.Store.Create(ctx, s, c)
}

func copyWork(ctx context.Context, t *testing.T, from, to store.Store, atOnce int) (copying, error) {
	t.Helper()
	plan, err := transfer.PlanAll(ctx, from, session.DefaultTenant)
	if err != nil {
		t.Fatal(err)
	}
	var c copying
	err = c.work(ctx, nil, transfer.New(from, to), plan, atOnce)
	return c, err
}

func TestCopy_interruptFinishesTheSessionAtHand(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	from := stocked(t, 10)
	to := &watched{Store: inmem.New(inmem.Config{}), creates: func(n int) error {
		if n == 3 {
			interrupt()
		}
		return nil
	}}
	c, err := copyWork(ctx, t, from, to, 1)
	if code, _ := exitCodeOf(err); code != exitInterrupted || !strings.Contains(err.Error(), "7 sessions to go; run the same command again to continue") {
		t.Errorf("got %v", err)
	}
	if len(c.Sessions) != 3 || c.Left != 7 {
		t.Errorf("%d sessions were copied and %d left, want 3 and 7", len(c.Sessions), c.Left)
	}
	c, err = copyWork(t.Context(), t, from, to, 1)
	if err != nil || len(c.Sessions) != 10 || to.n != 10 {
		t.Errorf("going on: %d sessions, %d of them made, %v", len(c.Sessions), to.n, err)
	}
}

// What is wrong with one session stops no other; what is wrong with the store
// stops at once.
func TestCopy_failuresOfASessionAndOfTheStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err          error
		code         int
		done, failed int
	}{
		"of a session":  {&session.ConflictError{ID: "s002", Reason: session.ReasonExists}, exitPartial, 9, 1},
		"of the store":  {errors.New("disk full"), exitIO, 2, 0},
		"of a stranger": {&session.BusyError{ID: "s002", Holder: "x"}, exitPartial, 9, 1},
	} {
		to := &watched{Store: inmem.New(inmem.Config{}), creates: func(n int) error {
			if n == 3 {
				return c.err
			}
			return nil
		}}
		got, err := copyWork(t.Context(), t, stocked(t, 10), to, 1)
		if code, _ := exitCodeOf(err); code != c.code || len(got.Sessions) != c.done || len(got.Failed) != c.failed {
			t.Errorf("%s: %d done, %d failed, code %d: %v", name, len(got.Sessions), len(got.Failed), code, err)
		}
	}
}

// Many at once: each of them once, told in the order of the plan.
func TestCopy_severalAtOnce(t *testing.T) {
	t.Parallel()
	from, to := stocked(t, 60), inmem.New(inmem.Config{})
	got, err := copyWork(t.Context(), t, from, to, atOnce)
	if err != nil || len(got.Sessions) != 60 || got.Left != 0 {
		t.Fatalf("%d copied, %d left, %v", len(got.Sessions), got.Left, err)
	}
	for i, r := range got.Sessions {
		if r.ID != fmt.Sprintf("s%03d", i) || r.Outcome != transfer.Copied {
			t.Errorf("in place %d: %+v", i, r)
		}
	}
	if again, err := copyWork(t.Context(), t, from, to, atOnce); err != nil || again.Sessions[59].Outcome != transfer.Same {
		t.Errorf("again: %+v, %v", again.Sessions, err)
	}
}

func TestCopy_notesOfManyAreToldOnce(t *testing.T) {
	t.Parallel()
	var reports []transfer.Report
	for i := range 5 {
		reports = append(reports, transfer.Report{ID: fmt.Sprint("s", i), Notes: []string{"the same"}})
	}
	reports[2].Notes = append(reports[2].Notes, "its own")
	var out bytes.Buffer
	(&program{Setup: setup.New(&terminal.Console{Err: terminal.NewScreen(&out)}, nil, nil)}).printNotes(reports)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if !slices.Equal(lines, []string{"warning: 5 sessions: the same", "warning: session s2: its own"}) {
		t.Errorf("told: %q", lines)
	}
}
