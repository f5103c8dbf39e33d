package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// histories are how long sessions are that are saved to.
func (b *bench) histories() []int { return []int{10, 1_000, b.long} }

// saves compares saves at several lengths of history with the floor.
func saves(ctx context.Context, b *bench) (results []Result, err error) {
	body := []byte(b.text.Text(benchmark.MessageBytes))
	err = b.in(ctx, setting{}, func(p *openedStore) error {
		return b.beside(ctx, 1, func(f floor) error {
			works := []work{func(ctx context.Context) error { return f.append(ctx, 0, body) }}
			for _, history := range b.histories() {
				w, err := b.newSaver(ctx, p, fmt.Sprint("history-", history), history)
				if err != nil {
					return err
				}
				works = append(works, w.save)
			}
			took, err := interleave(ctx, b.saves/10, b.saves, works...)
			if err != nil {
				return err
			}
			for i, history := range b.histories() {
				results = append(results, compareTimes(historyKey(i), fmt.Sprintf("save of 1 kB after %s messages, to floor", benchmark.GroupDigits(int64(history))),
					atMost(1.5), took[i+1], took[0]))
			}
			return nil
		})
	})
	return results, err
}

const historyPrefix = "save.history."

// historyKey is the key of the n-th length of history.
func historyKey(n int) string { return historyPrefix + strconv.Itoa(n) }

// moveEvery is how many saves a growing session makes before its window is
// moved to the end again, as a policy does that keeps one.
const moveEvery = 10

// growth makes a session of many saves and compares its last ones with the
// first ones of another. The same session then shows what its old versions
// cost, and forks of it.
func growth(ctx context.Context, b *bench) (results []Result, err error) {
	err = b.in(ctx, setting{}, func(p *openedStore) error {
		old, err := b.newSaver(ctx, p, "old", 0)
		if err != nil {
			return err
		}
		for i := range b.long - b.last {
			if err := old.save(ctx); err != nil {
				return err
			}
			if (i+1)%moveEvery == 0 && old.s.Len() > window {
				if err := old.move(); err != nil {
					return err
				}
			}
		}
		young, err := b.newSaver(ctx, p, "young", 0)
		if err != nil {
			return err
		}
		took, err := interleave(ctx, 0, b.last, old.save, young.save)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("last %d of %s saves, to first %d", b.last, benchmark.GroupDigits(int64(b.long)), b.last)
		results = append(results, compareTimes("save.growth", name, atMost(1.2), took[0], took[1]))
		if err := errors.Join(old.move(), old.save(ctx)); err != nil {
			return err
		}
		for _, more := range []func(context.Context, *bench, *openedStore, store.Ref) ([]Result, error){versions, forks} {
			found, err := more(ctx, b, p, store.RefOf(old.s))
			if err != nil {
				return err
			}
			results = append(results, found...)
		}
		return nil
	})
	return results, err
}

const mebibyte = 1 << 20

// untouchedState compares saves of sessions that have a mebibyte of state with
// one of a session that has none.
func untouchedState(ctx context.Context, b *bench) (results []Result, err error) {
	seeds, err := b.heavySeeds()
	if err != nil {
		return nil, err
	}
	err = b.in(ctx, setting{}, func(p *openedStore) error {
		var works []work
		for i, h := range seeds {
			s, err := newSession(h.key, h.seed)
			if err != nil {
				return err
			}
			head, err := session.EncodeHead(s)
			if err == nil && i > 0 && len(head) < mebibyte {
				err = fmt.Errorf("%s: its state has only %d bytes", h.key, len(head))
			}
			if err != nil {
				return err
			}
			if s, err = p.Create(ctx, s, commit("create")); err != nil {
				return err
			}
			works = append(works, (&saver{st: p, s: s, next: b.messages()}).save)
		}
		took, err := interleave(ctx, b.saves/20, b.saves/4, works...)
		if err != nil {
			return err
		}
		for i, h := range seeds[1:] {
			results = append(results, compareTimes("save.state."+h.key, "save beside 1 MiB in "+h.name+", to none", atMost(1.3), took[i+1], took[0]))
		}
		return nil
	})
	return results, err
}

type heavySeed struct {
	key, name string
	seed      session.Seed
}

// heavySeeds are states of nothing, and of a mebibyte each in another place.
func (b *bench) heavySeeds() ([]heavySeed, error) {
	const piece = 60 << 10 // one value of metadata is 64 KiB at most
	metadata, variables := session.Values{}, map[string]json.RawMessage{}
	for written := 0; written < mebibyte; written += piece {
		value, err := session.JSON(b.text.Text(min(piece, mebibyte-written)))
		if err != nil {
			return nil, err
		}
		key := fmt.Sprintf("part-%02d", written/piece)
		metadata[key], variables[key] = value, value
	}
	return []heavySeed{
		{key: "none"},
		{"metadata", "metadata", session.Seed{Metadata: metadata}},
		{"variables", "variables", session.Seed{Variables: variables}},
		{"prompt", "the system prompt", session.Seed{SystemPrompt: b.text.Text(mebibyte)}},
	}, nil
}
