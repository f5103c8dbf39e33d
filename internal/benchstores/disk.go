package main

import (
	"context"
	"fmt"
)

// disk compares the room that saves take with the text that was saved.
func disk(ctx context.Context, b *bench) (results []Result, err error) {
	err = b.in(ctx, setting{}, func(p *place) error {
		w, err := b.saverOf(ctx, p, "kept", 0)
		if err != nil {
			return err
		}
		w.next = b.message // a new text each time
		for range b.kept {
			if err := w.save(ctx); err != nil {
				return err
			}
		}
		size, err := p.bytes(ctx)
		if err != nil {
			return err
		}
		content := b.kept * messageBytes
		results = []Result{{
			Key: "disk", Name: fmt.Sprintf("bytes on disk after %s saves, to bytes of text", grouped(int64(b.kept))), Target: atMost(1.5),
			Measured: float64(size) / float64(content), N: 1, About: fmt.Sprintf("%s kB to %s kB", number(roughly(float64(size)/1000)), grouped(int64(content/1000))),
		}}
		return nil
	})
	return results, err
}
