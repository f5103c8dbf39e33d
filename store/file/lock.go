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

// The pauses between two tries to get the lock from another process.
const (
	firstPause = 250 * time.Microsecond
	lastPause  = 8 * time.Millisecond
)

// lock makes the caller the only writer of a session, in this process and among
// all, and removes what a crashed writer left. BusyError if the context ends
// first.
func (s *Store) lock(ctx context.Context, p place) (unlock func(), err error) {
	unlock, err = s.lockFile(ctx, "session", p.lock())
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", &session.BusyError{ID: p.ref.ID, Holder: "another writer"}, ctx.Err())
		}
		return nil, fmt.Errorf("lock session %s: %w", p.ref.ID, err)
	}
	if err := s.removeLeftovers(p); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// removeLeftovers removes temporary files that a crashed writer left. The caller
// holds the lock, so there is no other writer.
func (s *Store) removeLeftovers(p place) error {
	for _, path := range []string{p.document(), p.lease()} {
		if err := s.disk.remove("leftover", tempOf(path)); err != nil {
			return fmt.Errorf("remove leftovers of a crash: %w", err)
		}
	}
	return nil
}

// removeAllLeftovers does the same for every session that nobody is writing to,
// because a session whose creation crashed may never be written to again. It
// ignores errors: leftovers do no harm.
func (s *Store) removeAllLeftovers() {
	if s.folders != nil { // their owner looks after them
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
				_ = s.removeLeftovers(p)
				_ = fl.Unlock()
			}
		}
	}
}

// lockFile waits for a file's lock. A lock belongs to an open file, so every
// caller opens its own. Callers of one process queue before that, so that they
// get it in order and only one of them polls.
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
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
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

// queue gives goroutines their turn one at a time for each name, in order of
// arrival.
type queue struct {
	mu    sync.Mutex // guards lines and each line's count
	lines map[string]*line
}

type line struct {
	turn  chan struct{} // holds one value while somebody has the turn
	count int           // those who wait or have the turn
}

func (q *queue) enter(ctx context.Context, name string) (leave func(), err error) {
	l := q.join(name)
	select {
	case l.turn <- struct{}{}:
		return func() {
			<-l.turn
			q.leave(name, l)
		}, nil
	case <-ctx.Done():
		q.leave(name, l)
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

func (q *queue) leave(name string, l *line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.count--; l.count == 0 {
		delete(q.lines, name)
	}
}
