package file

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// A waiting writer looks at the lock of another process this often.
const (
	firstLook = 250 * time.Microsecond
	lastLook  = 8 * time.Millisecond
)

// lock makes the caller the only writer of a session, in this process and
// among all, and clears away what a crashed writer left. BusyError when the
// context ends first.
func (s *Store) lock(ctx context.Context, p place) (unlock func(), err error) {
	unlock, err = s.lockFile(ctx, "session", p.lock())
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", &session.BusyError{ID: p.ref.ID, Holder: "another writer"}, ctx.Err())
		}
		return nil, fmt.Errorf("lock session %s: %w", p.ref.ID, err)
	}
	if err := s.clearUp(p); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// clearUp removes what a writer that crashed left of a session's files. The
// caller holds the lock, so there is no other writer.
func (s *Store) clearUp(p place) error {
	for _, path := range []string{p.document(), p.lease()} {
		if err := s.disk.remove("leftover", tempOf(path)); err != nil {
			return fmt.Errorf("clear up after a crash: %w", err)
		}
	}
	return nil
}

// clearUpAll does the same for every session nobody is writing to: a session
// whose creation crashed may never be written to again. It is tidying only, so
// what it cannot do it leaves.
func (s *Store) clearUpAll() {
	if s.folders != nil { // they have an owner who looks after them
		return
	}
	dirs, _ := filepath.Glob(filepath.Join(s.dir, tenantsDir, "*"))
	for _, dir := range append(dirs, s.dir) {
		temps, _ := filepath.Glob(filepath.Join(dir, ".*"+tempExt))
		for _, temp := range temps {
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(temp), "."), tempExt)
			id := strings.TrimSuffix(name, filepath.Ext(name))
			if session.CheckID(id) != nil {
				continue
			}
			p := place{ref: store.Ref{ID: id}, dir: dir, locks: dir}
			fl := flock.New(p.lock(), flock.SetPermissions(fileMode))
			if ok, err := fl.TryLock(); ok && err == nil {
				_ = s.clearUp(p)
				_ = fl.Unlock()
			}
		}
	}
}

// lockFile waits for a file's lock. A lock belongs to an open file, so every
// caller opens its own; callers of one process stand in line before that, so
// that they get it in order and only the first of them polls.
func (s *Store) lockFile(ctx context.Context, what, path string) (unlock func(), err error) {
	leave, err := s.queue.enter(ctx, path)
	if err != nil {
		return nil, err
	}
	s.disk.onWrite("before " + what + " lock")
	fl := flock.New(path, flock.SetPermissions(fileMode))
	if err := wait(ctx, fl); err != nil {
		leave()
		return nil, err
	}
	s.disk.onWrite("after " + what + " lock")
	return func() {
		_ = fl.Unlock() // closing the file is what unlocks it, and that cannot be refused
		leave()
	}, nil
}

func wait(ctx context.Context, fl *flock.Flock) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		if ok, err := fl.TryLock(); ok || err != nil {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// queue lets goroutines through one at a time for each name, in order of
// arrival.
type queue struct {
	mu    sync.Mutex // guards lines and each line's count
	lines map[string]*line
}

type line struct {
	turn  chan struct{} // holds one token while somebody is through
	count int           // those who wait or are through
}

func (q *queue) enter(ctx context.Context, name string) (leave func(), err error) {
	l := q.join(name)
	select {
	case l.turn <- struct{}{}:
		return func() {
			<-l.turn
			q.part(name, l)
		}, nil
	case <-ctx.Done():
		q.part(name, l)
		return nil, ctx.Err()
	}
}

func (q *queue) join(name string) *line {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lines == nil {
		q.lines = map[string]*line{}
	}
	l, ok := q.lines[name]
	if !ok {
		l = &line{turn: make(chan struct{}, 1)}
		q.lines[name] = l
	}
	l.count++
	return l
}

func (q *queue) part(name string, l *line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.count--; l.count == 0 {
		delete(q.lines, name)
	}
}
