package storetest

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// The stores of this file find the wrong work.

func workMutants() map[string]mutant {
	return map[string]mutant{
		"no work is found": {func(s Full) store.Store { return changedWork{s, func([]store.Waiting) []store.Waiting { return nil }} }, []string{
			"work/interruptedAndUnreadAreListed", "work/tasksAndRunsAreListed", "work/goesWithItsSession", "work/tenantsTakeTurns"}},
		"newest work first": {func(s Full) store.Store {
			return changedWork{s, func(found []store.Waiting) []store.Waiting { slices.Reverse(found); return found }}
		}, []string{"work/longestWaitingComeFirst", "work/tenantsTakeTurns"}},
		"work of everybody":     {func(s Full) store.Store { return workOfAll{s} }, []string{"work/heldAreNot", "work/interruptedAndUnreadAreListed", "work/callsAreDueWhenTheyExpire"}},
		"always the same turns": {func(s Full) store.Store { return sameTurns{s} }, []string{"work/tenantsTakeTurns"}},
	}
}

type changedWork struct {
	Full
	change func([]store.Waiting) []store.Waiting
}

func (m changedWork) Waiting(ctx context.Context, after string, limit int) ([]store.Waiting, error) {
	found, err := m.Full.Waiting(ctx, after, limit)
	return m.change(found), err
}

// workOfAll lists every session.
type workOfAll struct{ Full }

func (m workOfAll) Waiting(ctx context.Context, _ string, _ int) ([]store.Waiting, error) {
	page, err := m.List(ctx, session.DefaultTenant, store.Query{})
	var found []store.Waiting
	for _, i := range page.Items {
		found = append(found, store.Waiting{Ref: store.Ref{Tenant: i.Tenant, ID: i.ID}, Kind: i.Kind})
	}
	return found, err
}

// sameTurns begins with the first tenant every time.
type sameTurns struct{ Full }

func (m sameTurns) Waiting(ctx context.Context, _ string, limit int) ([]store.Waiting, error) {
	return m.Full.Waiting(ctx, "", limit)
}
