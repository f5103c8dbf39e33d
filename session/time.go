package session

import "time"

// The first and last moments that RFC 3339 can write.
var (
	firstInstant = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	lastInstant  = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
)

// Instant is t as a session keeps it: UTC, truncated to microseconds, without
// a monotonic reading, and within the years 0 to 9999, beyond which a time
// cannot be written. Every time that enters a session passes through it.
func Instant(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Microsecond)
	switch {
	case t.Before(firstInstant):
		return firstInstant
	case t.After(lastInstant):
		return lastInstant
	}
	return t
}

// after is t, or the first instant later than last where t is not later. It
// keeps a session's times in order when the clock is not.
func after(last, t time.Time) time.Time {
	t = Instant(t)
	if t.After(last) {
		return t
	}
	return Instant(last.Add(time.Microsecond))
}

func instantPtr(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := Instant(*t)
	return &u
}
