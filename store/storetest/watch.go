package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

func watchBehaviours() []behaviour {
	return []behaviour{
		{name: "watch/seesEveryChangeOnceAndInOrder", needs: []string{Wakes, Logs, Tails}, check: watchersSeeEverything},
	}
}

// chatterLength is how many changes one round of chatter makes.
const chatterLength = 6

// chatter writes in all the ways there are: it appends, discards a part,
// appends, and seals with a further change, over and over. In every other
// round it calls pause with the number of the last change after each write.
func chatter(ctx context.Context, st store.Store, s session.Session, rounds int, pause func(seq int64)) error {
	tails, ok := st.(store.Tails)
	if !ok {
		return errors.New("the store has no tails")
	}
	said := 0
	say := func(s session.Session) (session.Session, error) {
		said++
		return s.WithMetadata("said", fmt.Appendf(nil, "%d", said), start())
	}
	write := func(s session.Session, times int) (session.Session, error) {
		var err error
		for range times {
			if s, err = say(s); err != nil {
				return s, err
			}
		}
		return tails.Append(ctx, s, store.Append{})
	}
	for round := range rounds {
		pause := pause
		if round%2 == 1 {
			pause = func(int64) {}
		}
		kept, err := write(s, 1)
		if err != nil {
			return err
		}
		pause(kept.Seq())
		refused, err := write(kept, 2)
		if err != nil {
			return err
		}
		pause(refused.Seq())
		if s, err = session.DiscardTail(kept, kept.Seq()+1, refused.Seq(), start()); err != nil {
			return err
		}
		if s, err = write(s, 1); err != nil { // the refusal and one more
			return err
		}
		pause(s.Seq())
		if s, err = say(s); err != nil {
			return err
		}
		if s, err = st.Save(ctx, s, commit(s, "chatter")); err != nil {
			return err
		}
	}
	return nil
}

// pollEvery is how often a watcher looks when no news come.
const pollEvery = 20 * time.Millisecond

// watch reads a log as a live view does: it reads on from the last number it
// saw, and if there is nothing new it waits for news or a moment. It calls
// saw with each number.
func watch(ctx context.Context, st store.Store, r store.Ref, last int64, saw func(seq int64)) ([]session.LogEntry, error) {
	logs, hasLogs := st.(store.Logs)
	wakes, hasWakes := st.(store.Wakes)
	if !hasLogs || !hasWakes {
		return nil, errors.New("the store has no logs or tells of no writes")
	}
	news, stop := wakes.Subscribe(r)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	var seen []session.LogEntry
	for after := int64(0); after < last; {
		entries, err := logs.Log(ctx, r, after, 4)
		if err != nil {
			return seen, fmt.Errorf("log after %d: %w", after, err)
		}
		if len(entries) > 0 {
			seen = append(seen, entries...)
			after = entries[len(entries)-1].Seq
			saw(after)
			continue
		}
		select {
		case <-news:
		case <-poll.C:
		case <-ctx.Done():
			return seen, fmt.Errorf("watched up to %d of %d: %w", after, last, ctx.Err())
		}
	}
	return seen, nil
}

// sawAll fails the test unless a watcher saw each change of a finished log
// once, in order, and as it was written.
func sawAll(t testing.TB, watcher string, seen, log []session.LogEntry) {
	t.Helper()
	if len(seen) != len(log) {
		t.Errorf("%s saw %d changes of %d", watcher, len(seen), len(log))
	}
	for i := range min(len(seen), len(log)) {
		if g, w := string(encode(t, seen[i].Record)), string(encode(t, log[i].Record)); g != w || seen[i].Seq != int64(i+1) {
			t.Fatalf("%s saw %s in the place of %s", watcher, g, w)
		}
		if v := seen[i].Version; v != 0 && v != log[i].Version {
			t.Errorf("%s saw change %d at version %d, it is of %d", watcher, i+1, v, log[i].Version)
		}
	}
}

// watcherProgress records how far each watcher has read.
type watcherProgress struct {
	moved *sync.Cond
	seen  []int64 // guarded by moved.L
}

func (a *watcherProgress) saw(i int, seq int64) {
	a.moved.L.Lock()
	defer a.moved.L.Unlock()
	a.seen[i] = seq
	a.moved.Broadcast()
}

// await waits until every watcher has read up to seq.
func (a *watcherProgress) await(seq int64) {
	a.moved.L.Lock()
	defer a.moved.L.Unlock()
	for slices.Min(a.seen) < seq {
		a.moved.Wait()
	}
}

func watchersSeeEverything(t testing.TB, d Data) {
	const watchers, rounds = 3, 15
	st := d.Open(t)
	s := create(t, st, newSession(t, "watched"))
	last := s.Seq() + chatterLength*rounds
	seen := make([][]session.LogEntry, watchers)
	there := watcherProgress{moved: sync.NewCond(&sync.Mutex{}), seen: make([]int64, watchers)}
	errs := runTogether(t, d, watchers+1, func(i int, st store.Store) (err error) {
		if i == watchers {
			return chatter(t.Context(), st, s, rounds, there.await)
		}
		defer there.saw(i, last) // nobody waits for one who has left
		seen[i], err = watch(t.Context(), st, ref("watched"), last, func(seq int64) { there.saw(i, seq) })
		return err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	log := allEntries(t, st, ref("watched"), 0)
	if int64(len(log)) != last {
		t.Fatalf("the log has %d changes, want %d", len(log), last)
	}
	for i := range watchers {
		sawAll(t, fmt.Sprint("watcher ", i), seen[i], log)
	}
}
