package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// writers counts what is left of writers that came at the same time.
func writers(ctx context.Context, b *bench) (results []Result, err error) {
	err = b.in(ctx, setting{}, func(p *openedStore) error {
		rt, err := newRuntime(p.durable)
		if err != nil {
			return err
		}
		survived, onErr := oneSession(ctx, rt)
		failed, ownErr := ownSessions(ctx, rt, b.turns)
		if err := errors.Join(onErr, ownErr, rt.Close()); err != nil {
			return err
		}
		results = []Result{
			{
				Key: "writers.one", Name: fmt.Sprintf("of %d writers at once on one session, survive in order", onOne),
				Measured: float64(survived), Count: true, Target: exactly(onOne), N: 1,
			},
			{
				Key: "writers.own", Name: fmt.Sprintf("errors of %d writers at once on sessions of their own", ownEach),
				Measured: float64(failed), Count: true, Target: exactly(0), N: ownEach * b.turns,
			},
		}
		return nil
	})
	return results, err
}

const (
	onOne   = 20
	ownEach = 8
)

// oneSession lets writers send to one session and counts the acknowledged
// messages that are found in the order of the versions they were given.
func oneSession(ctx context.Context, rt *holdfast.Runtime) (int, error) {
	s, err := rt.Create(ctx, session.Definition{Name: "shared"})
	if err != nil {
		return 0, err
	}
	type acknowledged struct {
		text    string
		version int64
	}
	acks := make([]acknowledged, onOne)
	var group sync.WaitGroup
	for i := range acks {
		group.Go(func() {
			text := fmt.Sprint("message ", i)
			if s, err := rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: text}); err == nil {
				acks[i] = acknowledged{text, s.Version()}
			}
		})
	}
	group.Wait()
	slices.SortFunc(acks, func(a, b acknowledged) int { return cmp.Compare(a.version, b.version) })
	last, err := rt.Get(ctx, s.ID(), holdfast.Whole())
	if err != nil {
		return 0, err
	}
	var said []string
	for _, m := range last.All() {
		if m.Role == session.RoleUser {
			said = append(said, m.Content.Text())
		}
	}
	var expected []string
	for _, a := range acks {
		if a.version > 0 {
			expected = append(expected, a.text)
		}
	}
	return inOrder(expected, said), nil
}

// inOrder counts how many of the expected texts stand at their place, with
// nothing lost, repeated or added before them.
func inOrder(expected, said []string) int {
	n := 0
	for n < len(expected) && n < len(said) && expected[n] == said[n] {
		n++
	}
	return n
}

// ownSessions lets writers send to sessions of their own and counts errors.
func ownSessions(ctx context.Context, rt *holdfast.Runtime, turns int) (int, error) {
	var (
		group  sync.WaitGroup
		failed = make([]int, ownEach)
	)
	for i := range failed {
		s, err := rt.Create(ctx, session.Definition{Name: "own"})
		if err != nil {
			group.Wait()
			return 0, err
		}
		group.Go(func() {
			for n := range turns {
				if _, err := rt.Execute(ctx, s.ID(), holdfast.SendMessage{Text: fmt.Sprint("message ", n)}); err != nil {
					failed[i]++
				}
			}
		})
	}
	group.Wait()
	total := 0
	for _, n := range failed {
		total += n
	}
	return total, nil
}
