package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// listings compares a page among many sessions with one among few.
func listings(ctx context.Context, b *bench) (results []Result, err error) {
	err = b.in(ctx, setting{clients: manyClients}, func(few *openedStore) error {
		return b.in(ctx, setting{clients: manyClients}, func(many *openedStore) error {
			if err := createSettled(ctx, few, b.few); err != nil {
				return err
			}
			if err := createSettled(ctx, many, b.sessions); err != nil {
				return err
			}
			took, err := interleave(ctx, b.reads/10, b.reads, listPage(many), listPage(few))
			if err != nil {
				return err
			}
			name := fmt.Sprintf("list page among %s sessions, to %s", benchmark.GroupDigits(int64(b.sessions)), benchmark.GroupDigits(int64(b.few)))
			results = []Result{compareTimes("list", name, atMost(1.5), took[0], took[1])}
			return nil
		})
	})
	return results, err
}

// createSettled creates sessions, and waits until the database knows how many it has.
func createSettled(ctx context.Context, st *openedStore, n int) error {
	if err := createMany(ctx, st, n); err != nil || st.settle == nil {
		return err
	}
	return st.settle(ctx)
}

// listPage reads the newest page.
func listPage(st store.Store) work {
	const page = 50
	return func(ctx context.Context) error {
		found, err := st.List(ctx, session.DefaultTenant, store.Query{Limit: page})
		if err == nil && (len(found.Items) != page || found.Next == "") {
			return fmt.Errorf("a page of %d sessions, not of %d with more to come", len(found.Items), page)
		}
		return err
	}
}

// createMany creates so many empty sessions, many at a time. They are a second
// apart, as those of people are.
func createMany(ctx context.Context, st store.Store, n int) error {
	var (
		group sync.WaitGroup
		errs  = make([]error, manyClients)
	)
	for i := range manyClients {
		group.Go(func() {
			for made := i; made < n && errs[i] == nil; made += manyClients {
				s, err := newSession(uuid.NewString(), session.Seed{})
				if err == nil {
					c := commit("create")
					c.At = c.At.Add(time.Duration(made-n) * time.Second)
					_, err = st.Create(ctx, s, c)
				}
				errs[i] = err
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
