package workflow_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/crashtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/file"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/workflow"
)

// benchStores are those that runs are measured on, by name.
var benchStores = map[string]func(b *testing.B, onWrite func(string)) (store.Store, error){
	"inmem": func(*testing.B, func(string)) (store.Store, error) { return inmem.New(inmem.Config{}), nil },
	"file": func(b *testing.B, onWrite func(string)) (store.Store, error) {
		return file.Open(b.TempDir(), file.Config{OnWrite: onWrite})
	},
	"sqlite": func(b *testing.B, onWrite func(string)) (store.Store, error) {
		return sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "sessions.db"), sqlite.Config{OnWrite: onWrite})
	},
	"postgres": func(b *testing.B, onWrite func(string)) (store.Store, error) {
		return postgres.Open(b.Context(), crashtest.Postgres(b), postgres.Config{OnWrite: onWrite})
	},
}

// onStores runs a benchmark on these stores.
func onStores(b *testing.B, names []string, run func(b *testing.B, rt *holdfast.Runtime, commits *stopwatch)) {
	b.Helper()
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			watch := &stopwatch{}
			st, err := benchStores[name](b, watch.onWrite)
			run(b, speedRuntime(b, st, err), watch)
		})
	}
}

// stopwatch adds up how long a store takes for its commits. One run works at
// a time, and a run writes one thing after the other.
type stopwatch struct {
	began time.Time
	took  time.Duration
}

func (w *stopwatch) onWrite(point string) {
	switch point {
	case "before begin", "before append", "before save":
		w.began = time.Now()
	case "after commit", "after append", "after save":
		w.took += time.Since(w.began)
	}
}

// reset is what it has measured since the last time.
func (w *stopwatch) reset() (took time.Duration) {
	took, w.took = w.took, 0
	return took
}

// A unit whose answer takes no time: what the engine, the runtime and the
// store add to it. One run is a chain of a hundred.
func BenchmarkUnit(b *testing.B) {
	const units = 100
	onStores(b, []string{"inmem", "file", "sqlite", "postgres"}, func(b *testing.B, rt *holdfast.Runtime, _ *stopwatch) {
		s := speedSpec(b, longChain(units))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := workflow.Start(b.Context(), rt, s, workflow.RunOptions{Host: speedHost(instant{}), Out: b.TempDir()}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*units), "µs/unit")
	})
}

// runner is a run that does one unit at a time, when it is told to.
type runner struct {
	next chan struct{}      // does a unit
	done chan time.Duration // that took so long, but for the model
	ends chan error
}

// startRunner begins a run, which waits in its first call of the model.
func startRunner(ctx context.Context, b *testing.B, rt *holdfast.Runtime, text string) *runner {
	b.Helper()
	r := &runner{next: make(chan struct{}), done: make(chan time.Duration), ends: make(chan error, 1)}
	s, left := speedSpec(b, text), time.Time{}
	m := instant{before: func(llm.Request) error {
		if !left.IsZero() {
			select {
			case r.done <- time.Since(left):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		select {
		case <-r.next:
		case <-ctx.Done():
			return ctx.Err()
		}
		left = time.Now()
		return nil
	}}
	go func() {
		_, err := workflow.Start(ctx, rt, s, workflow.RunOptions{Host: speedHost(m), Out: b.TempDir()})
		if errors.Is(err, session.ErrInterrupted) {
			err = nil
		}
		r.ends <- err
	}()
	return r
}

// unit does one.
func (r *runner) unit() time.Duration {
	r.next <- struct{}{}
	return <-r.done
}

// The last hundred of a thousand units against the first hundred of another
// run, in turns, so that what disturbs one disturbs the other: medians of what
// a unit takes in all but for the model, and of its commits alone. In the
// chain agents remember a few exchanges in the end, in the branches nothing.
func BenchmarkUnit_late(b *testing.B) {
	const units = 1000
	for name, text := range map[string]string{"chain": longChain(units + 1), "branches": manyBranches(units+1, 1)} {
		b.Run(name, func(b *testing.B) {
			onStores(b, []string{"inmem", "sqlite", "postgres"}, func(b *testing.B, rt *holdfast.Runtime, commits *stopwatch) {
				var took, committed [2][]time.Duration // early, late
				for b.Loop() {
					lateUnits(b, rt, commits, text, units, &took, &committed)
				}
				early, late := median(took[0]), median(took[1])
				b.ReportMetric(float64(early.Microseconds()), "µs-early")
				b.ReportMetric(float64(late)/float64(early), "late/early")
				if early, late := median(committed[0]), median(committed[1]); early > 0 {
					b.ReportMetric(float64(early.Microseconds()), "µs-commits-early")
					b.ReportMetric(float64(late)/float64(early), "commits-late/early")
				}
			})
		})
	}
}

// lateUnits measures a hundred units of a fresh run and of one that has done
// all others.
func lateUnits(b *testing.B, rt *holdfast.Runtime, commits *stopwatch, text string, units int, took, committed *[2][]time.Duration) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	pair := [2]*runner{startRunner(ctx, b, rt, text), startRunner(ctx, b, rt, text)}
	for range units - 100 {
		pair[1].unit()
	}
	for range 100 {
		for i, r := range pair {
			commits.reset()
			took[i] = append(took[i], r.unit())
			committed[i] = append(committed[i], commits.reset())
		}
	}
	stop()
	for _, r := range pair {
		if err := <-r.ends; err != nil {
			b.Error(err)
		}
	}
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}

// A thousand branches, 64 at a time, with a model that takes 20 ms: what a unit
// takes beyond the model's time.
func BenchmarkBranches(b *testing.B) {
	const branches, together, answer = 1000, 64, 20 * time.Millisecond
	onStores(b, []string{"inmem", "sqlite", "postgres"}, func(b *testing.B, rt *holdfast.Runtime, _ *stopwatch) {
		s := speedSpec(b, manyBranches(branches, together))
		slow := instant{before: func(llm.Request) error {
			<-time.After(answer)
			return nil
		}}
		for b.Loop() {
			res, err := workflow.Start(b.Context(), rt, s, workflow.RunOptions{Host: speedHost(slow), Out: b.TempDir()})
			if err != nil || res.Status != workflow.StatusCompleted {
				b.Fatal(res.Status, err)
			}
		}
		least := time.Duration((branches+together-1)/together) * answer
		run := b.Elapsed() / time.Duration(b.N)
		b.ReportMetric(float64(run.Milliseconds()), "ms/run")
		b.ReportMetric(float64(least.Milliseconds()), "ms-of-the-model")
		b.ReportMetric(float64((run-least).Microseconds())/branches, "µs-ours/unit")
	})
}
