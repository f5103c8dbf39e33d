package sqlite

import (
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// expenses reads the changes that may be answers, by the index of migration 16.
// A session that has not changed since a time has no answers since then; of one
// that is open that is not known.
var expenses = `SELECT s.id, s.agent_name, s.user_id, s.kind, c.` + strings.ReplaceAll(columns, ", ", ", c.") + `
FROM sessions s JOIN changes c ON c.log = s.log
WHERE s.tenant = ? AND (s.updated_at >= ? OR s.open > 0) AND c.kind IN ('` + strings.Join(session.ExpenseKinds(), "', '") + `')`

// Spending adds up answers.
func (s *Store) Spending(ctx context.Context, tenant string, q store.SpendingQuery) (store.Spending, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant), q.Check()); err != nil {
		return store.Spending{}, err
	}
	sum := store.NewSpendingSum(q)
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, expenses, []any{tenant, micros(q.From)}, func(rows *rows) error {
			var by store.Spender
			var row logRow
			if err := row.scan(rows, &by.ID, &by.Agent, &by.User, &by.Kind); err != nil {
				return err
			}
			r, err := row.record(by.ID)
			sum.Add(by, r, err)
			return nil
		})
	})
	return sum.Spending(), err
}
