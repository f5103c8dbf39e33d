package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// Cron is when something happens again and again: minute, hour, day of the
// month, month and day of the week, as crontab writes them. Each is a bit set.
type Cron struct {
	minute, hour, day, month, weekday uint64
	anyDay, anyWeekday                bool // the field was *
}

var (
	months   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	short    = map[string]string{
		"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
		"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
	}
)

// ParseCron reads a cron expression of five fields, or @hourly, @daily, @weekly,
// @monthly or @yearly. A field is *, a number, a name, a range, a list of those, or
// one of those with /step.
func ParseCron(text string) (Cron, error) {
	expression := strings.ToLower(strings.TrimSpace(text))
	if known, ok := short[expression]; ok {
		expression = known
	}
	fields := strings.Fields(expression)
	if len(fields) != 5 {
		return Cron{}, badCron(text, "it needs five fields: minute, hour, day of month, month, day of week")
	}
	c := Cron{anyDay: fields[2] == "*", anyWeekday: fields[4] == "*"}
	for i, f := range []struct {
		into        *uint64
		what        string
		first, last int
		names       []string
	}{
		{&c.minute, "minute", 0, 59, nil},
		{&c.hour, "hour", 0, 23, nil},
		{&c.day, "day of month", 1, 31, nil},
		{&c.month, "month", 1, 12, months},
		{&c.weekday, "day of week", 0, 7, weekdays},
	} {
		set, err := parseField(fields[i], f.first, f.last, f.names)
		if err != nil {
			return Cron{}, badCron(text, f.what+" "+err.Error())
		}
		*f.into = set
	}
	if c.weekday&(1<<7) != 0 { // 7 is Sunday too
		c.weekday |= 1
	}
	if c.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Cron{}, badCron(text, "there is no such day")
	}
	return c, nil
}

func badCron(text, reason string) error {
	return &session.InvalidError{Field: "cron", Reason: fmt.Sprintf("%q: %s", text, reason)}
}

// parseField reads one field into a set of numbers.
func parseField(text string, first, last int, names []string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, hasStep := strings.Cut(part, "/")
		step := 1
		if hasStep {
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 || step > last {
				return 0, fmt.Errorf("%q is no step", stepText)
			}
		}
		from, to := first, last
		if span != "*" {
			low, high, isRange := strings.Cut(span, "-")
			if from, err = parseNumber(low, first, last, names); err != nil {
				return 0, err
			}
			switch {
			case isRange:
				if to, err = parseNumber(high, first, last, names); err != nil {
					return 0, err
				}
			case !hasStep:
				to = from
			}
		}
		if to < from {
			return 0, fmt.Errorf("%q goes backwards", span)
		}
		for n := from; n <= to; n += step {
			set |= 1 << n
		}
	}
	return set, nil
}

func parseNumber(text string, first, last int, names []string) (int, error) {
	for i, name := range names {
		if text == name {
			return i + first, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < first || n > last {
		return 0, fmt.Errorf("%q is not %d to %d", text, first, last)
	}
	return n, nil
}

// searchYears bounds the search: 29 February of a given weekday comes at least
// once in 40 years.
const searchYears = 41

// Next returns the first time after a moment, in the zone of that moment; the
// zero time if there is none. A time that the clocks skip on a day does not come
// on that day; one that they show twice comes once.
func (c Cron) Next(after time.Time) time.Time {
	zone := after.Location()
	year, month, day := after.Date()
	for d, end := time.Date(year, month, day, 12, 0, 0, 0, zone), year+searchYears; d.Year() <= end; d = d.AddDate(0, 0, 1) {
		if c.month&(1<<d.Month()) == 0 {
			d = time.Date(d.Year(), d.Month()+1, 0, 12, 0, 0, 0, zone) // its last day
			continue
		}
		if !c.onDay(d) {
			continue
		}
		if at := c.onDate(d, after); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

// onDay reports whether the day is one of those. As crontab has it, a day of the
// month and a day of the week that are both given are alternatives.
func (c Cron) onDay(d time.Time) bool {
	day, weekday := c.day&(1<<d.Day()) != 0, c.weekday&(1<<d.Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// onDate returns the first time of a day after a moment.
func (c Cron) onDate(d, after time.Time) time.Time {
	var first time.Time
	for hours := c.hour; hours != 0; hours &= hours - 1 {
		hour := bits.TrailingZeros64(hours)
		for minutes := c.minute; minutes != 0; minutes &= minutes - 1 {
			minute := bits.TrailingZeros64(minutes)
			at := time.Date(d.Year(), d.Month(), d.Day(), hour, minute, 0, 0, d.Location())
			if at.Hour() == hour && at.Minute() == minute && at.After(after) && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
		if !first.IsZero() {
			return first
		}
	}
	return first
}
