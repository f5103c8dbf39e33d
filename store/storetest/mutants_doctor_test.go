package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// damage is which sessions of a store cannot be read.
type damage struct {
	mu   sync.Mutex
	refs map[store.Ref]bool // guarded by mu
}

func (d *damage) set(r store.Ref, bad bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refs[r] = bad
}

func (d *damage) list() []store.Ref {
	d.mu.Lock()
	defer d.mu.Unlock()
	var refs []store.Ref
	for r, bad := range d.refs {
		if bad {
			refs = append(refs, r)
		}
	}
	return refs
}

// clinic is a store whose sessions can be damaged, with a good doctor.
type clinic struct {
	Full
	damage *damage
}

func (c clinic) Load(ctx context.Context, r store.Ref, tail bool) (session.Session, error) {
	for _, bad := range c.damage.list() {
		if bad == r {
			return session.Session{}, &session.CorruptError{ID: r.ID, Path: "head", Reason: "it was damaged"}
		}
	}
	return c.Full.Load(ctx, r, tail)
}

// looks is what every visit begins with.
func (c clinic) looks(ctx context.Context, p store.Progress) error {
	page, err := c.List(ctx, session.DefaultTenant, store.Query{})
	p.Report(len(page.Items), len(page.Items))
	return err
}

func (c clinic) Check(ctx context.Context, p store.Progress) ([]string, error) {
	var problems []string
	for _, r := range c.damage.list() {
		problems = append(problems, fmt.Sprintf("session %s of %s cannot be read", r.ID, r.Tenant))
	}
	return problems, c.looks(ctx, p)
}

func (c clinic) CheckSession(ctx context.Context, r store.Ref) ([]string, error) {
	if _, err := c.Info(ctx, r); err != nil {
		return nil, err
	}
	for _, bad := range c.damage.list() {
		if bad == r {
			return []string{fmt.Sprintf("session %s of %s cannot be read", r.ID, r.Tenant)}, nil
		}
	}
	return nil, nil
}

func (c clinic) Reindex(ctx context.Context, p store.Progress) (int, error) {
	return 1, c.looks(ctx, p)
}

func (c clinic) Repair(ctx context.Context, p store.Progress) ([]string, error) {
	var mended []string
	for _, r := range c.damage.list() {
		c.damage.set(r, false)
		mended = append(mended, fmt.Sprintf("session %s of %s", r.ID, r.Tenant))
	}
	return mended, c.looks(ctx, p)
}

func newClinic(wrap func(clinic) store.Store) Data {
	clock := NewClock()
	first := inmem.New(inmem.Config{Now: clock.Now})
	d := &damage{refs: map[store.Ref]bool{}}
	return Data{
		Clock:   clock,
		Open:    func(testing.TB) store.Store { return wrap(clinic{first.Handle(), d}) },
		Corrupt: func(_ testing.TB, r store.Ref) { d.set(r, true) },
	}
}

// TestSuite_catchesBrokenDoctors does for doctors what catchesBrokenStores
// does for stores.
func TestSuite_catchesBrokenDoctors(t *testing.T) {
	checks := map[string]behaviour{}
	for _, b := range doctorBehaviours() {
		checks[b.name] = b
		for what, good := range map[string]func(clinic) store.Store{
			"a doctor":                   func(c clinic) store.Store { return c },
			"a doctor who mends nothing": func(c clinic) store.Store { return helpless{c} },
		} {
			if failures := failuresOf(t, b, newClinic(good)); len(failures) != 0 {
				t.Errorf("%s fails on %s: %s", b.name, what, failures[0])
			}
		}
	}
	for name, m := range map[string]struct {
		wrap     func(clinic) store.Store
		caughtBy []string
	}{
		"blind":     {func(c clinic) store.Store { return blind{c} }, []string{"doctor/namesTheCorrupt"}},
		"alarmist":  {func(c clinic) store.Store { return alarmist{c} }, []string{"doctor/findsNothingWhereAllIsWell", "doctor/looksWhileTheStoreIsInUse", "doctor/namesTheCorrupt"}},
		"meddler":   {func(c clinic) store.Store { return meddler{c} }, []string{"doctor/namesTheCorrupt"}},
		"butcher":   {func(c clinic) store.Store { return butcher{c} }, []string{"doctor/repairMakesNothingWorse"}},
		"boaster":   {func(c clinic) store.Store { return boaster{c} }, []string{"doctor/repairMakesNothingWorse"}},
		"busybody":  {func(c clinic) store.Store { return busybody{c} }, []string{"doctor/findsNothingWhereAllIsWell", "doctor/repairMakesNothingWorse"}},
		"overshoot": {func(c clinic) store.Store { return overshoot{c} }, []string{"doctor/tellsHowFarItIs"}},
		"mute":      {func(c clinic) store.Store { return mute{c} }, []string{"doctor/tellsHowFarItIs"}},
		"lossy":     {func(c clinic) store.Store { return &lossy{clinic: c} }, []string{"doctor/leavesTheHealthyAlone"}},
		"deaf":      {func(c clinic) store.Store { return deafDoctor{c} }, []string{"doctor/refusesWhenClosedOrEnded"}},
	} {
		for _, by := range m.caughtBy {
			if len(failuresOf(t, checks[by], newClinic(m.wrap))) == 0 {
				t.Errorf("%s passes with a doctor who is %s", by, name)
			}
		}
	}
}

type helpless struct{ clinic }

func (c helpless) Repair(ctx context.Context, p store.Progress) ([]string, error) {
	return nil, c.looks(ctx, p)
}

type blind struct{ clinic }

func (c blind) Check(ctx context.Context, p store.Progress) ([]string, error) {
	return nil, c.looks(ctx, p)
}

type alarmist struct{ clinic }

func (c alarmist) Check(ctx context.Context, p store.Progress) ([]string, error) {
	problems, err := c.clinic.Check(ctx, p)
	return append(problems, "session talk looks pale"), err
}

// meddler mends while it should only look.
type meddler struct{ clinic }

func (c meddler) Check(ctx context.Context, p store.Progress) ([]string, error) {
	problems, err := c.clinic.Check(ctx, p)
	if err == nil {
		_, err = c.Repair(ctx, nil)
	}
	return problems, err
}

type butcher struct{ clinic }

func (c butcher) Repair(ctx context.Context, p store.Progress) ([]string, error) {
	mended, err := c.clinic.Repair(ctx, p)
	if err == nil {
		err = c.Delete(ctx, ref("bad"), 0)
	}
	return mended, err
}

type boaster struct{ clinic }

func (c boaster) Repair(ctx context.Context, p store.Progress) ([]string, error) {
	return c.Check(ctx, p)
}

type busybody struct{ clinic }

func (c busybody) Repair(ctx context.Context, p store.Progress) ([]string, error) {
	mended, err := c.clinic.Repair(ctx, p)
	return append(mended, "dusted the index"), err
}

type overshoot struct{ clinic }

func (c overshoot) Check(ctx context.Context, p store.Progress) ([]string, error) {
	p.Report(101, 100)
	return c.clinic.Check(ctx, p)
}

type mute struct{ clinic }

func (c mute) Reindex(ctx context.Context, _ store.Progress) (int, error) {
	return c.clinic.Reindex(ctx, nil)
}

// lossy finds nothing once the index was built anew.
type lossy struct {
	clinic
	lost bool
}

func (c *lossy) Reindex(ctx context.Context, p store.Progress) (int, error) {
	c.lost = true
	return c.clinic.Reindex(ctx, p)
}

func (c *lossy) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	if c.lost {
		return nil, nil
	}
	return c.clinic.Search(ctx, tenant, q)
}

type deafDoctor struct{ clinic }

func (c deafDoctor) Check(ctx context.Context, p store.Progress) ([]string, error) {
	return c.clinic.Check(context.WithoutCancel(ctx), p)
}
