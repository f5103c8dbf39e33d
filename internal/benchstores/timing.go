package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// timing holds the durations of all repetitions of one work.
type timing []time.Duration

func (t timing) median() time.Duration { return benchmark.Median(t) }

// work is one of the compared operations.
type work func(ctx context.Context) error

// interleave does every work once in each round, so that disturbances affect all
// alike, and in a random order, because the order matters too. The first warm
// rounds do not count.
func interleave(ctx context.Context, warm, rounds int, works ...work) ([]timing, error) {
	took := make([]timing, len(works))
	dice := rand.New(rand.NewPCG(3, 4))
	runtime.GC() // what was built up for the measurement is not part of it
	for round := range warm + rounds {
		for _, turn := range dice.Perm(len(works)) {
			begin := time.Now()
			if err := works[turn](ctx); err != nil {
				return nil, err
			}
			if round >= warm {
				took[turn] = append(took[turn], time.Since(begin))
			}
		}
	}
	return took, nil
}

// ratio compares two works by their medians.
func ratio(a, b timing) float64 { return float64(a.median()) / float64(b.median()) }

// compareTimes compares two works.
func compareTimes(key, name string, target *Target, a, b timing) Result {
	return Result{
		Key: key, Name: name, Target: target, Measured: ratio(a, b), N: len(a),
		About: fmt.Sprintf("%s to %s", benchmark.AboutTime(a.median()), benchmark.AboutTime(b.median())),
	}
}
