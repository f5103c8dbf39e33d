package holdfast_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A process works on a turn of four model calls and five tool calls and is
// killed at every point at which the store writes, at every moment of a model
// call and of a tool call, and at moments that nobody chose. The next process
// takes the turn up. Whatever happened, the model is never asked again for an
// answer that is in the log, no tool runs again whose result is, and the
// session ends as if nothing had happened.

func TestCrash_sqlite(t *testing.T)   { crashEverywhere(t, "sqlite", "openai", 1, 60) }
func TestCrash_file(t *testing.T)     { crashEverywhere(t, "file", "anthropic", 6, 12) }
func TestCrash_postgres(t *testing.T) { crashEverywhere(t, "postgres", "anthropic", 2, 12) }

// crashEverywhere kills processes on one store: at one of every so many
// moments, and at so many random ones.
func crashEverywhere(t *testing.T, name, provider string, every, kills int) {
	t.Parallel()
	s := newCrashSite(t, name, provider)
	if asked := crashFlag[int](t, killsFlag); asked > 0 {
		every, kills = 1, asked
	}
	t.Run("at every moment", func(t *testing.T) { t.Parallel(); s.killAtMoments(t, every) })
	t.Run("at random moments", func(t *testing.T) { t.Parallel(); s.killAtRandom(t, kills) })
	for _, how := range []takeUp{onlyContinue, onlyRecover} {
		t.Run("two at once "+string(how), func(t *testing.T) { t.Parallel(); s.takeUpTwice(t, how) })
	}
}

// moment is where a process dies: by its own hand, or by that of the recorder
// when it receives a request.
type moment struct {
	name     string
	dieAt    string
	dieWrite int
	killAsk  int
}

// deaths are all moments of a turn.
func (s *crashSite) deaths() []moment {
	var all []moment
	writes := 0
	for _, name := range s.moments {
		if strings.HasPrefix(name, "write ") {
			writes++
			all = append(all, moment{name: fmt.Sprintf("%s (%d)", name, writes), dieWrite: writes})
			continue
		}
		all = append(all, moment{name: name, dieAt: name})
	}
	for step := range crashCalls {
		all = append(all, moment{name: fmt.Sprint("request received: ", step+1), killAsk: step + 1})
	}
	return all
}

func (s *crashSite) killAtMoments(t *testing.T, every int) {
	deaths := s.deaths()
	if len(deaths) < 40 {
		t.Fatalf("a turn has only %d moments: %v", len(deaths), s.moments)
	}
	n := (len(deaths) + every - 1) / every
	var l tally
	s.each(t, n, func(ctx context.Context, i int) error {
		m, how := deaths[i*every], s.takeUps[i%len(s.takeUps)]
		if err := s.dieOnce(ctx, &l, m, how); err != nil {
			return fmt.Errorf("killed at %s, taken up by %s: %w", m.name, how, err)
		}
		return nil
	})
	l.log(t)
	if have := l.kills(); have < n*9/10 { // what writes in the background may write less another time
		t.Errorf("%d kills at %d moments", have, n)
	}
}

// dieOnce kills a process at one moment and lets the next finish.
func (s *crashSite) dieOnce(ctx context.Context, l *tally, m moment, how takeUp) error {
	r, err := s.newRun(ctx, how)
	if err != nil {
		return err
	}
	job := r.job
	job.DieAt, job.DieWrite, r.killAsk = m.dieAt, m.dieWrite, m.killAsk
	killed, err := r.live(ctx, job, nil)
	if err != nil {
		return err
	}
	if killed != "" {
		if _, err := r.live(ctx, r.job, nil); err != nil {
			return err
		}
	}
	c, err := r.account()
	kind, _, _ := strings.Cut(m.name, ":")
	if m.dieWrite > 0 {
		kind = "write point"
	}
	l.add(kind, c)
	return err
}

// killAtRandom kills processes at moments that chance decides, up to three for
// one turn.
func (s *crashSite) killAtRandom(t *testing.T, kills int) {
	seed := crashFlag[uint64](t, seedFlag)
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again with -%s=%d", seedFlag, seed)
		}
	})
	var l tally
	for round := uint64(0); l.kills() < kills && !t.Failed(); round++ {
		if round > 20 {
			t.Fatalf("only %d kills: the turn is over too soon", l.kills())
		}
		s.each(t, (kills-l.kills()+2)/3, func(ctx context.Context, i int) error {
			chance := rand.New(rand.NewPCG(seed, round<<32+uint64(i)))
			if err := s.dieByChance(ctx, &l, chance); err != nil {
				return fmt.Errorf("turn %d of round %d: %w", i, round, err)
			}
			return nil
		})
	}
	l.log(t)
}

func (s *crashSite) dieByChance(ctx context.Context, l *tally, chance *rand.Rand) error {
	r, err := s.newRun(ctx, s.takeUps[chance.IntN(len(s.takeUps))])
	if err != nil {
		return err
	}
	for range 3 {
		killed, err := r.live(ctx, r.job, r.soon(chance, s.took/3))
		if err != nil {
			return err
		}
		if killed == "" {
			break
		}
	}
	if r.killed.kills == 3 {
		if _, err := r.live(ctx, r.job, nil); err != nil {
			return err
		}
	}
	c, err := r.account()
	l.add("random", c)
	return err
}

// soon kills a process within some time after its begin or one of its
// requests. Which and when, chance decides; how fast the machine is, does not.
func (r *crashRun) soon(chance *rand.Rand, most time.Duration) func(*crashChild) {
	answers, self := inLog(r.after).answers, len(r.lives)
	step := answers + chance.IntN(len(crashCalls)+1-answers)
	after := time.Duration(chance.Int64N(int64(most)))
	reached := make(chan struct{})
	reach := sync.OnceFunc(func() { close(reached) })
	r.hold(func(a ask) {
		if a.life == self && a.step == step {
			reach()
		}
	})
	return func(c *crashChild) {
		<-c.ready
		if step > answers {
			select {
			case <-reached:
			case <-c.gone:
				return
			}
		}
		select {
		case <-time.After(after): // the moment of the kill, not a wait for something
			c.kill("chance")
		case <-c.gone:
		}
	}
}

// takeUpTwice lets two processes take up a broken-off turn at the same time:
// one works, the other is told that the session is busy.
func (s *crashSite) takeUpTwice(t *testing.T, how takeUp) {
	r, err := s.newRun(t.Context(), byContinue)
	if err != nil {
		t.Fatal(err)
	}
	r.killAsk = 2
	if killed, err := r.live(t.Context(), r.job, nil); err != nil || killed == "" {
		t.Fatalf("killed by %q, %v", killed, err)
	}
	r.waitUntilFree(t)
	busy, goOn := context.WithCancel(t.Context())
	defer goOn()
	r.hold(func(a ask) { // the one that works is at it until the other has given up
		if a.step == 2 {
			<-busy.Done()
		}
	})
	job := r.job
	job.TakeUp = how
	var pair [2]*crashChild
	for i := range pair {
		if pair[i], err = r.begin(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	first, second := pair[0], pair[1]
	select {
	case <-first.gone:
	case <-second.gone:
		first, second = second, first
	}
	goOn()
	if _, last, err := first.ended(); err != nil || !last.Busy {
		t.Errorf("the one that ended first: %+v, %v, want busy", last, err)
	}
	if _, last, err := second.ended(); err != nil || !last.Done {
		t.Errorf("the one that ended last: %+v, %v, want done", last, err)
	}
	if r.after, err = r.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := r.account(); err != nil || c.lostAnswers != 1 || len(r.requests()) != len(crashCalls)+1 {
		t.Errorf("%v, %v: want one answer asked for again, the one that the kill cut off", c, err)
	}
}

// crashFlag is the value of one of our flags.
func crashFlag[T int | uint64](t *testing.T, name string) T {
	t.Helper()
	n, err := strconv.ParseUint(flag.Lookup(name).Value.String(), 10, 64)
	if err != nil {
		t.Fatalf("-%s: %v", name, err)
	}
	return T(n)
}
