// Package linear checks recorded histories of concurrent calls: each call must
// seem to take effect at one moment between its beginning and its end.
//
// An accepted write of a versioned store fits behind one other write only, so
// the search that Check does seldom has a choice to make. What cannot be
// ordered by a version (leases, calls whose outcome nobody learned) is tried.
package linear

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Forever is the end of a call that may take effect at any time after it began.
const Forever = math.MaxInt64

// Call is one call of a history, with what it returned.
type Call[In, Out any] struct {
	Client       int
	Began, Ended int64
	In           In
	Out          Out

	// Unsure: nobody learned the outcome, so the call may never take effect.
	// Such a call ends Forever.
	Unsure bool
}

// Model says what calls may return.
type Model[S comparable, In, Out any] struct {
	Start S

	// Step returns the states that may follow a state by a call which returned
	// out: none where it cannot have.
	Step func(s S, in In, out Out) []S
}

// UnexplainedError is a history that no order of its calls explains.
type UnexplainedError struct {
	Calls   int
	history string
}

func (e *UnexplainedError) Error() string {
	return fmt.Sprintf("no order of these %d calls explains their results:\n%s", e.Calls, e.history)
}

// Check returns nil where an order of the calls, in accord with their times,
// explains what each returned, and an *UnexplainedError where none does.
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

// describe lists the calls, and marks those that the best order leaves over.
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

// search looks for an order, one call after the other.
type search[S comparable, In, Out any] struct {
	step     func(S, In, Out) []S
	calls    []Call[In, Out] // by their beginning
	placed   []byte          // a bit for every call that has its place
	owed     int             // calls that must still have a place
	failed   map[point[S]]bool
	furthest []byte // placed, when the fewest were owed
	fewest   int
}

// point is where a search may come by on several ways.
type point[S comparable] struct {
	placed string
	state  S
}

func (s *search[S, In, Out]) has(i int) bool { return s.placed[i/8]&(1<<(i%8)) != 0 }

// flip places a call, or takes it back.
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

// from reports whether the calls that have no place yet can follow a state.
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

// candidates returns the calls that may come next, those which end first in
// front: a call that begins after another has ended comes behind it.
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
