package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// errStop ends the reading of rows early.
var errStop = errors.New("stop")

// Sweepable lists sessions that are no longer wanted.
func (s *Store) Sweepable(ctx context.Context, tenant string, r store.Retention, now time.Time) ([]session.Info, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	r, err := r.Check()
	if err != nil {
		return nil, err
	}
	clock := s.now()
	var infos []session.Info
	err = s.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, `SELECT id, header, header_sum, lease_token, lease_holder, lease_until, lease_open FROM sessions s
WHERE tenant = ? AND tail_live = 0 AND NOT EXISTS (SELECT 1 FROM inbox WHERE log = s.log AND taken = 0)
ORDER BY updated_at, id`, []any{tenant}, func(rows *rows) error {
			var id, header string
			var sum int64
			l, err := scanLease(rows, &id, &header, &sum)
			if err != nil {
				return err
			}
			info, err := decodeHeader(store.Ref{Tenant: tenant, ID: id}, header, sum)
			if err == nil && r.Fits(info, now) && !l.Live(clock) {
				infos = append(infos, info)
			}
			if len(infos) == r.Limit {
				return errStop
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, errStop) {
		return nil, err
	}
	return infos, nil
}
