package main

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// searches compares a search in a long session with one in a short one, where
// the store can search.
func searches(ctx context.Context, b *bench) (results []Result, err error) {
	err = b.in(ctx, setting{}, func(p *openedStore) error {
		memories, ok := p.durable.(store.Memories)
		if !ok {
			return nil
		}
		var works []work
		for _, messages := range []int{100, b.long} {
			look, err := b.newSearch(ctx, p, memories, messages)
			if err != nil {
				return err
			}
			works = append(works, look)
		}
		took, err := interleave(ctx, b.reads/10, b.reads, works...)
		if err != nil {
			return err
		}
		results = []Result{compareTimes("search", fmt.Sprintf("search for a rare word in %s messages, to in 100", benchmark.GroupDigits(int64(b.long))), nil, took[1], took[0])}
		return nil
	})
	return results, err
}

// newSearch makes a session of so many messages and looks for the only one
// of them that has a certain word.
func (b *bench) newSearch(ctx context.Context, p *openedStore, memories store.Memories, messages int) (work, error) {
	id := fmt.Sprint("words-", messages)
	w, err := b.newSaver(ctx, p, id, messages)
	if err != nil {
		return nil, err
	}
	w.next = func(n int) session.Message {
		m := b.message(n)
		m.Content = session.Text("the xylophone is in the hall")
		return m
	}
	if err := w.save(ctx); err != nil {
		return nil, err
	}
	q := store.Search{Words: store.Words("xylophone"), Session: id}
	return func(ctx context.Context) error {
		found, err := memories.Search(ctx, session.DefaultTenant, q)
		if err == nil && len(found) != 1 {
			return fmt.Errorf("found %d passages in %s, not 1", len(found), id)
		}
		return err
	}, nil
}
