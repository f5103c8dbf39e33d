package admission

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/holder"
)

// Lease is the newest lease of a session, live or not. A store keeps its token
// for good, because that is what late writers are refused by. Token 0: the
// session never had one.
type Lease struct {
	store.Lease
	Released bool
}

// MaxLength is the longest lease. One that ends later than that from now was
// taken by a clock that was ahead, and is over.
const MaxLength = 24 * time.Hour

// CheckLength refuses a lease that would end before it begins, and one that is
// too long.
func CheckLength(length time.Duration) error {
	switch {
	case length <= 0:
		return &session.InvalidError{Field: "length", Reason: fmt.Sprintf("a lease of %s ends before it begins", length)}
	case length > MaxLength:
		return &session.InvalidError{Field: "length", Reason: fmt.Sprintf("a lease of %s is longer than %s", length, MaxLength)}
	}
	return nil
}

// NewLease returns a lease from now on. The store gives it a token.
func NewLease(name string, now time.Time, length time.Duration) Lease {
	return Lease{Lease: store.Lease{Holder: name, Until: session.Instant(now.Add(length))}}
}

// Live reports a lease that has not ended, that a clock like now's can have
// begun, and whose holder is not known to be dead.
func (l Lease) Live(now time.Time) bool {
	return l.Token != 0 && !l.Released && now.Before(l.Until) && !l.Until.After(now.Add(MaxLength)) && !holder.Dead(l.Holder)
}

// Is reports whether a token is the newest and was not released. A lease that
// only ran out still counts: nobody has taken another since.
func (l Lease) Is(token int64) bool { return token != 0 && l.Token == token && !l.Released }

// Admit lets a writer pass or says why not: one without a fence must not meet
// a live lease, one with a fence must have the newest. Acquire asks without.
func (l Lease) Admit(id string, fence int64, live func() bool) error {
	if fence != 0 {
		return l.CheckToken(id, fence)
	}
	return l.AdmitDelete(id, 0, live)
}

// CheckToken refuses a token that is not the newest or was released.
func (l Lease) CheckToken(id string, token int64) error {
	if !l.Is(token) {
		return &session.FencedError{ID: id, Token: token, Have: l.Token}
	}
	return nil
}

// AdmitDelete lets a deletion pass unless somebody else holds a live lease.
func (l Lease) AdmitDelete(id string, fence int64, live func() bool) error {
	if l.Token != fence && live() {
		return &session.BusyError{ID: id, Holder: l.Holder, Until: l.Until}
	}
	return nil
}

// Releases reports whether a commit ends the lease of its writer. One without
// a fence has no lease to end.
func Releases(c store.Commit) bool { return c.Release && c.Fence != 0 }
