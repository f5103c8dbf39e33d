package terminal

import (
	"fmt"
	"time"
)

// Ago returns how long before now something was, in the largest unit that fits;
// after a month it is the date.
func Ago(t, now time.Time) string {
	switch d := now.Sub(t); {
	case d < -time.Minute:
		return t.Local().Format("2006-01-02 15:04")
	case d < 5*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	case d < 30*24*time.Hour:
		return fmt.Sprintf("%dd ago", d/(24*time.Hour))
	}
	return t.Local().Format("2006-01-02")
}
