package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func concurrencyBehaviours() []behaviour {
	return []behaviour{
		{name: "concurrency/ofManyWritersOneWins", check: ofManyWritersOneWins},
		{name: "concurrency/ofManyCreatorsOneWins", check: ofManyCreatorsOneWins},
		{name: "concurrency/noUpdateIsLost", check: noUpdateIsLost},
		{name: "concurrency/ofManyAppendsOneWins", needs: []string{Tails}, check: ofManyAppendsOneWins},
		{name: "concurrency/readersSeeWholeVersions", check: readersSeeWholeVersions},
	}
}

const writers = 12

// runTogether runs n concurrent calls, spread over several handles, and returns
// their errors.
func runTogether(t testing.TB, d Data, n int, call func(i int, st store.Store) error) []error {
	t.Helper()
	open := openHandles(t, d, 3)
	errs := make([]error, n)
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait() // nobody begins before everybody is here
			errs[i] = call(i, open[i%len(open)])
		})
	}
	done.Wait()
	return errs
}

// oneWinner fails the test unless exactly one call worked and all others lost
// for the reason. It returns the winner.
func oneWinner(t testing.TB, errs []error, reason session.ConflictReason) int {
	t.Helper()
	winner := -1
	for i, err := range errs {
		var c *session.ConflictError
		switch {
		case err == nil && winner >= 0:
			t.Errorf("%d and %d both won", winner, i)
		case err == nil:
			winner = i
		case !errors.As(err, &c) || c.Reason != reason:
			t.Errorf("%d lost with %v, want conflict %s", i, err, reason)
		}
	}
	if winner < 0 {
		t.Fatalf("nobody won: %v", errs)
	}
	return winner
}

func ofManyWritersOneWins(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "contended"))
	for round := range 5 {
		from := s
		errs := runTogether(t, d, writers, func(i int, st store.Store) error {
			next := withMessage(t, from, fmt.Sprintf("round %d writer %d", round, i))
			_, err := st.Save(t.Context(), next, commit(next, "w"+strconv.Itoa(i)))
			return err
		})
		winner := oneWinner(t, errs, session.ReasonStale)
		s = load(t, st, ref("contended"))
		last := s.Message(s.Len() - 1).Content.Text()
		if want := fmt.Sprintf("round %d writer %d", round, winner); last != want || s.Len() != round+1 || s.Version() != from.Version()+1 {
			t.Fatalf("version %d with %d messages ends with %q, want version %d with %d and %q",
				s.Version(), s.Len(), last, from.Version()+1, round+1, want)
		}
	}
}

func ofManyCreatorsOneWins(t testing.TB, d Data) {
	errs := runTogether(t, d, writers, func(i int, st store.Store) error {
		s := newSessionFrom(t, session.Identity{ID: "wanted", AgentID: fmt.Sprintf("agent-%d", i)})
		_, err := st.Create(t.Context(), s, commit(s, "create"))
		return err
	})
	winner := oneWinner(t, errs, session.ReasonExists)
	if got := load(t, d.Open(t), ref("wanted")).AgentID(); got != fmt.Sprintf("agent-%d", winner) {
		t.Errorf("stored agent %s, but writer %d won", got, winner)
	}
}

// noUpdateIsLost has every writer add one message, reloading when it loses.
func noUpdateIsLost(t testing.TB, d Data) {
	st := d.Open(t)
	create(t, st, newSession(t, "shared"))
	errs := runTogether(t, d, writers, func(i int, st store.Store) error {
		for {
			s, err := st.Load(t.Context(), ref("shared"), false)
			if err != nil {
				return err
			}
			next := withMessage(t, s, strconv.Itoa(i))
			if _, err = st.Save(t.Context(), next, commit(next, "w"+strconv.Itoa(i))); !errors.Is(err, session.ErrConflict) {
				return err
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("a writer failed: %v", err)
	}
	s := load(t, st, ref("shared"))
	seen := map[string]bool{}
	for _, m := range s.All() {
		seen[m.Content.Text()] = true
	}
	if len(seen) != writers || s.Len() != writers || s.Version() != writers+1 {
		t.Errorf("%d different of %d messages at version %d, want %d at version %d", len(seen), s.Len(), s.Version(), writers, writers+1)
	}
}

func ofManyAppendsOneWins(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "tail"))
	errs := runTogether(t, d, writers, func(i int, st store.Store) error {
		_, err := ability[store.Tails](t, st).Append(t.Context(), withMessage(t, s, strconv.Itoa(i)), store.Append{})
		return err
	})
	winner := oneWinner(t, errs, session.ReasonOpenTail)
	loaded := loadTail(t, st, ref("tail"))
	if loaded.Len() != 1 || loaded.Message(0).Content.Text() != strconv.Itoa(winner) {
		t.Errorf("the tail has %d messages, want the one of writer %d", loaded.Len(), winner)
	}
}

// readersSeeWholeVersions has a writer add two messages at a time: a reader
// must never see one of them, nor a version that goes back.
func readersSeeWholeVersions(t testing.TB, d Data) {
	st := d.Open(t)
	s := create(t, st, newSession(t, "pairs"))
	const rounds = 30
	errs := runTogether(t, d, 4, func(i int, st store.Store) error {
		if i == 0 {
			for range rounds {
				var err error
				next := withMessage(t, withMessage(t, s, "a"), "b")
				if s, err = st.Save(t.Context(), next, commit(next, "test")); err != nil {
					return err
				}
			}
			return nil
		}
		last := int64(0)
		for range rounds {
			seen, err := st.Load(t.Context(), ref("pairs"), false)
			if err != nil {
				return err
			}
			if v := seen.Version(); v < last || int64(seen.Len()) != 2*(v-1) || seen.Info().MessageCount != seen.Len() {
				return fmt.Errorf("version %d after %d with %d messages, header says %d", v, last, seen.Len(), seen.Info().MessageCount)
			}
			last = seen.Version()
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
