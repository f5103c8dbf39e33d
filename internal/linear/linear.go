// Package linear checks recorded histories of concurrent calls for
// linearizability: each call must seem to take effect at one moment between its
// start and its end.
//
// An accepted write of a versioned store can follow only one other write, so the
// search in Check seldom has a choice. It tries all orders of calls without a
// version (leases, calls with an unknown outcome).
package linear

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Forever is the end of a call that may take effect at any time after its start.
const Forever = math.MaxInt64

// Call is one call of a history with its result.
type Call[In, Out any] struct {
	Client       int
	Began, Ended int64
	In           In
	Out          Out

	// Unsure: the outcome is not known, so the call may never take effect. Its
	// end is Forever.
	Unsure bool
}

// Model defines which results are possible.
type Model[S comparable, In, Out any] struct {
	Start S

	// Step returns the possible states after a call with the result out; none
	// if the result is impossible.
	Step func(s S, in In, out Out) []S
}

// UnexplainedError means that no order of the calls explains a history.
type UnexplainedError struct {
	Calls   int
	history string
}

func (e *UnexplainedError) Error() string {
	return fmt.Sprintf("no order of these %d calls explains their results:\n%s", e.Calls, e.history)
}

// Check returns nil if some order of the calls agrees with their times and
// explains all results, and an *UnexplainedError otherwise.
func Check[S comparable, In, Out any](m Model[S, In, Out], history []Call[In, Out]) error {
	calls, owed := slices.Clone(history), len(history)
	for i := range calls {
		if calls[i].Unsure {
			calls[i].Ended = Forever
			owed--
		}
	}
	slices.SortStableFunc(calls, func(a, b Call[In, Out]) int { return cmp.Compare(a.Began, b.Began) })
	s := search[S, In, Out]{step: m.Step, calls: calls, owed: owed, placed: make([]byte, (len(calls)+7)/8), failed: map[point[S]]bool{}}
	if s.from(m.Start) {
		return nil
	}
	return &UnexplainedError{Calls: len(calls), history: s.describe()}
}

// describe lists the calls and marks those that the best order does not explain.
func (s *search[S, In, Out]) describe() string {
	var b strings.Builder
	s.placed = s.furthest
	for i, c := range s.calls {
		ended, mark := fmt.Sprint(c.Ended), ""
		if c.Ended == Forever {
			ended = "?"
		}
		if !s.has(i) && !c.Unsure {
			mark = "  <- not explained"
		}
		fmt.Fprintf(&b, "client %d [%d, %s] %+v -> %+v%s\n", c.Client, c.Began, ended, c.In, c.Out, mark)
	}
	return b.String()
}

// search looks for an order, one call at a time.
type search[S comparable, In, Out any] struct {
	step     func(S, In, Out) []S
	calls    []Call[In, Out] // by their beginning
	placed   []byte          // a bit for every call that has its place
	owed     int             // calls that must still have a place
	failed   map[point[S]]bool
	furthest []byte // placed, when the fewest were owed
	fewest   int
}

// point is a state of the search that several orders may reach.
type point[S comparable] struct {
	placed string
	state  S
}

func (s *search[S, In, Out]) has(i int) bool { return s.placed[i/8]&(1<<(i%8)) != 0 }

// flip places a call or removes it.
func (s *search[S, In, Out]) flip(i int) {
	s.placed[i/8] ^= 1 << (i % 8)
	switch {
	case s.calls[i].Unsure:
	case s.has(i):
		s.owed--
	default:
		s.owed++
	}
}

// from reports whether the remaining calls can follow a state.
func (s *search[S, In, Out]) from(state S) bool {
	here := point[S]{string(s.placed), state}
	if s.failed[here] {
		return false
	}
	if s.furthest == nil || s.owed < s.fewest {
		s.furthest, s.fewest = slices.Clone(s.placed), s.owed
	}
	if s.owed == 0 {
		return true
	}
	for _, i := range s.candidates() {
		c := &s.calls[i]
		for _, next := range s.step(state, c.In, c.Out) {
			if c.Unsure && next == state { // without an effect it needs no place
				continue
			}
			s.flip(i)
			if s.from(next) {
				return true
			}
			s.flip(i)
		}
	}
	s.failed[here] = true
	return false
}

// candidates returns the possible next calls, those that end first in front: a
// call that starts after another has ended must follow it.
func (s *search[S, In, Out]) candidates() []int {
	var next []int
	first := int64(Forever) // end
	for i, c := range s.calls {
		if c.Began > first {
			break
		}
		if !s.has(i) {
			first = min(first, c.Ended)
			next = append(next, i)
		}
	}
	next = slices.DeleteFunc(next, func(i int) bool { return s.calls[i].Began > first })
	slices.SortStableFunc(next, func(a, b int) int { return cmp.Compare(s.calls[a].Ended, s.calls[b].Ended) })
	return next
}
