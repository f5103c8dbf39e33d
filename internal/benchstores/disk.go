package main

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// disk compares the room that saves take with the text that was saved: those
// of a session that nobody searched, and of one that somebody did.
func disk(ctx context.Context, b *bench) ([]Result, error) {
	begun := func(p *openedStore) error { // what a store takes with a session nobody spoke in
		_, err := b.newSaver(ctx, p, "kept", 0)
		return err
	}
	empty, err := b.measureSize(ctx, begun)
	if err != nil {
		return nil, err
	}
	fill := func(p *openedStore) error {
		w, err := b.newSaver(ctx, p, "kept", 0)
		if err != nil {
			return err
		}
		w.next = b.message // a new text each time
		for range b.kept {
			if err := w.save(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	saved, err := b.measureSize(ctx, fill)
	if err != nil {
		return nil, err
	}
	searched, err := b.measureSize(ctx, func(p *openedStore) error {
		if err := fill(p); err != nil {
			return err
		}
		if memories, ok := p.durable.(store.Memories); ok {
			if _, err := memories.Search(ctx, session.DefaultTenant, store.Search{Words: store.Words("xylophone"), Session: "kept"}); err != nil {
				return err
			}
		}
		return p.Close() // which waits for the index
	})
	if err != nil {
		return nil, err
	}
	saves := benchmark.GroupDigits(int64(b.kept))
	return []Result{
		b.sizeResult("disk", fmt.Sprintf("bytes on disk for %s saves, to bytes of text", saves), atMost(1.5), saved-empty),
		b.sizeResult("disk.words", fmt.Sprintf("bytes on disk for %s saves that were searched, to bytes of text", saves), nil, searched-empty),
	}, nil
}

// measureSize is what a store takes after some work.
func (b *bench) measureSize(ctx context.Context, do func(*openedStore) error) (size int64, err error) {
	err = b.in(ctx, setting{}, func(p *openedStore) error {
		if err := do(p); err != nil {
			return err
		}
		size, err = p.bytes(ctx)
		return err
	})
	return size, err
}

func (b *bench) sizeResult(key, name string, target *Target, size int64) Result {
	content := b.kept * benchmark.MessageBytes
	return Result{
		Key: key, Name: name, Target: target, Measured: float64(size) / float64(content), N: 1,
		About: fmt.Sprintf("%s kB to %s kB", benchmark.Number(benchmark.Roughly(float64(size)/1000)), benchmark.GroupDigits(int64(content/1000))),
	}
}
