package strands

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Acquire takes the lease of a session and, for a run, the lock on its
// directory. A lock that no run of ours can have is a BusyError.
func (s *Store) Acquire(ctx context.Context, r store.Ref, holder string, length time.Duration) (store.Lease, error) {
	if err := s.reconcile(ctx, r, true); err != nil {
		return store.Lease{}, err
	}
	unlock, err := s.lockRun(r)
	if err != nil {
		return store.Lease{}, err
	}
	l, err := s.logs.Acquire(ctx, r, holder, length)
	if err != nil {
		if unlock != nil {
			err = errors.Join(err, unlock())
		}
		return l, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.held[r]; ok && unlock == nil {
		unlock = old.unlock // of a lease of ours that ran out
	}
	s.held[r] = holding{token: l.Token, unlock: unlock}
	return l, nil
}

// lockRun takes the lock of a run's directory. Nil: this store has it, or a run
// that is silent for longer than its lease lasts.
func (s *Store) lockRun(r store.Ref) (func() error, error) {
	d := s.at(r)
	if there, err := d.Exists(); err != nil || !there {
		return nil, err
	}
	s.mu.Lock()
	mine := s.held[r].unlock != nil
	s.mu.Unlock()
	if mine {
		return nil, nil
	}
	unlock, err := d.Lock()
	if errors.Is(err, session.ErrBusy) && d.leased(r.ID) {
		return nil, nil // the lease decides
	}
	return unlock, err
}

// leased reports a session that a run of ours took and did not release.
func (d Dir) leased(id string) bool {
	raw, err := os.ReadFile(filepath.Join(d.LogDir(), id+".lease"))
	var l struct{ Holder string }
	return err == nil && json.Unmarshal(raw, &l) == nil && l.Holder != ""
}

// Renew prolongs a lease, and takes the lock where a silent run had it.
func (s *Store) Renew(ctx context.Context, r store.Ref, l store.Lease, length time.Duration) (store.Lease, error) {
	renewed, err := s.logs.Renew(ctx, r, l, length)
	if errors.Is(err, session.ErrFenced) {
		s.unlockRun(r, l.Token)
	}
	if err != nil {
		return renewed, err
	}
	s.mu.Lock()
	h, ok := s.held[r]
	s.mu.Unlock()
	if ok && h.token == l.Token && h.unlock == nil {
		if unlock, err := s.lockRun(r); err == nil && unlock != nil {
			s.mu.Lock()
			s.held[r] = holding{token: l.Token, unlock: unlock}
			s.mu.Unlock()
		}
	}
	return renewed, nil
}

// Release releases lease and lock.
func (s *Store) Release(ctx context.Context, r store.Ref, l store.Lease) error {
	s.awaitFiles(r)
	err := s.logs.Release(ctx, r, l)
	if err == nil {
		s.unlockRun(r, l.Token)
	}
	return err
}

// unlockRun releases the lock that was taken with a token.
func (s *Store) unlockRun(r store.Ref, token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held[r]
	if !ok || h.token != token {
		return
	}
	delete(s.held, r)
	if h.unlock != nil {
		if err := h.unlock(); err != nil {
			s.log.Warn("lock not released", "session", r.ID, "error", err)
		}
	}
}

// Holding returns the live lease of our own; the other program takes none.
func (s *Store) Holding(ctx context.Context, r store.Ref) (store.Lease, bool, error) {
	l, live, err := s.logs.Holding(ctx, r)
	if !errors.Is(err, session.ErrNotFound) || r.Check() != nil {
		return l, live, err
	}
	if there, lookErr := s.at(r).Exists(); lookErr == nil && there {
		return store.Lease{}, false, nil
	}
	return l, live, err
}
