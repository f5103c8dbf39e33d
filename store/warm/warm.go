// Package warm keeps sessions that a process has just read or written, so that
// the next load of one reads only its mark: where its log ends. A session is an
// immutable value, so all callers share what is kept.
//
// The store stays the only truth. It reads the mark on every load, and a
// session is used only if it has exactly that mark, whoever wrote in between.
package warm

import (
	"container/list"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Mark names one state of a session: the version, and the last change of all
// with its checksum, which covers all changes before it.
type Mark struct {
	Version   int64
	Last      int64
	Sum       store.Sum
	UpdatedAt time.Time // of the version, which no change holds
}

func markOf(s session.Session) (Mark, bool) {
	sum, known := session.BaseSum(s)
	return Mark{Version: s.Version(), Last: session.Base(s), Sum: store.Sum(sum), UpdatedAt: s.Info().UpdatedAt}, known
}

// DefaultLimit is how many bytes a cache holds if nothing else is said.
const DefaultLimit = 64 << 20

// Limit returns the limit that a setting means: 0 is the default, less is none.
func Limit(setting int64) int64 {
	if setting == 0 {
		return DefaultLimit
	}
	return max(setting, 0)
}

// Cache holds sessions up to a number of bytes. Those not used for the longest
// time go first. It is safe for concurrent use.
type Cache struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	held  map[store.Ref]*entry
	order *list.List // of refs, the last used first
}

type entry struct {
	s     session.Session
	bytes int64
	place *list.Element
}

// New makes a cache. One with a limit of 0 keeps nothing.
func New(limit int64) *Cache {
	return &Cache{limit: limit, held: map[store.Ref]*entry{}, order: list.New()}
}

// Has reports whether any state of a session is held, so that a store knows
// whether asking for its mark is worth while.
func (c *Cache) Has(r store.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[r] != nil
}

// Get returns a session that has a mark. What has another one is dropped.
func (c *Cache) Get(r store.Ref, m Mark) (session.Session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.held[r]
	if e == nil {
		return session.Session{}, false
	}
	if have, _ := markOf(e.s); !have.equal(m) {
		c.remove(r, e)
		return session.Session{}, false
	}
	c.order.MoveToFront(e.place)
	c.bytes -= e.bytes
	e.s = session.DropHidden(e.s) // not when it is kept: who saves often need not pay for it
	e.bytes = session.Weight(e.s)
	c.bytes += e.bytes
	return e.s, true
}

func (m Mark) equal(o Mark) bool {
	return m.Version == o.Version && m.Last == o.Last && m.Sum == o.Sum && m.UpdatedAt.Equal(o.UpdatedAt)
}

// Keep holds a session as it was just read or written, and returns it with the
// checksum of its last change, by which it will be known. One that lacks
// messages of its window is not held: whoever wrote it may have had no use for
// them.
func (c *Cache) Keep(s session.Session, last store.Sum) session.Session {
	s = session.WithBaseSum(s, int64(last))
	if c.limit > 0 && session.HoldsWindow(s) {
		c.put(s)
	}
	return s
}

func (c *Cache) put(s session.Session) {
	mark, known := markOf(s)
	if !known || mark.Last != s.Seq() || s.Info().Kind != session.KindChat {
		return // a task and a run are read once and held while they are worked on
	}
	r, e := store.RefOf(s), &entry{s: s, bytes: session.Weight(s)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.held[r]; before != nil {
		if have, _ := markOf(before.s); have.Version > mark.Version || have.Version == mark.Version && have.Last > mark.Last {
			return // a later write was faster here
		}
		c.remove(r, before)
	}
	if e.bytes > c.limit {
		return
	}
	e.place = c.order.PushFront(r)
	c.held[r] = e
	for c.bytes += e.bytes; c.bytes > c.limit; {
		if oldest, ok := c.order.Back().Value.(store.Ref); ok {
			c.remove(oldest, c.held[oldest])
		}
	}
}

// Drop forgets a session.
func (c *Cache) Drop(r store.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.held[r]; e != nil {
		c.remove(r, e)
	}
}

// Clear forgets all sessions.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.held)
	c.order.Init()
	c.bytes = 0
}

func (c *Cache) remove(r store.Ref, e *entry) {
	c.order.Remove(e.place)
	delete(c.held, r)
	c.bytes -= e.bytes
}
