package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Work finds what a process that works on sessions should do next. The store is
// the queue: what waits is read from the sessions themselves, and the lease
// decides who works.
type Work interface {
	// Waiting lists active sessions of all tenants that nobody holds and that
	// are due (Session.DueAt, by the store's clock) or have an unread inbox. Within
	// a tenant those that wait longest come first. Tenants take turns, beginning
	// with the first one after the given name, so that none waits for the work of
	// another. At most limit; the cost does not grow with the number of sessions
	// that wait. A session of an earlier program may be listed without need.
	Waiting(ctx context.Context, after string, limit int) ([]Waiting, error)
}

// Waiting is a session that somebody should work on.
type Waiting struct {
	Ref   Ref
	Kind  session.Kind
	Since time.Time // the zero time or 1970 if it is not known
}

// maxTurns bounds how many tenants one call of Waiting looks at.
const maxTurns = 256

// TakeTurns lets the tenants after a name, and then those from the beginning,
// take turns until there are limit sessions. Next finds the tenant after a name
// that may have some, "" if there is none; list lists at most n of a tenant.
func TakeTurns(after string, limit int, next func(after string) (string, error), list func(tenant string, n int) ([]Waiting, error)) ([]Waiting, error) {
	tenants, err := tenantsAfter(after, min(max(limit, 1), maxTurns), next)
	if err != nil || len(tenants) == 0 || limit <= 0 {
		return nil, err
	}
	// A tenant whose turn brings less than its share leaves room that is used by
	// the next call.
	share := (limit + len(tenants) - 1) / len(tenants)
	turns := make([][]Waiting, len(tenants))
	for i, tenant := range tenants {
		if turns[i], err = list(tenant, share); err != nil {
			return nil, err
		}
	}
	var all []Waiting
	for n := range share {
		for _, turn := range turns {
			if n < len(turn) && len(all) < limit {
				all = append(all, turn[n])
			}
		}
	}
	return all, nil
}

// tenantsAfter lists at most limit tenants, from the first after a name round to
// that name.
func tenantsAfter(after string, limit int, next func(after string) (string, error)) (tenants []string, err error) {
	for name, wrapped := after, false; len(tenants) < limit; {
		if name, err = next(name); err != nil {
			return nil, err
		}
		switch {
		case name == "" && (wrapped || after == ""), wrapped && name > after:
			return tenants, nil
		case name == "":
			wrapped = true
		default:
			tenants = append(tenants, name)
		}
	}
	return tenants, nil
}

// LongestWaiting merges lists into one, each session once with its longest wait.
func LongestWaiting(limit int, lists ...[]Waiting) []Waiting {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b Waiting) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Ref.ID, b.Ref.ID))
	})
	seen := map[Ref]bool{}
	all = slices.DeleteFunc(all, func(w Waiting) bool {
		had := seen[w.Ref]
		seen[w.Ref] = true
		return had
	})
	return all[:min(limit, len(all))]
}
