package strands

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// FormatTime writes a time as Python's isoformat does in UTC: microseconds,
// left out when they are 0.
func FormatTime(t time.Time) string {
	t = session.Instant(t)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05-07:00")
	}
	return t.Format("2006-01-02T15:04:05.000000-07:00")
}

// ParseTime reads what FormatTime writes and its relatives: a Z or another
// zone, any number of decimals, a space for the T. A time without a zone is UTC.
func ParseTime(text string) (time.Time, error) {
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05",
	} {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if t = session.Instant(t); t.Year() >= 1 { // Python's first year
			return t, nil
		}
	}
	return time.Time{}, &session.InvalidError{Field: "value", Reason: fmt.Sprintf("%.40q is not a time such as 2025-11-09T10:15:30.123456+00:00", text)}
}
