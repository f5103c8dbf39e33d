package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// expenses reads the changes that may be answers, by the index of schema 17. A
// session that has not changed since a time has no answers since then; of one
// that is at work that is not known.
var expenses = `SELECT s.id, coalesce(l.agent_name, ''), coalesce(l.user_id, ''), coalesce(l.kind, ''), c.body
	FROM sessions s JOIN listing l ON l.sid = s.sid JOIN changes c ON c.log = s.sid
	WHERE s.tenant = @tenant AND (s.updated_at >= @from OR s.at_work) AND c.kind IN ('` + strings.Join(session.ExpenseKinds(), "', '") + `')`

// Spending adds up answers.
func (s *Store) Spending(ctx context.Context, tenant string, q store.SpendingQuery) (store.Spending, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant), q.Check()); err != nil {
		return store.Spending{}, err
	}
	var sum *store.SpendingSum
	err := s.retry(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		sum = store.NewSpendingSum(q)
		rows, err := conn.Query(ctx, expenses, pgx.NamedArgs{"tenant": tenant, "from": q.From})
		if err != nil {
			return err
		}
		var by store.Spender
		var body []byte
		_, err = pgx.ForEachRow(rows, []any{&by.ID, &by.Agent, &by.User, &by.Kind, &body}, func() error {
			r, err := decodeBody(body)
			sum.Add(by, r, err)
			return nil
		})
		return err
	})
	if err != nil {
		return store.Spending{}, err
	}
	return sum.Spending(), nil
}
