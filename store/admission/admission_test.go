package admission_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/admission"
)

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// saved is a session of version 2 with one pending change.
func saved(t *testing.T) session.Session {
	t.Helper()
	s, err := session.New(session.Identity{ID: "s", AgentID: "agent"}, session.Definition{Name: "tester"}, session.Seed{}, noon())
	if err != nil {
		t.Fatal(err)
	}
	if s, err = session.Seal(session.Seal(s, noon()), noon()).WithMessage(session.Message{ID: "m", Role: session.RoleUser, Content: session.Text("hi")}, noon()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Every state breaks one check more than the one before, so each error shows
// which check came first.
func TestAdmit_checksInTheOrderOfTheContract(t *testing.T) {
	t.Parallel()
	next := saved(t)
	have := admission.State{
		AgentID: next.AgentID(), Version: next.Version(), LastSeq: session.Base(next),
		Lease: admission.Lease{Lease: store.Lease{Token: 7, Holder: "worker", Until: noon()}}, Live: func() bool { return false },
	}
	if err := have.Admit(next, 0); err != nil {
		t.Fatalf("a state that fits: %v", err)
	}
	if err := have.Admit(next, 7); err != nil {
		t.Fatalf("the holder of a lease that ran out: %v", err)
	}
	conflict := func(reason session.ConflictReason) func(error) bool {
		return func(err error) bool {
			var c *session.ConflictError
			return errors.As(err, &c) && c.Reason == reason
		}
	}
	damage := &session.CorruptError{ID: "s"}
	for _, c := range []struct {
		name   string
		change func()
		fence  int64
		want   func(error) bool
	}{
		{"a longer tail", func() { have.LastSeq++ }, 7, conflict(session.ReasonOpenTail)},
		{"a later version", func() { have.Version++ }, 7, conflict(session.ReasonStale)},
		{"another agent", func() { have.AgentID = "other" }, 7, conflict(session.ReasonReplaced)},
		{"an old token", func() {}, 6, func(err error) bool { return errors.Is(err, session.ErrFenced) }},
		{"a released token", func() { have.Lease.Released = true }, 7, func(err error) bool { return errors.Is(err, session.ErrFenced) }},
		{"a live lease", func() { have.Lease.Released, have.Live = false, func() bool { return true } }, 0, func(err error) bool { return errors.Is(err, session.ErrBusy) }},
		{"damage", func() { have.Damage = damage }, 0, func(err error) bool { return errors.Is(err, damage) }},
	} {
		c.change()
		if err := have.Admit(next, c.fence); !c.want(err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLease_endsByTimeReleaseOrNever(t *testing.T) {
	t.Parallel()
	l := admission.NewLease("somebody", noon(), time.Minute)
	if l.Live(noon()) {
		t.Error("a lease without a token is live")
	}
	l.Token = 3
	if !l.Live(noon()) || l.Live(noon().Add(time.Minute)) {
		t.Error("a lease is not live exactly until its end")
	}
	if !l.Is(3) || l.Is(2) || l.Is(0) || (admission.Lease{}).Is(0) {
		t.Error("the newest token is not the only one that counts")
	}
	l.Released = true
	if l.Live(noon()) || l.Is(3) {
		t.Error("a released lease still counts")
	}
}

func TestCheckCreate_existsComesBeforeTheVersion(t *testing.T) {
	t.Parallel()
	var c *session.ConflictError
	if err := admission.CheckCreate(saved(t), true); !errors.As(err, &c) || c.Reason != session.ReasonExists {
		t.Errorf("a session that exists: %v", err)
	}
	if err := admission.CheckCreate(saved(t), false); !errors.As(err, &c) || c.Reason != session.ReasonNonzeroVersion {
		t.Errorf("a session with a version: %v", err)
	}
}
