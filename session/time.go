package session

import "time"

// Instant is t as a session keeps it: UTC, truncated to microseconds, without
// a monotonic reading. Every time that enters a session passes through it.
func Instant(t time.Time) time.Time {
	return t.UTC().Truncate(time.Microsecond)
}

// after is t, or the first instant later than last where t is not later. It
// keeps a session's times in order when the clock is not.
func after(last, t time.Time) time.Time {
	t = Instant(t)
	if t.After(last) {
		return t
	}
	return last.Add(time.Microsecond)
}

func instantPtr(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := Instant(*t)
	return &u
}
