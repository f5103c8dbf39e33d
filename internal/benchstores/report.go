package main

import (
	"math"
	"strconv"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// Report holds all results of one run.
type Report struct {
	Quick   bool              `json:"quick"`
	Machine benchmark.Machine `json:"machine"`
	Stores  []StoreResults    `json:"stores"`
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
	return sign + " " + benchmark.Number(t.Bound)
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
		return benchmark.Number(r.Measured)
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
