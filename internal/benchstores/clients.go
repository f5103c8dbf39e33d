package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// manyClients is the number of clients in the largest group.
const manyClients = 64

// clientGroup holds clients that write at the same time, each to its own session.
type clientGroup []work

// rate returns the writes per second of all clients together. Each writes at
// least once, however short the slice.
func (c clientGroup) rate(ctx context.Context, slice time.Duration) (float64, error) {
	var (
		done  = make([]int, len(c))
		errs  = make([]error, len(c))
		group sync.WaitGroup
	)
	begin := time.Now()
	for i, write := range c {
		group.Go(func() {
			for done[i] == 0 || errs[i] == nil && time.Since(begin) < slice {
				errs[i] = write(ctx)
				done[i]++
			}
		})
	}
	group.Wait()
	took := time.Since(begin)
	total := 0
	for _, n := range done {
		total += n
	}
	return float64(total) / took.Seconds(), errors.Join(errs...)
}

// rates lets groups write in turns and returns the median rate of each.
func (b *bench) rates(ctx context.Context, groups ...clientGroup) ([]float64, error) {
	all := make([][]float64, len(groups))
	for round := range b.slices + 1 {
		for i := range groups {
			turn := (round + i) % len(groups)
			rate, err := groups[turn].rate(ctx, b.slice)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first warms up
				all[turn] = append(all[turn], rate)
			}
		}
	}
	medians := make([]float64, len(groups))
	for i, found := range all {
		medians[i] = benchmark.Median(found)
	}
	return medians, nil
}

// savers makes a group of clients on a store.
func (b *bench) savers(ctx context.Context, st store.Store, clients int) (clientGroup, []store.Ref, error) {
	var (
		c    clientGroup
		refs []store.Ref
	)
	for i := range clients {
		w, err := b.newSaver(ctx, st, fmt.Sprintf("of-%d-%d", clients, i), 0)
		if err != nil {
			return nil, nil, err
		}
		c, refs = append(c, w.save), append(refs, store.RefOf(w.s))
	}
	return c, refs, nil
}

// concurrentSessions compares the rates of one, 8 and 64 sessions.
func concurrentSessions(ctx context.Context, b *bench) (results []Result, err error) {
	err = b.in(ctx, setting{clients: manyClients}, func(p *openedStore) error {
		clients := []int{1, 8, manyClients}
		var all []clientGroup
		for _, n := range clients {
			c, _, err := b.savers(ctx, p, n)
			if err != nil {
				return err
			}
			all = append(all, c)
		}
		rates, err := b.rates(ctx, all...)
		if err != nil {
			return err
		}
		for i, n := range clients[1:] {
			target := b.rateTarget
			if n != manyClients {
				target = nil
			}
			results = append(results, b.rateResult(rateKey(n), fmt.Sprintf("rate of %d sessions at once, to one", n), target, rates[i+1], rates[0]))
		}
		return nil
	})
	return results, err
}

func rateKey(clients int) string { return fmt.Sprintf("rate.%d", clients) }

// rateResult compares two rates.
func (b *bench) rateResult(key, name string, target *Target, a, c float64) Result {
	return Result{
		Key: key, Name: name, Target: target, Measured: a / c, N: b.slices,
		About: fmt.Sprintf("%s to %s", benchmark.AboutRate(a), benchmark.AboutRate(c)),
	}
}

// slowDisk compares 64 sessions with one if every commit takes a millisecond
// more, as on a common cloud disk.
func slowDisk(ctx context.Context, b *bench) (results []Result, err error) {
	slow := func(point string) {
		if b.commits(point) {
			time.Sleep(time.Millisecond)
		}
	}
	err = b.in(ctx, setting{onWrite: slow, clients: manyClients}, func(p *openedStore) error {
		one, _, err := b.savers(ctx, p, 1)
		if err != nil {
			return err
		}
		many, _, err := b.savers(ctx, p, manyClients)
		if err != nil {
			return err
		}
		rates, err := b.rates(ctx, one, many)
		if err != nil {
			return err
		}
		results = []Result{b.rateResult("rate.slow", fmt.Sprintf("rate of %d sessions to one, commits 1 ms slower", manyClients), atLeast(8), rates[1], rates[0])}
		return nil
	})
	return results, err
}

// concurrentFloor compares 64 clients of the store, each session with a listener,
// with 64 clients of the floor.
func concurrentFloor(ctx context.Context, b *bench) (results []Result, err error) {
	body := []byte(b.text.Text(benchmark.MessageBytes))
	err = b.in(ctx, setting{clients: manyClients}, func(p *openedStore) error {
		return b.beside(ctx, manyClients, func(f floor) error {
			savers, refs, err := b.savers(ctx, p, manyClients)
			if err != nil {
				return err
			}
			defer listenTo(p, refs)()
			var least clientGroup
			for i := range manyClients {
				least = append(least, func(ctx context.Context) error { return f.append(ctx, i, body) })
			}
			rates, err := b.rates(ctx, savers, least)
			if err != nil {
				return err
			}
			results = []Result{b.rateResult("rate.floor", fmt.Sprintf("rate of %d sessions with subscribers, to floor", manyClients), atLeast(0.6), rates[0], rates[1])}
			return nil
		})
	})
	return results, err
}

// listenTo subscribes to every session. The returned function stops it.
func listenTo(st store.Wakes, refs []store.Ref) func() {
	var (
		group sync.WaitGroup
		over  = make(chan struct{})
	)
	for _, r := range refs {
		news, stop := st.Subscribe(r)
		group.Go(func() {
			defer stop()
			for {
				select {
				case <-news:
				case <-over:
					return
				}
			}
		})
	}
	return func() {
		close(over)
		group.Wait()
	}
}
