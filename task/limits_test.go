package task

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

func TestLimits_defaults(t *testing.T) {
	for name, c := range map[string]struct {
		b    Budget
		deep bool
		want limits
	}{
		"nothing set": {want: limits{policy: AdaptiveUnbounded, lifetime: 2000, fuse: 2000, maxAuto: 5, stepTimeout: 15 * time.Minute}},
		"deep":        {deep: true, want: limits{policy: AdaptiveUnbounded, lifetime: 6000, fuse: 4000, maxAuto: 7, stepTimeout: 45 * time.Minute}},
		"a window":    {b: Budget{MaxTurns: 40}, want: limits{window: 40, policy: HardWindow, lifetime: 160, fuse: 2000, maxAuto: 5, stepTimeout: 15 * time.Minute}},
		"a small window": {b: Budget{MaxTurns: 5},
			want: limits{window: 5, policy: HardWindow, lifetime: 120, fuse: 2000, maxAuto: 5, stepTimeout: 15 * time.Minute}},
		"a large window": {b: Budget{MaxTurns: 300},
			want: limits{window: 300, policy: HardWindow, lifetime: 320, fuse: 6000, maxAuto: 5, stepTimeout: 15 * time.Minute}},
		"a deep window": {b: Budget{MaxTurns: 100}, deep: true,
			want: limits{window: 100, policy: HardWindow, lifetime: 600, fuse: 2000, maxAuto: 7, stepTimeout: 45 * time.Minute}},
		"a soft window": {b: Budget{MaxTurns: 500, TurnPolicy: AdaptiveUnbounded},
			want: limits{window: 500, policy: AdaptiveUnbounded, lifetime: 2000, fuse: 10000, maxAuto: 5, stepTimeout: 15 * time.Minute}},
		"a life of its own": {b: Budget{LifetimeTurns: 7},
			want: limits{policy: AdaptiveUnbounded, lifetime: 7, fuse: 2000, maxAuto: 5, stepTimeout: 15 * time.Minute}},
	} {
		got, err := c.b.limits(c.deep)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w := c.want
		w.iterations, w.auto, w.continuation, w.minScore, w.warning, w.critical, w.breaker = 100, true, AdaptiveProgress, 0.15, 2, 6, 30
		w.compaction, w.ratio = true, 0.75
		if got != w {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, w)
		}
	}
}

func TestLimits_ratioStaysInBounds(t *testing.T) {
	for ratio, want := range map[float64]float64{0: 0.75, 0.1: 0.5, 0.6: 0.6, 1: 0.95} {
		if l, _ := (Budget{CompactionRatio: ratio}).limits(false); l.ratio != want {
			t.Errorf("ratio %v becomes %v, want %v", ratio, l.ratio, want)
		}
	}
}

func TestSoftDeadline_ofATimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		15 * time.Minute: 810 * time.Second, 45 * time.Minute: 2430 * time.Second, 25 * time.Second: 15 * time.Second,
		31 * time.Second: 21 * time.Second, time.Minute: 50 * time.Second, 200 * time.Second: 180 * time.Second, 5 * time.Second: 0,
	} {
		if got := (limits{stepTimeout: timeout}).softDeadline(); got != want {
			t.Errorf("of %v: %v, want %v", timeout, got, want)
		}
	}
}

func TestTurnsLeft_theFewerOfWindowAndLife(t *testing.T) {
	l, _ := Budget{MaxTurns: 10, LifetimeTurns: 12}.limits(false)
	for _, c := range []struct{ window, life, want int }{{0, 0, 10}, {4, 4, 6}, {1, 11, 1}, {10, 10, 0}, {0, 20, 0}} {
		if got := l.turnsLeft(session.TaskLoop{Turns: c.window, LifetimeTurns: c.life}).left(); got != c.want {
			t.Errorf("after %d and %d: %d left, want %d", c.window, c.life, got, c.want)
		}
	}
}
