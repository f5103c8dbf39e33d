package storetest

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// The stores of this file add up wrongly.

func spendingMutants() map[string]mutant {
	spending := func(change func(*store.SpendingQuery)) func(Full) store.Store {
		return func(s Full) store.Store { return changedSpending{s, change} }
	}
	return map[string]mutant{
		"spending of every time":  {spending(func(q *store.SpendingQuery) { q.From, q.To = time.Time{}, time.Time{} }), []string{"spending/betweenTwoTimes"}},
		"spending by day only":    {spending(func(q *store.SpendingQuery) { q.By = store.ByDay }), []string{"spending/everyAnswerOnce", "spending/refusesWhatItCannotGroup"}},
		"spending of all tenants": {func(s Full) store.Store { return spendingOfAll{s} }, []string{"spending/everyAnswerOnce"}},
	}
}

type changedSpending struct {
	Full
	change func(*store.SpendingQuery)
}

func (m changedSpending) Spending(ctx context.Context, tenant string, q store.SpendingQuery) (store.Spending, error) {
	m.change(&q)
	return m.Full.Spending(ctx, tenant, q)
}

// spendingOfAll adds what another tenant spent.
type spendingOfAll struct{ Full }

func (m spendingOfAll) Spending(ctx context.Context, tenant string, q store.SpendingQuery) (store.Spending, error) {
	own, err := m.Full.Spending(ctx, tenant, q)
	if err != nil {
		return own, err
	}
	other, err := m.Full.Spending(ctx, "other", q)
	own.Groups = append(own.Groups, other.Groups...)
	return own, err
}
