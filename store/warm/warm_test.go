package warm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/warm"
)

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

// saved is a session as a store returns it, with one message of some length.
func saved(t *testing.T, identity session.Identity, length int) session.Session {
	t.Helper()
	identity.AgentID = "agent"
	s, err := session.New(identity, session.Definition{Name: "tester"}, session.Seed{
		Messages: []session.Message{{ID: "m-1", Role: session.RoleUser, Content: session.Text(strings.Repeat("x", length))}},
	}, noon())
	if err != nil {
		t.Fatal(err)
	}
	return session.Seal(s, noon())
}

// next is a session one version later.
func next(t *testing.T, s session.Session) session.Session {
	t.Helper()
	s, err := s.WithMessage(session.Message{ID: fmt.Sprint("m-", s.Seq()), Role: session.RoleUser, Content: session.Text("more")}, noon())
	if err != nil {
		t.Fatal(err)
	}
	return session.Seal(s, noon())
}

func mark(s session.Session, sum store.Sum) warm.Mark {
	return warm.Mark{Version: s.Version(), Last: s.Seq(), Sum: sum, UpdatedAt: s.Info().UpdatedAt}
}

func TestGet_onlyWhatHasTheMark(t *testing.T) {
	t.Parallel()
	s := saved(t, session.Identity{ID: "s"}, 1)
	right := mark(s, 7)
	for name, change := range map[string]func(*warm.Mark){
		"another version":  func(m *warm.Mark) { m.Version++ },
		"a later change":   func(m *warm.Mark) { m.Last++ },
		"another checksum": func(m *warm.Mark) { m.Sum++ },
		"another time":     func(m *warm.Mark) { m.UpdatedAt = m.UpdatedAt.Add(time.Microsecond) },
	} {
		c := warm.New(warm.DefaultLimit)
		c.Keep(s, 7)
		if got, ok := c.Get(store.RefOf(s), right); !ok || got.Seq() != s.Seq() {
			t.Fatalf("what was kept is not found: %t", ok)
		}
		if _, ok := c.Get(store.Ref{Tenant: "other", ID: "s"}, right); ok {
			t.Error("another tenant gets the session")
		}
		wrong := right
		change(&wrong)
		if _, ok := c.Get(store.RefOf(s), wrong); ok {
			t.Errorf("found although %s was asked for", name)
		}
		if c.Has(store.RefOf(s)) {
			t.Errorf("still held although the store has %s", name)
		}
	}
}

func TestKeep_theLaterWins(t *testing.T) {
	t.Parallel()
	c := warm.New(warm.DefaultLimit)
	first := saved(t, session.Identity{ID: "s"}, 1)
	second := next(t, first)
	c.Keep(second, 2)
	c.Keep(first, 1) // a slower caller of an earlier write
	if _, ok := c.Get(store.RefOf(first), mark(second, 2)); !ok {
		t.Error("an earlier state has taken the place of a later one")
	}
	c.Drop(store.RefOf(first))
	if c.Has(store.RefOf(first)) {
		t.Error("a dropped session is held")
	}
}

func TestKeep_staysWithinTheLimit(t *testing.T) {
	t.Parallel()
	const each = 10_000
	a, b, d := saved(t, session.Identity{ID: "a"}, each), saved(t, session.Identity{ID: "b"}, each), saved(t, session.Identity{ID: "d"}, each)
	c := warm.New(2*session.Weight(a) + 1)
	c.Keep(a, 1)
	c.Keep(b, 1)
	c.Get(store.RefOf(a), mark(a, 1)) // b is now the one that was not used for the longest time
	c.Keep(d, 1)
	for _, want := range []struct {
		s    session.Session
		held bool
	}{{a, true}, {b, false}, {d, true}} {
		if held := c.Has(store.RefOf(want.s)); held != want.held {
			t.Errorf("%s is held: %t, want %t", want.s.ID(), held, want.held)
		}
	}
	huge := saved(t, session.Identity{ID: "huge"}, 3*each)
	c.Keep(huge, 1)
	if c.Has(store.RefOf(huge)) || !c.Has(store.RefOf(a)) {
		t.Error("a session larger than the limit was kept, or others had to go for it")
	}
	c.Clear()
	if c.Has(store.RefOf(a)) {
		t.Error("held after Clear")
	}
}

func TestKeep_leavesOut(t *testing.T) {
	t.Parallel()
	none := warm.New(warm.Limit(-1))
	s := saved(t, session.Identity{ID: "s"}, 1)
	if got := none.Keep(s, 5); none.Has(store.RefOf(s)) {
		t.Error("a cache without room holds a session")
	} else if sum, ok := session.BaseSum(got); !ok || sum != 5 {
		t.Errorf("the session has the sum %d, %t; want 5", sum, ok)
	}
	c := warm.New(warm.Limit(0))
	task := saved(t, session.Identity{ID: "task", Kind: session.KindTask}, 1)
	c.Keep(task, 1)
	if c.Has(store.RefOf(task)) {
		t.Error("a task is held")
	}
	head, err := session.EncodeHead(s)
	if err != nil {
		t.Fatal(err)
	}
	without, err := session.DecodeHead(head, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Keep(without, 1)
	if c.Has(store.RefOf(without)) {
		t.Error("a session is held although its message is not there")
	}
	unsaved, err := s.WithMessage(session.Message{ID: "m-2", Role: session.RoleUser, Content: session.Text("y")}, noon())
	if err != nil {
		t.Fatal(err)
	}
	c.Keep(unsaved, 1)
	if c.Has(store.RefOf(unsaved)) {
		t.Error("a session with unsaved changes is held")
	}
}

func TestKeep_aPartWithAllThatTheWindowShows(t *testing.T) {
	t.Parallel()
	s := next(t, next(t, saved(t, session.Identity{ID: "s"}, 1)))
	second, third := s.Message(1).Seq, s.Message(2).Seq
	move := func(s session.Session, from int64, keep ...int64) session.Session {
		moved, err := s.With(noon(), session.WindowMoved{To: from, Keep: keep})
		if err != nil {
			t.Fatal(err)
		}
		return session.Seal(moved, noon())
	}
	c := warm.New(warm.DefaultLimit)
	s = move(s, third)
	c.Keep(s, 1)
	part, ok := c.Get(store.RefOf(s), mark(s, 1))
	if !ok || part.Len() != 1 || !part.Partial() {
		t.Fatalf("held: %t, with %d messages; want the one that the window shows", ok, part.Len())
	}
	for name, want := range map[string]struct {
		s    session.Session
		held bool
	}{
		"one message more":                    {next(t, part), true},
		"a window that begins later":          {move(part, third+1, third), true},
		"a window that begins earlier":        {move(part, second), false},
		"a window that keeps another message": {move(part, third, second), false},
		"a part without the window":           {session.WithoutMessages(part), false},
	} {
		c := warm.New(warm.DefaultLimit)
		c.Keep(want.s, 1)
		if held := c.Has(store.RefOf(want.s)); held != want.held {
			t.Errorf("%s: held is %t, want %t", name, held, want.held)
		}
	}
}
