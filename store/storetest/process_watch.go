//go:build unix

package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// chat writes to the session that a process watches.
func (w *worker) chat(ctx context.Context) error {
	s, err := w.st.Load(ctx, lifeRef(), true)
	if err != nil {
		return err
	}
	return chatter(ctx, w.st, s, w.Saves, func(int64) {})
}

// watcherSeesEverything follows a session that another process writes to.
func watcherSeesEverything(t *testing.T, p Processes) {
	const rounds = 20
	url := p.NewURL(t)
	st := raceStart(t, p, url)
	if missing := lacksOf(st, Logs, Tails, Wakes); missing != "" {
		t.Skip("store has no ability " + missing)
	}
	c := startTogether(t, job{Do: "chat", URL: url, Saves: rounds})[0]
	last := 1 + int64(chatterLength*rounds)
	seen, err := watch(t.Context(), st, lifeRef(), last, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	c.all(t)
	log := allEntries(t, st, lifeRef(), 0)
	if int64(len(log)) != last {
		t.Errorf("the log has %d changes, want %d", len(log), last)
	}
	sawAll(t, "the watcher", seen, log)
}

// lacksOf is the first ability that a store does not have.
func lacksOf(st store.Store, needs ...string) string {
	have := Abilities(st)
	for _, need := range needs {
		if !slices.Contains(have, need) {
			return need
		}
	}
	return ""
}

// start begins an execution as often as it can against all others, and ends
// each with a save that releases the lease.
func (w *worker) start(ctx context.Context) error {
	starts, ok := w.st.(store.Starts)
	if !ok {
		return errors.New("the store has no starts")
	}
	for won := 0; won < w.Saves; {
		s, err := w.st.Load(ctx, lifeRef(), true)
		if err != nil {
			return err
		}
		tag := fmt.Sprintf("%s-%d", w.Name, won)
		if s, err = addText(s, tag); err != nil {
			return err
		}
		s, lease, err := starts.Start(ctx, s, store.Beginning{Holder: w.holder, Length: w.Lease})
		if errors.Is(err, session.ErrBusy) || errors.Is(err, session.ErrConflict) {
			continue
		}
		if err != nil {
			return err
		}
		w.Report(report{Step: tag, Token: lease.Token})
		if _, err = w.st.Save(ctx, s, store.Commit{ID: tag, Action: "start", At: lifeTime(), Fence: lease.Token, Release: true}); err != nil {
			return fmt.Errorf("save after %s: %w", tag, err)
		}
		won++
	}
	return nil
}

// startersTakeTurns has processes race to begin executions: each beginning is
// there once, under a token of its own, and the tokens grow with the versions.
func startersTakeTurns(t *testing.T, p Processes) {
	const workers, wins = 3, 6
	url := p.NewURL(t)
	st := raceStart(t, p, url)
	if missing := lacksOf(st, Starts, Leases, Tails); missing != "" {
		t.Skip("store has no ability " + missing)
	}
	var jobs []job
	for i := range workers {
		jobs = append(jobs, job{Do: "start", URL: url, Name: fmt.Sprint("w", i), Saves: wins, Lease: time.Minute})
	}
	tokens := map[string]int64{}
	for _, c := range startTogether(t, jobs...) {
		reports, _ := c.all(t)
		for _, r := range reports {
			tokens[r.Step] = r.Token
		}
	}
	s := loadFinal(t, st)
	if s.Len() != workers*wins || len(tokens) != workers*wins || s.Version() != 1+workers*wins {
		t.Errorf("%d messages of %d starts at version %d, want %d", s.Len(), len(tokens), s.Version(), workers*wins)
	}
	last := int64(0)
	for _, m := range s.All() {
		if token := tokens[m.Content.Text()]; token <= last {
			t.Errorf("%s was begun under token %d after %d", m.Content.Text(), token, last)
		} else {
			last = token
		}
	}
}
