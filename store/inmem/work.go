package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// dueOf is when somebody should work on a session; nil: never.
func dueOf(s session.Session) *time.Time {
	if at, ok := s.DueAt(); ok {
		return &at
	}
	return nil
}

// Waiting lists what nobody works on. It looks at every session.
func (s *Store) Waiting(ctx context.Context, after string, limit int) ([]store.Waiting, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	all := s.everyWaiting(s.data.now())
	return store.TakeTurns(after, limit, func(after string) (next string, err error) {
		for tenant := range all {
			if tenant > after && (next == "" || tenant < next) {
				next = tenant
			}
		}
		return next, nil
	}, func(tenant string, n int) ([]store.Waiting, error) { return store.LongestWaiting(n, all[tenant]), nil })
}

// everyWaiting lists what waits by tenant.
func (s *Store) everyWaiting(now time.Time) map[string][]store.Waiting {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	all := map[string][]store.Waiting{}
	for r, w := range s.data.rows {
		if w.lease.Live(now) {
			continue
		}
		var since []time.Time
		if w.due != nil && !w.due.After(now) {
			since = append(since, *w.due)
		}
		info, err := decodeHeader(r.ID, w.header)
		if i := slices.IndexFunc(w.inbox.items, func(it item) bool { return it.taken == 0 }); i >= 0 && err == nil && info.Status == session.Active {
			since = append(since, w.inbox.items[i].at)
		}
		if len(since) > 0 {
			all[r.Tenant] = append(all[r.Tenant], store.Waiting{Ref: r, Kind: info.Kind, Since: slices.MinFunc(since, time.Time.Compare)})
		}
	}
	return all
}
