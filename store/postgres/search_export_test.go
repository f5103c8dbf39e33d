package postgres

import (
	"context"
	"time"
)

// OpenBusy opens a store that is never idle, so that it indexes only when it
// is told to.
func OpenBusy(ctx context.Context, url string) (*Store, error) { return openIdle(ctx, url, time.Hour) }

// OpenEager opens a store that is idle at once.
func OpenEager(ctx context.Context, url string) (*Store, error) { return openIdle(ctx, url, 0) }

func openIdle(ctx context.Context, url string, after time.Duration) (*Store, error) {
	s, err := newStore(url, Config{})
	if err != nil {
		return nil, err
	}
	s.index.quiet, s.index.late, s.index.soon = after, after, after
	s.index.atOnce = 2 // so that tests meet the next ones
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Index indexes every log that this store has written to or read, as if it had
// been searched before.
func (s *Store) Index(ctx context.Context) {
	refs, logs := s.index.take()
	for _, r := range refs {
		var log int64
		if s.row(ctx, r, `SELECT sid FROM sessions`, &log) == nil {
			logs = append(logs, log)
		}
	}
	s.index.wantLogs(logs...)
	s.indexWanted(ctx)
}

// LogLock is where the locks of logs lie.
const LogLock = logLock

// IndexWanted indexes what this store wants to see in the index.
func (s *Store) IndexWanted(ctx context.Context) { s.indexWanted(ctx) }

// Unindexed counts the logs that searches had to read.
func (s *Store) Unindexed() int {
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	return len(s.index.logs)
}
