package inmem

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Spending adds up answers. It looks at every session of the tenant.
func (s *Store) Spending(ctx context.Context, tenant string, q store.SpendingQuery) (store.Spending, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant), q.Check()); err != nil {
		return store.Spending{}, err
	}
	sum, kinds := store.NewSpendingSum(q), session.ExpenseKinds()
	for _, own := range s.ownChanges(tenant) {
		i, err := decodeHeader(own.id, own.header)
		by := store.Spender{ID: own.id, Agent: i.AgentName, User: i.UserID, Kind: i.Kind}
		for _, c := range own.changes {
			if slices.Contains(kinds, c.kind) && err == nil {
				r, err := decodeRecord(own.id, c.data)
				sum.Add(by, r, err)
			}
		}
	}
	return sum.Spending(), nil
}

// written is what a session has written itself.
type written struct {
	id      string
	header  []byte
	changes []change
}

// ownChanges returns what the sessions of a tenant have written, without what
// forks share with their parents.
func (s *Store) ownChanges(tenant string) (all []written) {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	for r, w := range s.data.rows {
		if r.Tenant == tenant {
			all = append(all, written{r.ID, w.header, slices.Concat(w.log.own.changes, w.tail)})
		}
	}
	return all
}
