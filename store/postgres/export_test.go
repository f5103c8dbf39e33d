package postgres

import (
	"context"
	"time"
)

// OpenAt opens a store that goes by another clock than the database's.
func OpenAt(ctx context.Context, url string, c Config, now func() time.Time) (*Store, error) {
	s, err := configured(url, c)
	if err != nil {
		return nil, err
	}
	s.now = now
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenMeasured is OpenAt for a store that does nothing in the background which
// would be measured with a call.
func OpenMeasured(ctx context.Context, url string, c Config, now func() time.Time) (*Store, error) {
	s, err := configured(url, c)
	if err != nil {
		return nil, err
	}
	s.now = now
	s.index.quiet, s.index.late, s.index.soon = time.Hour, time.Hour, time.Hour
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// SetPatience sets how long calls go on trying while the database is away.
func (s *Store) SetPatience(d time.Duration) { s.patience = d }

// ForgetDues makes a store forget which sessions should have a snapshot.
func (s *Store) ForgetDues() {
	s.dues.mu.Lock()
	defer s.dues.mu.Unlock()
	clear(s.dues.refs)
}

// Lanes is how many requests that write are under way at most.
const Lanes = laneCount

// InLine is how many writes wait for a lane.
func (s *Store) InLine() int {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	return len(s.lanes.waiting)
}

// Translated is an error of the driver as a caller sees it.
func Translated(err error) error { return translated(context.Background(), err) }
