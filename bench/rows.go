package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// scale says how much to measure.
type scale struct {
	rounds, heavy int // of short and of long operations
	messages      int // of the session that is read whole and forked
	sessions      int // that are listed
}

func scaleOf(quick bool) scale {
	if quick {
		return scale{rounds: 3, heavy: 2, messages: 200, sessions: 100}
	}
	return scale{rounds: 60, heavy: 30, messages: 2_000, sessions: 1_000}
}

// atOnce is how many sessions are written at the same time, pageSize how many a page
// shows.
const (
	atOnce   = 8
	pageSize = 50
)

// operation does one thing, again and again.
type operation func(context.Context) error

// row is one thing that every contender does.
type row struct {
	key, name string
	batch     int // operations that are timed together
	each      int // what one operation counts for; 0: one
	heavy     bool

	// prepare brings a system to where the operation is measured.
	prepare func(context.Context, *subject) (operation, error)
}

// subject is a contender on a store, while it is measured.
type subject struct {
	system
	scale
	text *benchmark.TextSource

	long string // the session with many messages; empty: not made yet
}

func (s *subject) message() string { return s.text.Text(benchmark.MessageBytes) }

// rows lists what is measured, in the order of the report. Listings come before
// whatever else would create sessions.
func rows(s scale) []row {
	return []row{
		{key: "page", name: fmt.Sprintf("list the newest %d of %s sessions", pageSize, benchmark.GroupDigits(int64(s.sessions))), batch: 1, prepare: preparePage},
		{key: "list", name: fmt.Sprintf("list all %s sessions", benchmark.GroupDigits(int64(s.sessions))), batch: 1, prepare: prepareList},
		{key: "create", name: "create a session", batch: 10, prepare: prepareCreate},
		{key: "append", name: "append a message of 1 kB", batch: 20, prepare: prepareAppend},
		{key: "append.8", name: fmt.Sprintf("the same, %d sessions at once", atOnce), batch: 1, each: atOnce * burst, prepare: prepareBurst},
		{key: "load", name: fmt.Sprintf("read all %s messages of a session", benchmark.GroupDigits(int64(s.messages))), batch: 1, heavy: true, prepare: prepareLoad},
		{key: "fork", name: fmt.Sprintf("fork a session of %s messages", benchmark.GroupDigits(int64(s.messages))), batch: 1, prepare: prepareFork},
		{key: "turn", name: "a whole turn, the model answers at once", batch: 1, prepare: prepareTurn},
	}
}

// preparePage has the sessions created that both listings show.
func preparePage(ctx context.Context, s *subject) (operation, error) {
	for range s.sessions {
		if _, err := s.create(ctx, uuid.NewString()); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error {
		n, err := s.list(ctx, pageSize)
		if err == nil && n != pageSize && n != s.sessions {
			err = wrongCount("sessions", n, pageSize)
		}
		return err
	}, nil
}

func prepareList(_ context.Context, s *subject) (operation, error) {
	return func(ctx context.Context) error {
		n, err := s.list(ctx, 0)
		if err == nil && n != s.sessions {
			err = wrongCount("sessions", n, s.sessions)
		}
		return err
	}, nil
}

func prepareCreate(_ context.Context, s *subject) (operation, error) {
	return func(ctx context.Context) error {
		_, err := s.create(ctx, uuid.NewString())
		return err
	}, nil
}

func prepareAppend(ctx context.Context, s *subject) (operation, error) {
	c, err := s.create(ctx, uuid.NewString())
	if err != nil {
		return nil, err
	}
	text := s.message()
	return func(ctx context.Context) error { return c.append(ctx, text) }, nil
}

// burst is how many messages each of several sessions gets in one operation.
const burst = 10

func prepareBurst(ctx context.Context, s *subject) (operation, error) {
	all := make([]conversation, atOnce)
	for i := range all {
		var err error
		if all[i], err = s.create(ctx, uuid.NewString()); err != nil {
			return nil, err
		}
	}
	text := s.message()
	return func(ctx context.Context) error {
		var (
			group sync.WaitGroup
			errs  = make([]error, atOnce)
		)
		for i, c := range all {
			group.Go(func() {
				for n := 0; n < burst && errs[i] == nil; n++ {
					errs[i] = c.append(ctx, text)
				}
			})
		}
		group.Wait()
		return errors.Join(errs...)
	}, nil
}

// grow makes the session with many messages, once.
func (s *subject) grow(ctx context.Context) error {
	if s.long != "" {
		return nil
	}
	id := uuid.NewString()
	c, err := s.create(ctx, id)
	for n := 0; n < s.messages && err == nil; n++ {
		err = c.append(ctx, s.message())
	}
	if err == nil {
		s.long = id
	}
	return err
}

func prepareLoad(ctx context.Context, s *subject) (operation, error) {
	if err := s.grow(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		n, err := s.load(ctx, s.long)
		if err == nil && n != s.messages {
			err = wrongCount("messages", n, s.messages)
		}
		return err
	}, nil
}

func prepareFork(ctx context.Context, s *subject) (operation, error) {
	if err := s.grow(ctx); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return s.fork(ctx, s.long, uuid.NewString()) }, nil
}

// prepareTurn lets a conversation grow: everybody is at the same turn in each round,
// and the model is shown all of it.
func prepareTurn(ctx context.Context, s *subject) (operation, error) {
	id, said := uuid.NewString(), 0
	if _, err := s.create(ctx, id); err != nil {
		return nil, err
	}
	text := s.message()
	return func(ctx context.Context) error {
		shown, err := s.turn(ctx, id, text)
		if err == nil && shown != said+1 {
			err = wrongCount("messages shown to the model", shown, said+1)
		}
		said += 2
		return err
	}, nil
}
