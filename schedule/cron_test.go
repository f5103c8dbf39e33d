package schedule_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // zones where the machine has none

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/schedule"
	"github.com/holdfast-dev/holdfast/session"
)

func TestCron_next(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const form = "2006-01-02 15:04"
	for _, c := range []struct {
		cron, after, want string
		zone              *time.Location
	}{
		{"* * * * *", "2026-01-01 00:00", "2026-01-01 00:01", time.UTC},
		{"*/15 * * * *", "2026-01-01 00:16", "2026-01-01 00:30", time.UTC},
		{"5/20 * * * *", "2026-01-01 00:06", "2026-01-01 00:25", time.UTC},
		{"0 9 * * mon-fri", "2026-01-02 09:00", "2026-01-05 09:00", time.UTC}, // a Friday
		{"0 0 * * 7", "2026-01-01 00:00", "2026-01-04 00:00", time.UTC},
		{"0 0 31 * *", "2026-01-31 00:00", "2026-03-31 00:00", time.UTC},
		{"0 0 29 2 *", "2026-01-01 00:00", "2028-02-29 00:00", time.UTC},
		{"0 0 1,15 * *", "2026-12-15 00:00", "2027-01-01 00:00", time.UTC},
		{"0 0 13 * fri", "2026-01-01 00:00", "2026-01-02 00:00", time.UTC}, // either
		{"@monthly", "2026-01-01 00:00", "2026-02-01 00:00", time.UTC},
		{"30 2 * * *", "2026-03-28 12:00", "2026-03-30 02:30", berlin}, // the 29th has no 02:30
		{"30 3 * * *", "2026-03-28 12:00", "2026-03-29 03:30", berlin},
		{"30 2 * * *", "2026-10-25 12:00", "2026-10-26 02:30", berlin},
	} {
		cron, err := schedule.ParseCron(c.cron)
		if err != nil {
			t.Error(err)
			continue
		}
		after, err := time.ParseInLocation(form, c.after, c.zone)
		if err != nil {
			t.Fatal(err)
		}
		if have := cron.Next(after).Format(form); have != c.want {
			t.Errorf("%s after %s: %s, want %s", c.cron, c.after, have, c.want)
		}
	}
}

// A time that the clocks show twice comes once.
func TestCron_comesOnceWhenClocksGoBack(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	cron, err := schedule.ParseCron("30 2 * * *")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for at := cron.Next(time.Date(2026, 10, 24, 12, 0, 0, 0, berlin)); at.Before(time.Date(2026, 10, 25, 12, 0, 0, 0, berlin)); at = cron.Next(at) {
		n++
	}
	if n != 1 {
		t.Errorf("it came %d times", n)
	}
}

func TestCron_refuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "a * * * *",
		"5-1 * * * *", "*/0 * * * *", "*/x * * * *", "1,,2 * * * *", "-1 * * * *", "0 0 31 2 *", "@sometimes",
	} {
		if _, err := schedule.ParseCron(text); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %v, want InvalidError", text, err)
		}
	}
}

// Whatever the expression, the next time is later and none is left out: what
// the search finds is what looking at every minute finds.
func TestCron_findsWhatEveryMinuteFinds(t *testing.T) {
	t.Parallel()
	field := func(t *property.T, name string, last int) string {
		n := property.IntRange(0, last).Draw(t, name)
		return property.SampledFrom([]string{"*", "*", strconv.Itoa(n), "*/" + strconv.Itoa(max(n, 1)), strconv.Itoa(n/2) + "-" + strconv.Itoa(n)}).Draw(t, name+" form")
	}
	property.Check(t, func(t *property.T) {
		minute, hour, weekday := field(t, "minute", 59), field(t, "hour", 23), field(t, "weekday", 6)
		text := minute + " " + hour + " * * " + weekday
		cron, err := schedule.ParseCron(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		after := time.Date(2026, 5, 1, 0, property.IntRange(0, 10000).Draw(t, "start"), 0, 0, time.UTC)
		next := cron.Next(after)
		if !next.After(after) {
			t.Fatalf("%s: %s is not after %s", text, next, after)
		}
		for m := after.Add(time.Minute); m.Before(next); m = m.Add(time.Minute) {
			if matches(minute, m.Minute()) && matches(hour, m.Hour()) && matches(weekday, int(m.Weekday())) {
				t.Fatalf("%s: %s was left out", text, m)
			}
		}
		if !matches(minute, next.Minute()) || !matches(hour, next.Hour()) || !matches(weekday, int(next.Weekday())) {
			t.Fatalf("%s: %s is none of them", text, next)
		}
	})
}

// matches reports whether a number is one of a field's, which is *, a number,
// */step or a range.
func matches(field string, n int) bool {
	if step, ok := strings.CutPrefix(field, "*/"); ok {
		return n%atoi(step) == 0
	}
	if low, high, ok := strings.Cut(field, "-"); ok {
		return atoi(low) <= n && n <= atoi(high)
	}
	return field == "*" || atoi(field) == n
}

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}
