//go:build unix

package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/crashtest/child"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// race writes to one session as fast as it can, against all others: saves, and
// appends to the tail where the store has one. Each write adds one message
// that nobody else writes.
func (w *worker) race(ctx context.Context) error {
	random := rand.New(rand.NewPCG(w.Seed, 0))
	tails, hasTails := w.st.(store.Tails)
	for n, won := 0, 0; w.Saves == 0 || won < w.Saves; n++ {
		var s session.Session
		_, err := w.observe(operation{Kind: opLoad}, func(o *operation) (err error) {
			if s, err = w.st.Load(ctx, lifeRef(), hasTails); err == nil {
				o.Version, o.Seq, o.Last = s.Version(), session.Base(s), lastText(s)
			}
			return err
		})
		if err != nil {
			return err
		}
		o := operation{Kind: opSave, From: s.Version(), Base: session.Base(s), Tag: fmt.Sprintf("%s-%d", w.Name, n)}
		if hasTails && random.IntN(3) == 0 {
			o.Kind = opAppend
		}
		if s, err = addText(s, o.Tag); err != nil {
			return err
		}
		o, err = w.observe(o, func(o *operation) error {
			var err error
			if o.Kind == opAppend {
				s, err = tails.Append(ctx, s, store.Append{})
			} else {
				s, err = w.st.Save(ctx, s, store.Commit{ID: o.Tag, Action: "race", At: lifeTime()})
			}
			var conflict *session.ConflictError
			switch {
			case err == nil:
				o.Version, o.Seq = s.Version(), session.Base(s)
			case errors.As(err, &conflict):
				o.Lost, o.Have = conflict.Reason, conflict.Have
				err = nil
			}
			return err
		})
		if err != nil {
			return err
		}
		if o.Kind == opSave && o.Lost == "" {
			won++
		}
	}
	return nil
}

// observe does an operation and reports it before and after.
func (w *worker) observe(o operation, do func(*operation) error) (operation, error) {
	o.Call = time.Now().UnixNano()
	w.Report(report{Begin: &o})
	err := do(&o)
	o.Return = time.Now().UnixNano()
	if err == nil {
		w.Report(report{End: &o})
	}
	return o, err
}

func lastText(s session.Session) string {
	if s.Len() == 0 {
		return ""
	}
	return s.Message(s.Len() - 1).Content.Text()
}

// raceStart creates the session the workers race on.
func raceStart(t *testing.T, p Processes, url string) store.Store {
	t.Helper()
	st := openQuiet(t, p, url)
	s, err := lifeBegin(lifeID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Create(t.Context(), s, store.Commit{ID: "create", At: lifeTime()}); err != nil {
		t.Fatalf("create: %v", err)
	}
	return st
}

// everyVersionHasOneWriter lets several processes race and checks that each
// version has one writer, no acknowledged write is lost and the whole history
// could have happened one call after the other.
func everyVersionHasOneWriter(t *testing.T, p Processes) {
	const workers, saves = 4, 8
	url := p.NewURL(t)
	st := raceStart(t, p, url)
	var jobs []job
	for i := range workers {
		jobs = append(jobs, job{Do: "race", URL: url, Name: fmt.Sprint("w", i), Saves: saves, Seed: uint64(i)})
	}
	var h history
	won := 0
	for i, c := range startTogether(t, jobs...) {
		reports, _ := c.all(t)
		for _, r := range reports {
			h.add(i, r)
			if r.End != nil && r.End.Kind == opSave && r.End.Lost == "" {
				won++
			}
		}
	}
	if won != workers*saves {
		t.Errorf("%d saves were acknowledged, want %d", won, workers*saves)
	}
	h.check(t, loadFinal(t, st))
}

// loadFinal loads the session after the race and seals its tail.
func loadFinal(t *testing.T, st store.Store) session.Session {
	t.Helper()
	_, tails := st.(store.Tails)
	s, err := st.Load(t.Context(), lifeRef(), tails)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return s
}

// killedUnderLoad kills random workers at random moments while others write,
// starts new ones in their place and checks the same as without kills.
func killedUnderLoad(t *testing.T, p Processes) {
	const workers = 3
	seed, kills := child.Flag[uint64](seedFlag), child.Flag[int](killsFlag)
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with -%s=%d -%s=%d", seedFlag, seed, killsFlag, kills)
		}
	})
	random := rand.New(rand.NewPCG(seed, 1))
	url := p.NewURL(t)
	st := raceStart(t, p, url)
	var h history
	started := 0
	start := func() *process {
		started++
		return startWorker(t, job{Do: "race", URL: url, Name: fmt.Sprint("w", started), Seed: random.Uint64()}, 0)
	}
	var running []*process
	for range workers {
		running = append(running, start())
	}
	for i := range kills + workers {
		victim := random.IntN(len(running))
		c := running[victim]
		// Every worker writes for a while before it dies, if nothing is wrong.
		for range 2 + random.IntN(20) {
			if r, ok := <-c.reports; ok {
				h.add(c.ID(), r)
			}
		}
		c.Kill("chance")
		reports, killed := c.all(t)
		for _, r := range reports {
			h.add(c.ID(), r)
		}
		if killed == "" {
			t.Fatal("a worker ended before it was killed")
		}
		running = append(running[:victim], running[victim+1:]...)
		if i < kills {
			running = append(running, start())
		}
	}
	h.check(t, loadFinal(t, st))
}
