package benchmark

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Median returns the middle value, the lower of two.
func Median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// Number writes a value with at most two decimals, large ones without.
func Number(v float64) string {
	if math.Abs(v) >= 100 {
		return GroupDigits(int64(math.Round(v)))
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// GroupDigits writes an integer with commas.
func GroupDigits(v int64) string {
	if v < 0 {
		return "-" + GroupDigits(-v)
	}
	if v < 1000 {
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprintf("%s,%03d", GroupDigits(v/1000), v%1000)
}

// Roughly rounds to two digits: the rest is noise.
func Roughly(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-1)
	return math.Round(v/unit) * unit
}

// AboutTime writes a duration as an order of magnitude.
func AboutTime(d time.Duration) string {
	if d < 100*time.Microsecond {
		return Number(Roughly(float64(d)/float64(time.Microsecond))) + " µs"
	}
	return Number(Roughly(float64(d)/float64(time.Millisecond))) + " ms"
}

// AboutRate writes a rate as an order of magnitude.
func AboutRate(perSecond float64) string { return Number(Roughly(perSecond)) + "/s" }
