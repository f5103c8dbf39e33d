package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/postgres/internal/pgtest"
)

// jam is a store all of whose lanes are taken.
type jam struct {
	*postgres.Store
	url   string
	clear func() // lets them go on, and waits until they are gone
}

// newJam is a jam in a store in which something was prepared.
func newJam(t *testing.T, prepare func(st store.Store)) jam {
	t.Helper()
	var (
		on             atomic.Bool
		reached, ended = make(chan struct{}), make(chan struct{})
		group          sync.WaitGroup
	)
	j := jam{url: migrated.Copy(t)}
	j.Store = open(t, j.url, postgres.Config{OnWrite: func(point string) {
		if point == "before save" && on.Load() {
			reached <- struct{}{}
			<-ended
		}
	}})
	j.SetCountsFor(time.Hour)
	j.clear = sync.OnceFunc(func() { close(ended); group.Wait() })
	t.Cleanup(j.clear)
	prepare(j)
	var slow []session.Session
	for i := range postgres.MaxInFlight {
		slow = append(slow, create(t, j, fmt.Sprint("jam-", i)))
	}
	on.Store(true)
	for _, s := range slow {
		group.Go(func() {
			if _, err := j.Save(t.Context(), said(t, s, "slowly"), store.Commit{ID: "c", At: noon()}); err != nil {
				t.Errorf("%s: %v", s.ID(), err)
			}
		})
		<-reached
	}
	on.Store(false)
	return j
}

// lineUp starts a save and waits until it is in line.
func (j jam) lineUp(t *testing.T, ctx context.Context, next session.Session) <-chan error { //nolint:revive // t comes first here
	t.Helper()
	before, answer := j.Queued(), make(chan error, 1)
	go func() {
		_, err := j.Save(ctx, next, store.Commit{ID: "c", At: noon()})
		answer <- err
	}()
	for j.Queued() == before {
		time.Sleep(time.Millisecond)
	}
	return answer
}

// Writes that come while all lanes are taken go in one transaction.
func TestSave_manyAtOnceShareATransaction(t *testing.T) {
	t.Parallel()
	var sessions []session.Session
	j := newJam(t, func(st store.Store) {
		for i := range 20 {
			sessions = append(sessions, create(t, st, fmt.Sprint("s-", i)))
		}
	})
	var answers []<-chan error
	for _, s := range sessions {
		answers = append(answers, j.lineUp(t, t.Context(), said(t, s, "hello")))
	}
	j.clear()
	for i, answer := range answers {
		if err := <-answer; err != nil {
			t.Errorf("s-%d: %v", i, err)
		}
		if s := load(t, j, fmt.Sprint("s-", i)); s.Version() != 2 || s.Len() != 1 {
			t.Errorf("s-%d: version %d with %d messages", i, s.Version(), s.Len())
		}
	}
	var versions, transactions int
	err := pgtest.Connect(t, j.url).QueryRow(t.Context(), `SELECT count(*), count(DISTINCT c.xmin::text)
		FROM changes c JOIN sessions s ON s.sid = c.log WHERE c.version = 2 AND s.id LIKE 's-%'`).Scan(&versions, &transactions)
	if err != nil || versions != 20 || transactions != 1 {
		t.Errorf("%d versions in %d transactions, %v", versions, transactions, err)
	}
}

// Each of them has an answer of its own: one that is refused, and one that
// breaks a constraint and so undoes the transaction, cost the others nothing.
func TestSave_oneOfManyDoesNotSpoilTheOthers(t *testing.T) {
	t.Parallel()
	var stale, nothing session.Session
	var sessions []session.Session
	j := newJam(t, func(st store.Store) {
		stale, nothing = create(t, st, "stale"), create(t, st, "nothing")
		commit(t, st, said(t, stale, "newer"))
		for i := range 3 {
			sessions = append(sessions, create(t, st, fmt.Sprint("s-", i)))
		}
	})
	var good []<-chan error
	for _, s := range sessions {
		good = append(good, j.lineUp(t, t.Context(), said(t, s, "hello")))
	}
	late := j.lineUp(t, t.Context(), said(t, stale, "late"))
	wrong := j.lineUp(t, t.Context(), with(t, nothing, session.InboxTaken{ItemID: "nobody"}))
	j.clear()
	var conflict *session.ConflictError
	if err := <-late; !errors.As(err, &conflict) || conflict.Reason != session.ReasonStale {
		t.Errorf("a stale save: %v", err)
	}
	if err := <-wrong; err == nil || errors.Is(err, session.ErrUnknownOutcome) {
		t.Errorf("an item that is not there was taken: %v", err)
	}
	for i, answer := range good {
		if err := <-answer; err != nil {
			t.Errorf("s-%d: %v", i, err)
		}
		if s := load(t, j, fmt.Sprint("s-", i)); s.Version() != 2 || s.Len() != 1 {
			t.Errorf("s-%d: version %d with %d messages", i, s.Version(), s.Len())
		}
	}
	if v := load(t, j, "nothing").Version(); v != 1 {
		t.Errorf("what was refused is there: version %d", v)
	}
}

// Whoever gives up while it waits in line has written nothing and holds
// nobody up.
func TestSave_givenUpInLineWritesNothing(t *testing.T) {
	t.Parallel()
	var s session.Session
	j := newJam(t, func(st store.Store) { s = create(t, st, "s") })
	ctx, cancel := context.WithCancel(t.Context())
	answer := j.lineUp(t, ctx, said(t, s, "never"))
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	j.clear()
	if v := load(t, j, "s").Version(); v != 1 {
		t.Errorf("given up, but version %d is there", v)
	}
	commit(t, j, said(t, s, "now"))
}
