package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
)

// searchable is the condition of a change c that was not taken out of search.
const searchable = "NOT EXISTS (SELECT 1 FROM forgotten f WHERE f.log = c.log AND c.seq <= f.upto)"

// ForgetTranscripts takes what was said in the sessions of a user out of search,
// one log after the other, so that queued writes do not wait long.
func (s *Store) ForgetTranscripts(ctx context.Context, tenant, user string, dry bool) (int, error) {
	if err := s.usable(ctx, store.Owner{Tenant: tenant, Scope: store.ScopeUser, Name: user}.Check()); err != nil {
		return 0, err
	}
	var sessions int
	var logs []int64
	err := s.read(ctx, func(ctx context.Context, c *conn) error {
		if _, err := c.one(ctx, "SELECT count(*) FROM sessions WHERE tenant = ? AND user_id = ?", []any{tenant, user}, &sessions); err != nil {
			return err
		}
		return c.each(ctx, `WITH mine AS (SELECT log FROM sessions WHERE tenant = ? AND user_id = ?)
SELECT log FROM mine UNION SELECT ancestor FROM lineage JOIN mine USING (log)`, []any{tenant, user}, func(rows *rows) error {
			var log int64
			err := rows.Scan(&log)
			logs = append(logs, log)
			return err
		})
	})
	if err != nil || dry {
		return sessions, err
	}
	for _, log := range logs {
		if err := s.write(ctx, &request{keepsCache: true, do: func(ctx context.Context, c *conn) error { return c.forgetLog(ctx, log) }}); err != nil {
			return 0, err
		}
	}
	return sessions, nil
}

// forgetLog takes all messages of a log out of search.
func (c *conn) forgetLog(ctx context.Context, log int64) error {
	if _, err := c.exec(ctx, `INSERT INTO forgotten (log, upto) SELECT log, max(seq) FROM changes WHERE log = ? GROUP BY log
ON CONFLICT (log) DO UPDATE SET upto = excluded.upto`, log); err != nil {
		return err
	}
	c.onWrite("after forgetting")
	if err := c.unindex(ctx, log, wholeLog); err != nil {
		return err
	}
	return c.removeVectors(ctx, log, wholeLog)
}

// withoutForgotten leaves out the passages that were taken out of search.
func (c *conn) withoutForgotten(ctx context.Context, passages []passage) ([]passage, error) {
	upTo := map[int64]int64{}
	var kept []passage
	for _, p := range passages {
		last, known := upTo[p.log]
		if !known {
			if _, err := c.one(ctx, "SELECT upto FROM forgotten WHERE log = ?", []any{p.log}, &last); err != nil {
				return nil, err
			}
			upTo[p.log] = last
		}
		if p.seq > last {
			kept = append(kept, p)
		}
	}
	return kept, nil
}
