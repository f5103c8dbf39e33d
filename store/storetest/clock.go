package storetest

import (
	"sync"
	"time"
)

// Clock moves only by Advance and Set, in any direction. It is safe for
// concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock stands at a fixed moment with microseconds in it.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC)}
}

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set moves the clock to a moment, which may be earlier.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// Advance moves the clock by a duration, which may be negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
