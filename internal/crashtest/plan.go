package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
)

// Plan is a scenario at a place with the results of an undisturbed run.
type Plan struct {
	*Scenario
	Undisturbed *Run     // nil while it is on
	Points      []string // that its process passed, in order

	place        *Place
	took         time.Duration // the work of its process
	requests     []string      // keys, in order
	asked, began map[string]bool
}

func (p *Plan) once(call string) bool { return p.Once != nil && p.Once(call) }

// MustRehearse is Rehearse; an error fails the test.
func (p *Place) MustRehearse(t *testing.T, s *Scenario) *Plan {
	t.Helper()
	plan, err := p.Rehearse(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// Rehearse makes an undisturbed run.
func (p *Place) Rehearse(ctx context.Context, s *Scenario) (*Plan, error) {
	plan := &Plan{Scenario: s, place: p}
	r, err := plan.NewRun(ctx, 0)
	if err != nil {
		return nil, err
	}
	c, err := r.Start(ctx, Kill{record: true})
	if err != nil {
		return nil, err
	}
	<-c.Ready
	begun := time.Now()
	<-c.Gone
	plan.took, plan.Points = time.Since(begun), c.Points()
	killed, err := r.Finish(ctx, c)
	if err == nil && killed != "" {
		err = fmt.Errorf("killed by %s", killed)
	}
	if err == nil {
		err = plan.keep(r)
	}
	if err != nil {
		return nil, fmt.Errorf("undisturbed %s: %w", s.Row, err)
	}
	return plan, nil
}

// keep stores the results of the undisturbed run.
func (p *Plan) keep(r *Run) error {
	c, err := r.Account()
	if err == nil && !c.undisturbed() {
		err = fmt.Errorf("something happened that only a kill explains: %+v", c)
	}
	if err != nil {
		return err
	}
	effects, err := r.Effects()
	p.Undisturbed, p.asked, p.began = r, keys(effects, Asked), keys(effects, Began)
	for _, e := range effects {
		if e.What == Asked {
			p.requests = append(p.requests, e.Key)
		}
	}
	return err
}

// Kill says where a process dies: at a point, or when the model's server receives
// its request. The zero value kills nothing.
type Kill struct {
	Kind string // of moment, in a tally
	Name string
	At   string // the named point at which it kills itself

	Write   int    // the same for a write point, counted from 1
	Request string // the key of the request at which it is killed

	random *rand.Rand // decides when it is killed
	record bool       // it is not killed, and its points are recorded
}

// WritePoint is the kind of a kill at a write point of the store.
const WritePoint = "write point"

// Kills lists all moments of the undisturbed run: each of Points in order, then
// each request to the model's server.
func (p *Plan) Kills() []Kill {
	var all []Kill
	writes := 0
	for _, name := range p.Points {
		if strings.HasPrefix(name, child.WritePrefix) {
			writes++
			all = append(all, Kill{Kind: WritePoint, Name: fmt.Sprintf("%s (%d)", name, writes), Write: writes})
			continue
		}
		kind, _, _ := strings.Cut(name, ":")
		all = append(all, Kill{Kind: kind, Name: name, At: name})
	}
	if p.Reply == nil {
		return all
	}
	for _, key := range p.requests {
		all = append(all, Kill{Kind: "request received", Name: "request received: " + key, Request: key})
	}
	return all
}

// Every returns every n-th kill.
func Every(n int, kills []Kill) []Kill {
	var some []Kill
	for i := 0; i < len(kills); i += n {
		some = append(some, kills[i])
	}
	return some
}

// Cell is one run of a plan and where its first process is killed.
type Cell struct {
	Plan *Plan
	Kill
}

// Cells makes one cell of a plan for each kill.
func Cells(p *Plan, kills []Kill) []Cell {
	cells := make([]Cell, len(kills))
	for i, k := range kills {
		cells[i] = Cell{p, k}
	}
	return cells
}

// KillAll kills a process in each cell and lets the next one finish. If twice is
// not 0, it also kills the second process of every fourth cell, at one of its
// first twice write points.
func (p *Place) KillAll(t *testing.T, cells []Cell, twice int) *Tally {
	t.Helper()
	l := &Tally{}
	p.Each(t, len(cells), func(ctx context.Context, i int) error {
		kills := []Kill{cells[i].Kill}
		if twice > 0 && i%4 == 0 {
			kills = append(kills, Kill{Write: 1 + i%twice})
		}
		c, err := cells[i].Plan.through(ctx, i, kills...)
		l.add(cells[i].Plan.Row, cells[i].Kind, c)
		if err != nil {
			return fmt.Errorf("killed at %s: %w", cells[i].Name, err)
		}
		return nil
	})
	if c := l.Sum(); c.Kills < len(cells)*9/10 { // what works in the background may write less another time
		t.Errorf("%d kills at %d moments", c.Kills, len(cells))
	}
	return l
}

func (p *Plan) through(ctx context.Context, number int, kills ...Kill) (Counts, error) {
	r, err := p.NewRun(ctx, number)
	if err != nil {
		return Counts{}, err
	}
	c, err := r.Through(ctx, kills...)
	if err != nil {
		err = fmt.Errorf("run %d with job %+v: %w", number, r.Job, err)
	}
	return c, err
}

// KillAtRandom kills processes at random moments, up to three in one run.
func (p *Plan) KillAtRandom(t *testing.T, kills int) *Tally {
	t.Helper()
	seed := child.Flag[uint64](seedFlag)
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again with -%s=%d", seedFlag, seed)
		}
	})
	l := &Tally{}
	for round := uint64(0); l.Sum().Kills < kills && !t.Failed(); round++ {
		if round > 20 {
			t.Fatalf("only %d kills: the work is over too soon", l.Sum().Kills)
		}
		p.place.Each(t, (kills-l.Sum().Kills+2)/3, func(ctx context.Context, i int) error {
			k := Kill{random: rand.New(rand.NewPCG(seed, round<<32+uint64(i)))} //nolint:gosec // a number below the kills
			c, err := p.through(ctx, k.random.IntN(1<<20), k, k, k)
			l.add(p.Row, "random", c)
			if err != nil {
				return fmt.Errorf("round %d, %d: %w", round, i, err)
			}
			return nil
		})
	}
	return l
}

// killSoon kills a process at a random time after its start or one of its
// requests, independent of the speed of the machine.
func (r *Run) killSoon(c *child.Child, k Kill) {
	left := max(len(r.plan.asked)-len(r.Last.Answers), 0)
	wanted, after := int64(k.random.IntN(left+1)), time.Duration(k.random.Int64N(int64(r.plan.took/3)+1))
	life, reached := len(r.Lives)-1, make(chan struct{})
	reach := sync.OnceFunc(func() { close(reached) })
	var requests atomic.Int64
	r.Hold(func(e Effect) {
		if e.Life == life && requests.Add(1) == wanted {
			reach()
		}
	})
	<-c.Ready
	if wanted > 0 && r.plan.Reply != nil {
		select {
		case <-reached:
		case <-c.Gone:
			return
		}
	}
	select {
	case <-time.After(after): // the moment of the kill, not a wait for something
		c.Kill("chance")
	case <-c.Gone:
	}
}
