package server

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limits counts what each key does on this node.
type limits struct {
	rate    rate.Limit
	burst   int
	streams int
	now     func() time.Time

	mu   sync.Mutex
	keys map[string]*usage // guarded by mu
}

// usage is what one key did lately.
type usage struct {
	requests *rate.Limiter
	streams  int
	seen     time.Time
}

func newLimits(c Config) *limits {
	return &limits{rate: rate.Limit(c.Rate), burst: max(1, int(2*c.Rate)), streams: c.MaxStreams, now: c.Now, keys: map[string]*usage{}}
}

// admit counts a request and returns how long the caller must wait first.
func (l *limits) admit(key string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	u := l.of(key, now)
	r := u.requests.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait
	}
	return 0
}

// openStream counts an event stream. The caller ends it with done; it is nil
// where there are too many.
func (l *limits) openStream(key string) (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(key, l.now())
	if u.streams >= l.streams {
		return nil
	}
	u.streams++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		u.streams--
	}
}

// openStreams counts the event streams of all keys.
func (l *limits) openStreams() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, u := range l.keys {
		n += u.streams
	}
	return n
}

// of returns the usage of a key, and forgets those that were idle for long.
// The caller holds mu.
func (l *limits) of(key string, now time.Time) *usage {
	u, ok := l.keys[key]
	if !ok {
		for id, other := range l.keys {
			if other.streams == 0 && now.Sub(other.seen) > time.Hour {
				delete(l.keys, id)
			}
		}
		u = &usage{requests: rate.NewLimiter(l.rate, l.burst)}
		l.keys[key] = u
	}
	u.seen = now
	return u
}
