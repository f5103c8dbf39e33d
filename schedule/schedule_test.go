package schedule_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// place is a store with a clock that several processes share.
type place struct {
	clock *storetest.Clock
	store *inmem.Store
	rt    *holdfast.Runtime
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{clock: storetest.NewClock()} // 05:06:07
	p.store = inmem.New(inmem.Config{Now: p.clock.Now})
	p.rt = p.open(t)
	return p
}

func (p place) open(t *testing.T) *holdfast.Runtime {
	t.Helper()
	rt, err := holdfast.New(holdfast.Config{Store: p.store.Handle(), Now: p.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return rt
}

func (p place) schedules(t *testing.T) *schedule.Schedules {
	t.Helper()
	return schedule.New(p.open(t), p.clock.Now, nil)
}

func (p place) create(t *testing.T, id string) {
	t.Helper()
	if _, err := p.rt.Create(t.Context(), session.Definition{Name: "a"}, holdfast.WithID(id)); err != nil {
		t.Fatal(err)
	}
}

// posted lists the items in a session's inbox.
func (p place) posted(t *testing.T, id string) []string {
	t.Helper()
	items, err := p.rt.Inbox(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, it := range items {
		ids = append(ids, it.ID)
	}
	return ids
}

func mustCreate(t *testing.T, s *schedule.Schedules, want schedule.Schedule) schedule.Schedule {
	t.Helper()
	made, err := s.Create(t.Context(), want, "test")
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func fire(t *testing.T, s *schedule.Schedules) time.Time {
	t.Helper()
	next, err := s.Fire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestFire_onceAcrossProcesses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(t, "s")
	first := p.schedules(t)
	mustCreate(t, first, schedule.Schedule{ID: "hourly", Cron: "0 * * * *", CatchUp: schedule.All, SessionID: "s", Text: "hello"})
	agents := mustCreate(t, first, schedule.Schedule{ID: "fresh", Cron: "0 * * * *", CatchUp: schedule.All, Agent: &session.Definition{Name: "a"}, Text: "hello"})
	if next := fire(t, first); !next.Equal(agents.Next) || len(p.posted(t, "s")) != 0 {
		t.Fatalf("fired early, the next is %s", next)
	}
	for range 3 {
		p.clock.Advance(time.Hour)
		var wg sync.WaitGroup
		for range 4 {
			s := p.schedules(t)
			wg.Go(func() {
				if _, err := s.Fire(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if got := p.posted(t, "s"); len(got) != 3 {
		t.Errorf("the session got %q, want three", got)
	}
	n := 0
	for i, err := range p.rt.Sessions(t.Context(), store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(i.ID, "schedule-fresh-") {
			n++
			if got := p.posted(t, i.ID); len(got) != 1 {
				t.Errorf("%s got %q", i.ID, got)
			}
		}
	}
	if n != 3 {
		t.Errorf("%d sessions were created, want 3", n)
	}
}

// A process that died after the message was sent and before the schedule was
// moved on leaves it to the next, which changes nothing but the schedule.
func TestFire_sendingTwiceIsOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(t, "s")
	s := p.schedules(t)
	mustCreate(t, s, schedule.Schedule{ID: "x", Cron: "0 6 * * *", SessionID: "s", Text: "hello"})
	p.clock.Advance(time.Hour)
	if err := schedule.SendOnly(t.Context(), s, "x"); err != nil {
		t.Fatal(err)
	}
	fire(t, p.schedules(t))
	if got := p.posted(t, "s"); len(got) != 1 {
		t.Errorf("posted %q", got)
	}
}

// A process that is late, with a clock that is behind, does not move a schedule
// back.
func TestFire_aLateProcessMovesNothingBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(t, "s")
	s := p.schedules(t)
	due := mustCreate(t, s, schedule.Schedule{ID: "x", Cron: "0 * * * *", CatchUp: schedule.All, SessionID: "s", Text: "hello"})
	p.clock.Advance(3 * time.Hour)
	next := fire(t, s)
	p.clock.Advance(-2 * time.Hour)
	if err := schedule.FireStale(t.Context(), p.schedules(t), due); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), "", "x"); err != nil || !got.Next.Equal(next) {
		t.Errorf("the next is %s (%v), want %s", got.Next, err, next)
	}
	if got := p.posted(t, "s"); len(got) != 3 {
		t.Errorf("posted %q", got)
	}
}

func TestFire_catchesUp(t *testing.T) {
	t.Parallel()
	for policy, want := range map[schedule.CatchUp]int{schedule.Skip: 0, schedule.One: 1, schedule.All: 5} {
		p := newPlace(t)
		p.create(t, "s")
		s := p.schedules(t)
		mustCreate(t, s, schedule.Schedule{ID: "x", Cron: "0 * * * *", CatchUp: policy, SessionID: "s", Text: "hello"})
		p.clock.Advance(5 * time.Hour) // to 10:06
		next := fire(t, s)
		if got := p.posted(t, "s"); len(got) != want {
			t.Errorf("%s: %q, want %d", policy, got, want)
		}
		if !next.Equal(p.clock.Now().Truncate(time.Hour).Add(time.Hour)) {
			t.Errorf("%s: the next is %s", policy, next)
		}
		p.clock.Advance(54 * time.Minute) // 11:00:07 is in time for every policy
		fire(t, s)
		if got := p.posted(t, "s"); len(got) != want+1 {
			t.Errorf("%s in time: %q, want %d", policy, got, want+1)
		}
	}
}

// Years of absence do not take years to look at.
func TestFire_afterALongAbsence(t *testing.T) {
	t.Parallel()
	for policy, want := range map[schedule.CatchUp]int{schedule.Skip: 1, schedule.One: 1, schedule.All: 100} {
		p := newPlace(t)
		p.create(t, "s")
		s := p.schedules(t)
		mustCreate(t, s, schedule.Schedule{ID: "x", Cron: "* * * * *", CatchUp: policy, SessionID: "s", Text: "hello"})
		p.clock.Advance(3 * 365 * 24 * time.Hour)
		fire(t, s)
		if got := p.posted(t, "s"); len(got) != want {
			t.Errorf("%s: %d posted, want %d", policy, len(got), want)
		}
	}
}

func TestFire_whatCannotBeSentIsSaid(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(t, "gone")
	p.create(t, "s")
	s := p.schedules(t)
	mustCreate(t, s, schedule.Schedule{ID: "a", Cron: "0 * * * *", SessionID: "gone", Text: "hello"})
	mustCreate(t, s, schedule.Schedule{ID: "b", Cron: "0 * * * *", SessionID: "s", Text: "hello"})
	if err := p.rt.Purge(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(54 * time.Minute)
	fire(t, s)
	if got := p.posted(t, "s"); len(got) != 1 {
		t.Errorf("the other schedule sent %q", got)
	}
	if a, err := s.Get(t.Context(), "", "a"); err != nil || !strings.Contains(a.Problem, "gone") || !a.Next.After(p.clock.Now()) {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestPause_andDelete(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(t, "s")
	s := p.schedules(t)
	mustCreate(t, s, schedule.Schedule{ID: "x", Cron: "0 * * * *", CatchUp: schedule.All, SessionID: "s", Text: "hello"})
	if got, err := s.Pause(t.Context(), "default", "x", true, "test"); err != nil || !got.Paused {
		t.Fatalf("%+v, %v", got, err)
	}
	p.clock.Advance(3 * time.Hour)
	if next := fire(t, s); !next.IsZero() {
		t.Errorf("a paused schedule comes at %s", next)
	}
	if got, err := s.Pause(t.Context(), "default", "x", false, "test"); err != nil || got.Paused || !got.Next.After(p.clock.Now()) {
		t.Fatalf("%+v, %v", got, err)
	}
	fire(t, s)
	if got := p.posted(t, "s"); len(got) != 0 {
		t.Errorf("what passed while it was paused was sent: %q", got)
	}
	for _, tenant := range []string{"other", "default"} {
		err := s.Delete(t.Context(), tenant, "x", "test")
		if want := tenant == "other"; errors.Is(err, session.ErrNotFound) != want {
			t.Errorf("delete as %s: %v", tenant, err)
		}
	}
	if list, err := s.List(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}

func TestCreate_refuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(t, "s")
	s := p.schedules(t)
	good := schedule.Schedule{ID: "x", Cron: "0 * * * *", SessionID: "s", Text: "hello"}
	for field, change := range map[string]func(*schedule.Schedule){
		"cron":      func(w *schedule.Schedule) { w.Cron = "often" },
		"zone":      func(w *schedule.Schedule) { w.Zone = "Mars/Olympus" },
		"catchUp":   func(w *schedule.Schedule) { w.CatchUp = "maybe" },
		"text":      func(w *schedule.Schedule) { w.Text = "  " },
		"tenant":    func(w *schedule.Schedule) { w.Tenant = schedule.Tenant },
		"sessionId": func(w *schedule.Schedule) { w.Agent = &session.Definition{Name: "a"} },
		"id":        func(w *schedule.Schedule) { w.ID = strings.Repeat("x", 65) },
	} {
		bad := good
		change(&bad)
		_, err := s.Create(t.Context(), bad, "test")
		var invalid *session.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	missing := good
	missing.SessionID = "nobody"
	if _, err := s.Create(t.Context(), missing, "test"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a session that is not there: %v", err)
	}
	mustCreate(t, s, good)
	if _, err := s.Create(t.Context(), good, "test"); !errors.Is(err, session.ErrConflict) {
		t.Errorf("the same id again: %v", err)
	}
	list, err := s.List(t.Context(), "default")
	if err != nil || len(list) != 1 || list[0].ID != "x" {
		t.Errorf("%+v, %v", list, err)
	}
}
