package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// Report holds all results of one run.
type Report struct {
	Quick   bool           `json:"quick"`
	Machine Machine        `json:"machine"`
	Stores  []StoreResults `json:"stores"`
}

// Machine describes the machine of a run.
type Machine struct {
	Cores int           `json:"cores"`
	Go    string        `json:"go"`
	Flush time.Duration `json:"flushNanoseconds"` // of 4 KiB to the disk
}

// StoreResults holds the results of one store.
type StoreResults struct {
	Store   string   `json:"store"`
	Results []Result `json:"results"`
}

// Result is one measured value.
type Result struct {
	Key      string  `json:"key"` // the same for all stores and in every run
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`
	Count    bool    `json:"count,omitempty"`  // a count, not a ratio
	Target   *Target `json:"target,omitempty"` // nil: for information only
	About    string  `json:"about,omitempty"`  // order of magnitude: a time, a rate, a size
	N        int     `json:"n"`                // how often each side was measured
}

// Relation compares a measured value with its bound.
type Relation string

// The relations.
const (
	AtMost  Relation = "at_most"
	AtLeast Relation = "at_least"
	Exactly Relation = "exactly"
)

// Target is the wanted value of a result.
type Target struct {
	Relation Relation `json:"relation"`
	Bound    float64  `json:"bound"`
}

func atMost(bound float64) *Target  { return &Target{AtMost, bound} }
func atLeast(bound float64) *Target { return &Target{AtLeast, bound} }
func exactly(bound float64) *Target { return &Target{Exactly, bound} }

// Met reports whether a value, rounded as shown, meets the target.
func (t Target) Met(value float64) bool {
	value = math.Round(value*100) / 100
	switch t.Relation {
	case AtMost:
		return value <= t.Bound
	case AtLeast:
		return value >= t.Bound
	default:
		return value == t.Bound
	}
}

func (t Target) String() string {
	sign := map[Relation]string{AtMost: "≤", AtLeast: "≥", Exactly: "="}[t.Relation]
	return sign + " " + number(t.Bound)
}

// Verdict returns ok, missed, or nothing without a target.
func (r Result) Verdict() string {
	switch {
	case r.Target == nil:
		return ""
	case r.Target.Met(r.Measured):
		return "ok"
	default:
		return "missed"
	}
}

func (r Result) format() string {
	if r.Count {
		return number(r.Measured)
	}
	return strconv.FormatFloat(r.Measured, 'f', 2, 64)
}

func (s StoreResults) find(key string) (Result, bool) {
	for _, r := range s.Results {
		if r.Key == key {
			return r, true
		}
	}
	return Result{}, false
}

// number writes a value with at most two decimals, large ones without.
func number(v float64) string {
	if math.Abs(v) >= 100 {
		return groupDigits(int64(math.Round(v)))
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// groupDigits writes an integer with commas.
func groupDigits(v int64) string {
	if v < 0 {
		return "-" + groupDigits(-v)
	}
	if v < 1000 {
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprintf("%s,%03d", groupDigits(v/1000), v%1000)
}

// roughly rounds to two digits: the rest is noise.
func roughly(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-1)
	return math.Round(v/unit) * unit
}

// aboutTime writes a duration as an order of magnitude.
func aboutTime(d time.Duration) string {
	if d < 100*time.Microsecond {
		return number(roughly(float64(d)/float64(time.Microsecond))) + " µs"
	}
	return number(roughly(float64(d)/float64(time.Millisecond))) + " ms"
}

// aboutRate writes a rate as an order of magnitude.
func aboutRate(perSecond float64) string { return number(roughly(perSecond)) + "/s" }

// thisMachine describes the machine and the disk of a folder.
func thisMachine(dir string) (Machine, error) {
	flush, err := flushTime(filepath.Join(dir, "flush"))
	return Machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Flush: flush}, err
}

// flushTime measures how long the disk takes to acknowledge 4 KiB.
func flushTime(file string) (time.Duration, error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // nothing in it is wanted
	page := make([]byte, 4096)
	var took timing
	for range 200 {
		begin := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	return took.median(), nil
}
