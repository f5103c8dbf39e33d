package session

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Cost is money in integer micro-dollars. It encodes as a number of dollars.
type Cost int64

// Dollars is a cost from a number of US dollars, rounded to a micro-dollar.
func Dollars(d float64) Cost { return Cost(math.Round(d * 1e6)) }

// Dollars is the cost as a number of US dollars.
func (c Cost) Dollars() float64 { return float64(c) / 1e6 }

// String is the cost in dollars with as many digits as it needs.
func (c Cost) String() string {
	sign, n := "", uint64(c)
	if c < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%06d", sign, n/1e6, n%1e6)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// MarshalJSON writes dollars.
func (c Cost) MarshalJSON() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalJSON reads dollars. What String writes is read back exactly;
// anything finer is rounded to a micro-dollar.
func (c *Cost) UnmarshalJSON(data []byte) error {
	whole, part, _ := strings.Cut(string(data), ".")
	if len(part) <= 6 {
		if n, err := strconv.ParseInt(whole+part+"000000"[len(part):], 10, 64); err == nil {
			*c = Cost(n)
			return nil
		}
	}
	f, err := strconv.ParseFloat(string(data), 64)
	if err != nil || !(math.Abs(f) <= 9e12) {
		return invalid("cost", "%s is no number of dollars", quoted(string(data)))
	}
	*c = Dollars(f)
	return nil
}

// Usage counts tokens.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Reasoning  int64 `json:"reasoning"`
}

// Plus is the sum. A count that would overflow stays at the largest.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		plus(u.Input, v.Input), plus(u.Output, v.Output), plus(u.CacheRead, v.CacheRead),
		plus(u.CacheWrite, v.CacheWrite), plus(u.Reasoning, v.Reasoning),
	}
}

// Total is input and output.
func (u Usage) Total() int64 { return plus(u.Input, u.Output) }

// plus adds and stops at the largest number.
func plus[T ~int64](a, b T) T {
	if sum := a + b; b < 0 || sum >= a {
		return sum
	}
	return math.MaxInt64
}

// checkSpent refuses what nobody can have spent.
func checkSpent(field string, u Usage, c Cost, seconds float64) error {
	if min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning) < 0 {
		return invalid(field+".usage", "a count of tokens is negative")
	}
	if c < 0 {
		return invalid(field+".cost", "%s is negative", c)
	}
	if !(seconds >= 0) || math.IsInf(seconds, 0) {
		return invalid(field+".activeSeconds", "%v is no number of seconds", seconds)
	}
	return nil
}
