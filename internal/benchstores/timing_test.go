package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

func TestInterleave_takesTurnsAndForgetsTheWarmUp(t *testing.T) {
	var order strings.Builder
	does := func(name string) work {
		return func(context.Context) error {
			order.WriteString(name)
			return nil
		}
	}
	took, err := interleave(t.Context(), 2, 20, does("a"), does("b"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for round := range slices.Chunk([]byte(order.String()), 2) {
		seen[string(round)]++
	}
	if seen["ab"]+seen["ba"] != 22 || seen["ab"] == 0 || seen["ba"] == 0 {
		t.Errorf("rounds %v: each work is done once in each, in changing order", seen)
	}
	if len(took) != 2 || len(took[0]) != 20 || len(took[1]) != 20 {
		t.Errorf("%v: want twenty times of each", took)
	}
}

func TestInterleave_timesEachWorkByItself(t *testing.T) {
	slow := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
		defer cancel()
		<-ctx.Done()
		return nil
	}
	took, err := interleave(t.Context(), 0, 3, slow, func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if slices.Min(took[0]) < 2*time.Millisecond || ratio(took[0], took[1]) <= 1 {
		t.Errorf("slow %v, quick %v", took[0], took[1])
	}
}

func TestInterleave_stopsAtAnError(t *testing.T) {
	broken, calls := errors.New("broken"), 0
	_, err := interleave(t.Context(), 0, 5, func(context.Context) error {
		calls++
		return broken
	})
	if !errors.Is(err, broken) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

func TestMedian_ignoresOutliersAndKeepsTheOrder(t *testing.T) {
	values := timing{9000, 3, 1, 2, 4}
	if got := values.median(); got != 3 {
		t.Errorf("median %d, want 3", got)
	}
	if !slices.Equal(values, timing{9000, 3, 1, 2, 4}) {
		t.Errorf("the values are %v now", values)
	}
	if got := benchmark.Median([]float64{4, 1, 3, 2}); got != 2 {
		t.Errorf("median of an even number %v, want the lower one, 2", got)
	}
}

// However short its time, a crowd has written, or there would be no rate.
func TestCrowd_everyoneWritesOnce(t *testing.T) {
	var wrote [3]int
	var c clientGroup
	for i := range wrote {
		c = append(c, func(context.Context) error { wrote[i]++; return nil })
	}
	rate, err := c.rate(t.Context(), 0)
	if err != nil || rate <= 0 || wrote != [3]int{1, 1, 1} {
		t.Errorf("a rate of %v, wrote %v, %v", rate, wrote, err)
	}
}
