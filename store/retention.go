package store

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Retention says which sessions are no longer wanted.
type Retention struct {
	Statuses []session.Status // empty: any but deleted
	IdleFor  time.Duration    // not updated for so long; 0: any
	Expired  bool             // only those past their expiry
	Limit    int              // 0: 1000
}

const defaultSweep = 1000

// Check returns the retention with its defaults filled in, or an InvalidError.
func (r Retention) Check() (Retention, error) {
	for _, status := range r.Statuses {
		if !slices.Contains(session.Statuses(), status) {
			return r, &session.InvalidError{Field: "status", Reason: fmt.Sprintf("%q is no status of a session", status)}
		}
	}
	switch {
	case r.IdleFor < 0:
		return r, &session.InvalidError{Field: "idleFor", Reason: fmt.Sprintf("%s is negative", r.IdleFor)}
	case r.Limit < 0:
		return r, &session.InvalidError{Field: "limit", Reason: fmt.Sprintf("%d is negative", r.Limit)}
	case r.Limit == 0:
		r.Limit = defaultSweep
	}
	return r, nil
}

// Fits reports whether the retention no longer wants a session. Policies are
// always wanted.
func (r Retention) Fits(i session.Info, now time.Time) bool {
	status := len(r.Statuses) == 0 && i.Status != session.Deleted || slices.Contains(r.Statuses, i.Status)
	idle := r.IdleFor == 0 || !i.UpdatedAt.After(now.Add(-r.IdleFor))
	expired := i.ExpiresAt != nil && !i.ExpiresAt.After(now)
	return status && i.Kind != session.KindPolicy && idle && (expired || !r.Expired)
}

// Oldest sorts headers by the time of their last update and keeps the first
// Limit of them.
func (r Retention) Oldest(infos []session.Info) []session.Info {
	slices.SortFunc(infos, func(a, b session.Info) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.ID, b.ID))
	})
	return infos[:min(len(infos), r.Limit)]
}
