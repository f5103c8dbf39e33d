package postgres

import (
	"context"
	"time"
)

// OpenBusy opens a store that is never idle, so that it indexes only when it
// is told to.
func OpenBusy(ctx context.Context, url string) (*Store, error) {
	s, err := configured(url, Config{})
	if err != nil {
		return nil, err
	}
	s.index.quiet, s.index.late = time.Hour, time.Hour
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Index indexes what this store wants to see in the index at once.
func (s *Store) Index(ctx context.Context) { s.indexWanted(ctx) }
